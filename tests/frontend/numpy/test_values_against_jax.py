"""Values, dtypes and weak types that differed from the reference's; expected answers are its own (or NumPy's)."""

import ml_dtypes
import numpy as np
import pytest
import scipy.special as scipy_special

import tilewright as tw
from tilewright import lax, nn
from tilewright import numpy as jnp
from tilewright.core.ir.binding import under
from tilewright.core.support import errors
from tilewright.core.tracing.numpy_interpreter import NUMPY
from tilewright.scipy import ndimage, special, stats

BOOLS = np.array([True, False])
NAN, INF = np.nan, np.inf
INT8 = np.array([1, 2], np.int8)
X = np.arange(3, dtype=np.float32)
SQUARE = np.arange(4, dtype=np.float32).reshape(2, 2)
PAIRS = np.complex64([[1 + 2j, -3j], [0.5, 1e9 - 7j]])
FALLING = np.int32([2, 1, 0])
SMALLEST = np.float32([1e-45, -7e-45, 1e-39, 2e-38, 0.0])  # subnormal, but for the last two

# A name, the call, its values, their dtype.
VALUES = [
    ("an integer beyond int32 converted", lambda: lax.convert_element_type(2**32 + 3, "uint8"), 3, "uint8"),
    ("a long integer as a float", lambda: lax.convert_element_type(-(2**40), "float32"), -(2.0**40), "float32"),
    ("integrals with constants to spare", lambda: jnp.polyint(X, 1, np.float32([3, 4])), [0, 0.5, 2, 3], "float32"),
    ("taken by one-hot vectors", lambda: jnp.take_along_axis(X, FALLING - 2, mode="one_hot"), [0, 2, 1], "float32"),
    ("one-hot vectors of no place", lambda: jnp.take_along_axis(X, FALLING + 2, mode="one_hot"), [0, 0, 2], "float32"),
    ("fmod by 0", lambda: jnp.fmod(jnp.array([-3, 5]), 0), [0, 0], "int32"),
    ("gamma.pdf far away", lambda: stats.gamma.pdf(INF, np.float32([0.5, 1, 2])), [0, 0, 0], "float32"),
    ("gamma.logpdf far away", lambda: stats.gamma.logpdf(INF, np.float32([0.5, 1, 2])), [-INF] * 3, "float32"),
    ("hyp2f1 beyond 1", lambda: special.hyp2f1(3.0, 2.0, np.float32([3, 2]), 3.0), [0.25, -0.125], "float32"),
    ("cov with weights", lambda: jnp.cov(SQUARE.astype("bfloat16"), aweights=X[1:]), [[0.5] * 2] * 2, "float32"),
    ("fmod of uint8 by 0", lambda: jnp.fmod(jnp.array([3], "uint8"), np.uint8(0)), [0], "uint8"),
    ("isreal of bool", lambda: jnp.isreal(BOOLS), [True, True], "bool"),
    ("iscomplex of bool", lambda: jnp.iscomplex(BOOLS), [False, False], "bool"),
    ("bitwise_count of bool", lambda: jnp.bitwise_count(BOOLS), [1, 0], "uint8"),
    ("relu of bool", lambda: nn.relu(BOOLS), [1, 0], "int32"),
    ("relu6 of bool", lambda: nn.relu6(BOOLS), [1, 0], "float32"),
    ("relu6 of int", lambda: nn.relu6(jnp.array([7, -2])), [6, 0], "float32"),
    ("leaky_relu of bool", lambda: nn.leaky_relu(BOOLS), [1, 0], "float32"),
    ("hard_tanh of bool", lambda: nn.hard_tanh(BOOLS), [1, 0], "int32"),
    ("cumsum of int8", lambda: jnp.cumsum(INT8), [1, 3], "int8"),
    ("cumprod of int8", lambda: jnp.cumprod(INT8), [1, 2], "int8"),
    ("cumsum of uint8", lambda: jnp.cumsum(INT8.astype("uint8")), [1, 3], "uint8"),
    ("nancumsum of int8", lambda: jnp.nancumsum(INT8), [1, 3], "int8"),
    ("cumulative_prod of int8", lambda: jnp.cumulative_prod(INT8), [1, 2], "int32"),
    ("convolve of int", lambda: jnp.convolve(INT8, INT8), [1, 4, 4], "float32"),
    ("correlate of bool", lambda: jnp.correlate(BOOLS, BOOLS), [1], "float32"),
    ("insert into bool", lambda: jnp.insert(BOOLS, 1, 1), [True, True, False], "bool"),
    ("log10 of complex 0", lambda: jnp.log10(np.zeros(1, np.complex64)), [complex(-INF, 0)], "complex64"),
    ("log2 of complex 0", lambda: jnp.log2(np.zeros(1, np.complex64)), [complex(-INF, 0)], "complex64"),
    ("lax.log2 of complex numbers", lambda: lax.log2(np.complex64([0, INF])), [-INF, INF], "complex64"),
    ("repeat of a scalar", lambda: jnp.repeat(np.float32(1), 2, axis=0), [1, 1], "float32"),
    ("loggamma below 0", lambda: special.loggamma(jnp.array([-1.5, -2.0, 0.0, 1.0])), [NAN, NAN, NAN, 0], "float32"),
    ("logit' at 0", lambda: tw.vmap(tw.grad(special.logit))(jnp.array([0.0, 1.0, 0.5])), [INF, INF, 4], "float32"),
    ("nanmedian of nothing", lambda: jnp.nanmedian(jnp.array([])), NAN, "float32"),
    ("vander of int8", lambda: jnp.vander(INT8), [[1, 1], [2, 1]], "int8"),
    ("sin on the imaginary axis", lambda: jnp.sin(jnp.array([complex(0, INF)])), [complex(0, INF)], "complex64"),
    ("cos on the imaginary axis", lambda: jnp.cos(jnp.array([complex(0, INF)])), [complex(INF, 0)], "complex64"),
    ("0 to complex powers", lambda: jnp.power(0, np.complex64([1 + 1j, 2, 0])), [0, 0, 1], "complex64"),
    ("ldexp by unsigned", lambda: jnp.ldexp(X, np.uint32([5, 2**32 - 1, 3])), [0, INF, 16], "float32"),
    ("a shape that is an array", lambda: jnp.zeros(np.array(2)), [0, 0], "float32"),
    ("gcd of the least int8", lambda: jnp.gcd(jnp.int8(-128), jnp.int8(127)), 1, "int8"),
    ("array of float16 and int", lambda: jnp.array([np.float16(1), 2]), [1, 2], "float16"),
    ("array of int8 and int", lambda: jnp.array([np.int8(1), 2]), [1, 2], "int8"),
    ("at.min of complex", lambda: jnp.array([2 + 1j]).at[jnp.array([0])].min(2 + 0j), [2 + 0j], "complex64"),
    ("at.max of complex", lambda: jnp.array([2 + 1j]).at[jnp.array([0])].max(2 + 3j), [2 + 3j], "complex64"),
    ("pad of int8 by ramps", lambda: jnp.pad(np.int8([-3]), 2, mode="linear_ramp"), [0, -2, -3, -2, 0], "int8"),
    ("quantile of nothing", lambda: jnp.quantile(jnp.ones((0, 2)), 0.5, axis=0), [NAN, NAN], "float32"),
    ("cov of nothing", lambda: jnp.cov(jnp.ones((0, 4))), np.zeros((0, 0)), "float32"),
    ("exponents of the smallest", lambda: jnp.frexp(SMALLEST)[1], np.frexp(SMALLEST)[1], "int32"),
    ("mantissas of the smallest", lambda: jnp.frexp(SMALLEST)[0], np.frexp(SMALLEST)[0], "float32"),
    (
        "erfcx of complex",
        lambda: special.erfcx(np.complex64([0.5j, 2 + 1j])),
        scipy_special.erfcx([0.5j, 2 + 1j]),
        "complex64",
    ),
    (
        "ragged_dot of no groups",
        lambda: lax.ragged_dot(X[:, None], np.ones((0, 1, 2), "f"), INT8[:0]),
        np.zeros((3, 2)),
        "float32",
    ),
    ("pad of bool by ramps", lambda: jnp.pad(BOOLS, 2, mode="linear_ramp"), [0, 1, 1, 0, 0, 0], "bool"),
    ("digitize in falling bins", lambda: jnp.digitize(X, FALLING), np.digitize(X, FALLING), "int32"),
    ("to the right", lambda: jnp.digitize(X, FALLING, True), np.digitize(X, FALLING, True), "int32"),
    ("argwhere of a number", lambda: jnp.argwhere(3), np.zeros((1, 0)), "int32"),
    (
        "searchsorted of complex NaN",
        lambda: jnp.searchsorted(np.complex64([1, NAN]), np.complex64([0, NAN, 2])),
        [0, 1, 1],
        "int32",
    ),
    ("poly of a matrix", lambda: jnp.poly(np.float32([[2, 1], [0, 3]])), [1, -5, 6], "complex64"),
    ("poly of a number", lambda: jnp.poly(3.0), [1, -3], "float32"),
    ("roots with zeros in front", lambda: jnp.roots(jnp.array([0.0, 1, 2]), strip_zeros=False), [-2, NAN], "complex64"),
    (
        "polyadd of columns",
        lambda: jnp.polyadd(np.int32([[1, 2]]), np.int32([[3, 4], [5, 6]])),
        [[3, 4], [6, 8]],
        "int32",
    ),
    ("polyadd of a row", lambda: jnp.polyadd(np.int32([[5, 7], [8, 6]]), np.int32([2])), [[5, 7], [10, 8]], "int32"),
    ("piecewise by numbers", lambda: jnp.piecewise(X, np.bool_([0, 1]), [0.0, lambda x: -x]), -X, "float32"),
    ("a row by r_", lambda: jnp.r_["r", [1, 2], 3], [[1, 2, 3]], "int32"),
    ("a column by r_", lambda: jnp.r_["c", [1, 2], 3], [[1], [2], [3]], "int32"),
    ("broadcast by turned axes", lambda: lax.broadcast_in_dim(SQUARE, (2, 2), (1, 0)), SQUARE.T, "float32"),
    ("a mapped sum", lambda: tw.vmap(lambda x: 2 * x, out_axes=None, sum_match=True)(X), 6, "float32"),
    ("float8 by chance", lambda: tw.random.uniform(tw.random.key(0), (9,), "float8_e4m3fn") >= 0, [True] * 9, "bool"),
    ("roots of a number", lambda: jnp.roots(3.0), np.zeros(0), "complex64"),
    ("roots of a traced number", lambda: tw.jit(jnp.roots)(3.0), np.zeros(0), "complex64"),
    ("norm of no rows", lambda: jnp.linalg.norm(np.zeros((0, 2)), INF), 0, "float32"),
    ("norm of nothing", lambda: jnp.linalg.norm(np.zeros(0), INF), 0, "float32"),
    ("spectral norm of no rows", lambda: jnp.linalg.norm(np.zeros((0, 2)), 2), 0, "float32"),
    ("condition of zeros", lambda: jnp.linalg.cond(np.zeros((2, 2))), INF, "float32"),
    ("shares of -0", lambda: stats.cauchy.ppf(jnp.array([0.0, -0.0, 1.0])), [-INF, -INF, INF], "float32"),
    ("zeros_like of a key", lambda: tw.random.key_data(jnp.zeros_like(tw.random.key(3))), [0, 0], "uint32"),
    ("full_like of a key", lambda: tw.random.key_data(jnp.full_like(tw.random.key(3), 7)), [7, 7], "uint32"),
    (
        "ones of a key's dtype",
        lambda: tw.random.key_data(jnp.ones(2, tw.random.key(3).dtype)),
        np.ones((2, 2)),
        "uint32",
    ),
    *(
        (f"complex as {dtype}", lambda dtype=dtype: jnp.array(PAIRS).view(dtype), PAIRS.view(dtype), dtype)
        for dtype in ("int8", "float32", "uint32")
    ),
    *(
        (f"{dtype} as complex", lambda dtype=dtype: jnp.array(PAIRS.view(dtype)).view("complex64"), PAIRS, "complex64")
        for dtype in ("int8", "float32", "uint32")
    ),
    (
        "sparse_sigmoid'",
        lambda: tw.vmap(tw.grad(nn.sparse_sigmoid))(jnp.array([-1.0, 1.0, 0.0, 2.0])),
        [0.25, 0.25, 0.5, 0.0],
        "float32",
    ),
]


@pytest.mark.law
@pytest.mark.parametrize("call,expected,dtype", [row[1:] for row in VALUES], ids=[row[0] for row in VALUES])
def test_values(call, expected, dtype):
    found = call()
    assert found.dtype == np.dtype(dtype)
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-6, atol=1e-6)


# Calls whose result is a strong float32: times bfloat16 it stays float32.
STRONG = {
    "at[...].set": lambda: jnp.asarray(X).at[...].set(2.0),
    "at[::-1].set": lambda: jnp.asarray(X).at[::-1].set(2.0),
    "at[None].set": lambda: jnp.asarray(X).at[None].set(2.0),
    "at[()].set": lambda: jnp.float32(1).at[()].set(2.0),
    "softplus of int": lambda: nn.softplus(jnp.array([7, -2])),
    "hypot": lambda: jnp.hypot(jnp.array([3]), 2.0),
    "heaviside": lambda: jnp.heaviside(jnp.array([3, 0]), 2.0),
    "logaddexp2": lambda: jnp.logaddexp2(jnp.array([3]), 2.0),
    "rint of a number": lambda: jnp.rint(2),
    "choose of numbers": lambda: jnp.choose(1, [1.0, 2.0]),
    "the step of linspace": tw.jit(lambda: jnp.linspace(0.0, 3.0, 4, retstep=True)[1]),
    "gammasgn": lambda: special.gammasgn(jnp.array([1.0])),
    "gamma of a number": lambda: special.gamma(2.0),
    "beta of numbers": lambda: special.beta(2.0, 1.0),
    "log10 of a number": lambda: jnp.log10(2.0),
    "angle of a number": lambda: jnp.angle(2.0),
    "nan_to_num of a number": lambda: jnp.nan_to_num(2.0),
    "cumsum of a number": lambda: jnp.cumsum(2.0),
    "betabinom.pmf of int": lambda: stats.betabinom.pmf(jnp.array([1]), 3.0, 1, 1),
    "cauchy.ppf of bool": lambda: stats.cauchy.ppf(BOOLS),
    "trapezoid of int8": lambda: jnp.trapezoid(INT8),
    "trapezoid of bool": lambda: jnp.trapezoid(BOOLS),
    "array of arrays": lambda: jnp.array([jnp.array(1.0), 2.0]),
    "a loop's int carry made float": lambda: lax.fori_loop(0, 3, lambda i, c: c * 2.0, 1),
    "a while loop's int carry made float": lambda: lax.while_loop(lambda c: c < 5, lambda c: c + 1.5, 0),
    "a scan's int carry made float": lambda: lax.scan(lambda c, _: (c * 1.5, c), 1, None, length=3)[0],
    "sum of a number": lambda: jnp.sum(1.0),
    "max of a number": lambda: jnp.max(1.0),
    "mean of a number": lambda: jnp.mean(1.0),
    "gelu of a number": lambda: nn.gelu(1.0),
    "astype of the same dtype": lambda: jnp.asarray(2.0).astype("float32"),
}


@pytest.mark.parametrize("name", STRONG)
def test_results_that_are_strong(name):
    found = STRONG[name]()
    assert found.dtype == np.float32 and not found.weak_type
    assert (found * ml_dtypes.bfloat16(2)).dtype == np.float32


@pytest.mark.parametrize("call", [jnp.equal, jnp.less, lax.eq, lambda a, b: jnp.isnan(a - b)])
def test_comparisons_of_numbers_are_weak(call):
    assert call(1.0, 2.0).weak_type and call(jnp.array(1.0), 2).weak_type
    assert not call(jnp.ones(1), 2.0).weak_type and not jnp.all(call(1.0, 2.0)).weak_type


def test_results_of_numbers_of_any_kind_are_weak():
    assert all(found.weak_type for found in (jnp.add(True, 1), jnp.divmod(7, True)[1], jnp.reciprocal(1j)))
    found = [f(True, 2) for f in (jnp.hypot, jnp.lcm, jnp.gcd, jnp.heaviside)]
    assert all(x.weak_type for x in found) and not jnp.hypot(True, np.float32(2)).weak_type
    assert not jnp.hypot(BOOLS, 2).weak_type and not jnp.ravel_multi_index((1, 2), (2, 3)).weak_type


@pytest.mark.parametrize("call", [lambda i: jnp.sum(SQUARE, i), lambda i: jnp.delete(X, i[None])])
def test_traced_axes_and_positions_are_errors_of_one_class(call):
    with pytest.raises(tw.errors.ConcretizationTypeError):
        tw.jit(call)(np.int32(0))


def test_rules_of_several_kinds_on_one_function():
    @tw.custom_vjp
    @tw.custom_batching.custom_vmap
    def f(x):
        return x * x

    f.defvjp(lambda x: (f(x), x), lambda x, ct: (7.0 * x * ct,))
    f.def_vmap(lambda size, batched, xs: (xs - 1.0, True))
    assert tw.grad(f)(2.0) == 14.0
    np.testing.assert_array_equal(tw.vmap(f)(jnp.array([3.0])), [2.0])
    with pytest.raises(AttributeError, match="no attribute 'undefined'"):
        _ = f.undefined


WEAK_OF_INTS = ("celu", "relu6", "hard_sigmoid", "hard_silu", "sparse_plus", "sparse_sigmoid")
WEAK = {
    "full": lambda: jnp.full(2, 3.0),
    "copysign of int": lambda: jnp.copysign(INT8, 2.0),
    "angle of a complex number": lambda: jnp.angle(1j),
    "ones_like": lambda: jnp.ones_like(2.0),
    "full_like": lambda: jnp.full_like(2.0, 3),
    "zeros_like of a weak array": lambda: jnp.zeros_like(jnp.asarray(2.0)),
    "full in a trace": lambda: tw.jit(lambda: jnp.full(2, 3.0))(),
    "elu of int": lambda: nn.elu(jnp.array([1, -1])),
    "selu of int": lambda: nn.selu(jnp.array([1, -1])),
    **{f"{name} of int": lambda name=name: getattr(nn, name)(jnp.array([1, -1])) for name in WEAK_OF_INTS},
    **{f"{name} of bool": lambda name=name: getattr(nn, name)(BOOLS) for name in ("mish", "relu6", "softplus")},
    "hypot of two numbers": lambda: jnp.hypot(3.0, 4.0),
}


@pytest.mark.parametrize("name", WEAK)
def test_results_that_are_weak(name):
    found = WEAK[name]()
    assert found.dtype == np.float32 and found.weak_type
    assert (found * ml_dtypes.bfloat16(2)).dtype == jnp.bfloat16


STRETCHED = {
    "add": (lax.add, np.add), "mul": (lax.mul, np.multiply), "max": (lax.max, np.maximum),
    "lt": (lax.lt, np.less), "pow": (lax.pow, np.power), "atan2": (lax.atan2, np.arctan2),
    "complex": (lax.complex, lambda x, y: x + 1j * y),
}  # fmt: skip


@pytest.mark.parametrize("name", STRETCHED)
def test_functions_of_lax_stretch_axes_of_size_one(name):
    ours, numpys = STRETCHED[name]
    x, y = np.float32([[1, 2, 3]]), np.float32([[1], [2]])
    np.testing.assert_allclose(ours(x, y), numpys(x, y), rtol=1e-6)
    np.testing.assert_allclose(tw.jit(ours)(x, np.tile(y, 3)), numpys(x, y), rtol=1e-6)
    for bad in (np.ones(3, np.float32), np.ones((2, 2), np.float32)):
        with pytest.raises(errors.ShapeError):
            ours(x, bad)


@pytest.mark.parametrize("name", ["relu", "relu6", "hard_tanh"])
def test_activations_of_python_numbers_are_weak(name):
    assert getattr(nn, name)(1.0).weak_type


# Calls that raised an error without a name, or none; and what they raise now.
RAISES = {
    "zeros of text": (lambda: jnp.zeros(2, "U1"), errors.DtypeError, "dtype <U1"),
    "a step of zero": (lambda: jnp.arange(3)[::0], ValueError, "step zero"),
    "one array joined along no axis of its": (lambda: jnp.concatenate([jnp.ones(2)], axis=3), errors.AxisError, "3"),
    "an int too large for jit": (lambda: tw.jit(lambda x: x)(2**31), errors.IntegerOverflowError, "2147483648"),
    "an int too large to add": (lambda: jnp.array([1]) + 2**31, errors.IntegerOverflowError, "2147483648"),
    "int of complex": (lambda: int(jnp.array(2 + 1j)), errors.ArgumentTypeError, "x.real"),
    "float of complex": (lambda: float(jnp.array(2 + 1j)), errors.ArgumentTypeError, "x.real"),
    "an int of a complex number": (lambda: jnp.array(1j, "int8"), errors.ArgumentTypeError, "`real`"),
    "floats of complex numbers": (lambda: jnp.array([1, 2j], "float32"), errors.ArgumentTypeError, "`real`"),
    "an odd number of parts": (lambda: jnp.ones(3).view("complex64"), errors.ShapeError, "divide"),
    "array_split into 0": (lambda: jnp.array_split(jnp.ones(3), 0), errors.ArgumentError, "into 0 parts"),
    "diff with no axis": (lambda: jnp.diff(jnp.ones(3), axis=None), errors.ArgumentTypeError, "axis None"),
    "pad of too many pairs": (lambda: jnp.pad(1.0, 1, constant_values=((1, 2), (3, 4))), errors.ShapeError, "pair"),
    "attention of numbers": (lambda: nn.dot_product_attention(1.0, 1.0, 1.0), errors.ShapeError, "query"),
    **{
        f"{name} on diagonal x": (lambda f=f: f(SQUARE, k="x"), errors.ArgumentTypeError, f"{name}: k .*'x'")
        for name, f in (("tril", jnp.tril), ("triu", jnp.triu), ("diag", jnp.diag), ("rot90", jnp.rot90))
    },
    "tri on diagonal x": (lambda: jnp.tri(2, k="x"), errors.ArgumentTypeError, "tri: k .*'x'"),
    "x greatest": (lambda: lax.top_k(X, "x"), errors.ArgumentTypeError, "top_k: k .*'x'"),
    "one_hot along 1.5": (lambda: nn.one_hot(INT8, 3, axis=1.5), errors.ArgumentTypeError, "one_hot: axis .*1.5"),
    "one_hot of x classes": (lambda: nn.one_hot(INT8, "x"), errors.ArgumentTypeError, "one_hot: num_classes .*'x'"),
    "unpackbits less than all": (
        lambda: jnp.unpackbits(np.zeros(1, np.uint8), count=-9),
        errors.ArgumentError,
        "8 bits, with count=-9",
    ),
    "cov less x": (lambda: jnp.cov(SQUARE, ddof="x"), errors.ArgumentTypeError, "cov: ddof .*'x'"),
    "cumsum along two axes": (lambda: lax.cumsum(SQUARE, (0, 0)), errors.ArgumentTypeError, r"cumsum: axis .*\(0, 0\)"),
    "repeat None times": (lambda: jnp.repeat(X, None), errors.ArgumentTypeError, "repeats .*None"),
    "repeat by a matrix": (lambda: jnp.repeat(X, SQUARE.astype(int)), errors.ShapeError, r"\(2, 2\) for 3"),
    "repeat by too few": (lambda: jnp.repeat(X, INT8), errors.ShapeError, r"\(2,\) for 3"),
    "insert before text": (lambda: jnp.insert(X, "x", 1.0), errors.ArgumentTypeError, "insert: indices .*'x'"),
    "argmax with two axes": (lambda: jnp.argmax(jnp.ones((2, 2)), axis=(0, 1)), errors.ArgumentTypeError, "axis"),
}


@pytest.mark.parametrize("name", RAISES)
def test_errors(name):
    call, kind, text = RAISES[name]
    with pytest.raises(kind, match=text):
        call()


def test_types_promote_to_64_bits_with_any_configuration():
    pairs = (("int8", "int64"), ("bool", "float64"), ("int8", "uint64"), (int, "int8"))
    assert [jnp.promote_types(*pair) for pair in pairs] == ["int64", "float64", "float64", "int8"]
    assert jnp.result_type("int8", "int64") == "int32"


def test_algorithms_of_products_by_name():
    for preset in lax.DotAlgorithmPreset:
        assert lax.Precision(preset.name) is preset.precision
    np.testing.assert_allclose(lax.dot(X, X, precision="BF16_BF16_F32_X9"), 5.0)


def test_complex_matrices_are_orthogonal():
    q = np.asarray(tw.random.orthogonal(tw.random.key(0), 4, (2,), "complex64", 3))
    np.testing.assert_allclose(q.conj().swapaxes(1, 2) @ q, np.broadcast_to(np.eye(3), (2, 3, 3)), atol=1e-5)
    assert (q.imag != 0).all()


def test_dtypes_of_keys_are_of_no_kind_of_number():
    dtype = tw.random.key(0).dtype
    assert not jnp.issubdtype(dtype, np.floating) and jnp.issubdtype(dtype, np.generic)


@pytest.mark.parametrize("name", ["median", "trapezoid", "mean", "sin"])
def test_functions_of_integers_under_strict_promotion(name):
    with tw.numpy_dtype_promotion("strict"):
        assert getattr(jnp, name)(jnp.asarray(INT8)).dtype == np.float32


@pytest.mark.parametrize("call,dtype", [
    (lambda: jnp.mgrid[0:2, 0:1.5], "float32"),
    (lambda: jnp.ogrid[0:2:3j, 0:3][1], "float32"),
    (lambda: jnp.vander(INT8), "int8"),
    (lambda: jnp.corrcoef(np.complex64([[1, 2j, 3], [2, 1, 1j]])), "complex64"),
    (lambda: ndimage.map_coordinates(INT8, [np.float32([0.5])], 1), "int8"),
])  # fmt: skip
def test_what_has_numbers_of_its_own_is_not_strict_about_them(call, dtype):
    plain = call()
    with tw.numpy_dtype_promotion("strict"):
        found = call()
    assert found.dtype == plain.dtype == dtype
    np.testing.assert_array_equal(found, plain)


# Under strict promotion: what raises, and what a Python number of the array's kind or a lesser one gives.
STRICT = [
    ("int8", 1.0, None),
    ("int8", 1, "int8"),
    ("uint8", 1, "uint8"),
    ("float32", 1, "float32"),
    ("float32", 1j, None),
    ("float32", True, None),
    ("bool", 1, None),
    ("bool", 1.0, None),
    ("complex64", 1.0, "complex64"),
]


@pytest.mark.parametrize("dtype,number,expected", STRICT)
def test_strict_promotion(dtype, number, expected):
    with tw.numpy_dtype_promotion("strict"):
        x = jnp.asarray(np.ones(1, dtype))
        if expected is None:
            with pytest.raises(errors.DtypeError, match="strict"):
                x * number
        else:
            assert (x * number).dtype == np.dtype(expected)


@pytest.mark.parametrize(
    "call",
    [jnp.sinc, lambda x: stats.dirichlet.pdf(x, x), lambda x: stats.norm.logpdf(x, x, x), lambda x: jnp.hypot(x, x)],
)
def test_constants_of_narrow_floats_keep_their_dtype(call):
    x = np.array([0.25, 0.75], ml_dtypes.bfloat16)
    assert tw.jit(lambda: call(x))().dtype == call(x).dtype == jnp.bfloat16


NARROW = [  # with types of 64 bits
    (lambda: jnp.sin(np.int32([1])), "float32"), (lambda: jnp.sin(np.array([True])), "float32"),
    (lambda: jnp.mean(np.uint8([1, 2])), "float32"), (lambda: jnp.asarray(np.int32(3)) / np.int32(2), "float32"),
    (lambda: jnp.sin(np.int64([1])), "float64"), (lambda: jnp.sin(3), "float64"),
    (lambda: jnp.sort_complex(np.int64([1])), "complex128"), (lambda: jnp.sort_complex(np.int32([1])), "complex64"),
    (lambda: jnp.quantile(np.float32([1, 2]), np.float64(0.5)), "float32"),
    (lambda: jnp.quantile(np.float16([1, 2]), np.float32(0.5)), "float16"),
    (lambda: jnp.linalg.lstsq(np.eye(2), np.ones(2))[2], "int64"),
]  # fmt: skip


@pytest.mark.parametrize("call,dtype", NARROW)
def test_integers_of_32_bits_become_float32(call, dtype):
    with tw.config(enable_x64=True):
        assert tw.eval_shape(call).dtype == dtype


def test_weights_of_float32_make_narrow_points_float32():
    x, y, w = np.arange(4.0).astype(np.float16), np.array([1, 2, 5, 9], np.float16), np.arange(1, 5, dtype=np.float32)
    found = jnp.polyfit(x, y, 1, w=w)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.polyfit(x.astype(float), y.astype(float), 1, w=w), rtol=1e-4)


def test_negative_weights_of_a_covariance_count_as_positive():
    x, importance, counts = np.arange(12.0).reshape(3, 4) ** 2, np.array([1.0, -2.0, 3.0, 0.5]), np.array([1, -2, 1, 3])
    wanted = np.cov(x, fweights=abs(counts), aweights=abs(importance))
    np.testing.assert_allclose(jnp.cov(x, fweights=counts, aweights=importance), wanted, rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_covariances_of_narrow_numbers_are_summed_in_float32(dtype):
    x = jnp.asarray(np.random.default_rng(0).normal(size=(3, 40)) + 5, dtype)
    weights = np.arange(1, 41, dtype=np.float32)
    wide = np.asarray(x).astype(np.float64)
    np.testing.assert_allclose(jnp.cov(x, aweights=weights), np.cov(wide, aweights=weights), rtol=1e-4, atol=1e-5)
    found = jnp.cov(x)
    assert found.dtype == x.dtype
    np.testing.assert_allclose(found.astype(np.float32), np.cov(wide), rtol=1e-2, atol=1e-3)


def test_the_upper_bit_of_unsigned_integers_is_repeated():
    x, by = np.array([255, 128, 7], np.uint8), np.array([2, 1, 9], np.uint8)
    for found in (lax.shift_right_arithmetic(x, by), under(NUMPY, lambda: lax.shift_right_arithmetic(x, by))):
        assert np.asarray(found).tolist() == [255, 192, 0]


def test_windows_of_no_indices_need_no_elements():
    numbers = lax.GatherDimensionNumbers(offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    x, none = np.zeros((0, 3), np.float32), np.zeros((0, 1), np.int32)
    assert tw.jit(lambda x, i: lax.gather(x, i, numbers, (1, 3)))(x, none).shape == (0, 3)


@pytest.mark.parametrize("name", ["lstsq", "polyfit"])
def test_narrow_floats_are_refused_by_name(name):
    x = np.array([1, 2, 4], ml_dtypes.bfloat16)
    with pytest.raises(errors.DtypeError, match="svd|lstsq"):
        jnp.polyfit(x, x, 1) if name == "polyfit" else jnp.linalg.lstsq(x[:, None], x)
