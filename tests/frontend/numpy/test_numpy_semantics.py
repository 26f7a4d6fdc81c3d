"""What NumPy does not say: weak types, masks, sizes within jit, transformations, and the errors."""

import ast
import functools
import importlib
import inspect

import numpy as np
import pytest

import tilewright as tw
from tests.support import laws
from tilewright import lax, scipy
from tilewright import numpy as jnp
from tilewright.core.ir.binding import under
from tilewright.core.support import errors
from tilewright.core.tracing.numpy_interpreter import NUMPY


def check(found, expected, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)


def test_weak_types_do_not_widen():
    half = jnp.ones(3, jnp.bfloat16)
    for result in (
        half + 1.0,
        jnp.add(half, 2),
        jnp.where(half > 0, half, 0.0),
        jnp.clip(half, 0, 1),
        jnp.maximum(half, 0.5),
    ):
        assert result.dtype == jnp.bfloat16
    assert (jnp.arange(3) + 1.5).dtype == np.float32
    assert jnp.asarray(1.0).weak_type and not jnp.asarray(np.float32(1)).weak_type
    assert jnp.result_type(jnp.int8, 1.0) == np.float32


def test_dtypes_that_are_named_are_strong():
    makes = [
        jnp.asarray, jnp.array, lambda x, d: jnp.full((2,), x, d), lambda x, d: jnp.full_like(X, x, d),
        lambda x, d: jnp.concatenate([x[None]], dtype=d), lambda x, d: jnp.stack([x, x], dtype=d),
    ]  # fmt: skip
    for make in makes:
        assert not tw.eval_shape(lambda x, make=make: make(x, np.float32), 2.5).weak_type


@pytest.mark.parametrize("name", ["sum", "mean", "prod", "max", "cumsum", "sort", "median", "var"])
def test_half_precision_stays(name):
    assert getattr(jnp, name)(jnp.ones((2, 3), jnp.bfloat16)).dtype == jnp.bfloat16


def test_half_sums_are_accumulated_in_float32():
    check(jnp.sum(jnp.ones(4096, jnp.bfloat16)), 4096)


@pytest.mark.law
@pytest.mark.parametrize(
    "call,expected",
    [
        (lambda x: jnp.nonzero(x, size=4, fill_value=-1)[0], [1, 3, -1, -1]),
        (lambda x: jnp.flatnonzero(x, size=1), [1]),
        (lambda x: jnp.unique(x, size=3, fill_value=9), [0, 2, 5]),
        (lambda x: jnp.unique(x, size=4, fill_value=9), [0, 2, 5, 9]),
        (lambda x: jnp.unique(x, size=3, return_counts=True)[1], [2, 1, 1]),
        (lambda x: jnp.unique(x, size=3, return_inverse=True)[1], [0, 1, 0, 2]),
        (lambda x: jnp.unique(x, size=3, return_index=True)[1], [0, 1, 3]),
        (lambda x: jnp.bincount(x, length=7), [2, 0, 1, 0, 0, 1, 0]),
        (lambda x: jnp.union1d(x, x + 1, size=6, fill_value=-1), [0, 1, 2, 3, 5, 6]),
        (lambda x: jnp.intersect1d(x, jnp.array([5, 0]), size=3, fill_value=-1), [0, 5, -1]),
        (lambda x: jnp.setdiff1d(x, jnp.array([5]), size=3, fill_value=-1), [0, 2, -1]),
        (lambda x: jnp.setxor1d(x, jnp.array([5, 7]), size=3, fill_value=-1), [0, 2, 7]),
        (lambda x: jnp.extract(x > 0, x, size=3), [2, 5, 0]),
        (lambda x: jnp.compress(x > 0, x, size=3, fill_value=-2), [2, 5, -2]),
        (lambda x: jnp.argwhere(x, size=2)[:, 0], [1, 3]),
        (lambda x: jnp.repeat(x, jnp.array([1, 2, 0, 1]), total_repeat_length=5), [0, 2, 2, 5, 5]),
        (lambda x: jnp.place(x, x > 0, jnp.array([7, 8]), inplace=False), [0, 7, 0, 8]),
        (lambda x: jnp.put(x, jnp.array([0, -1]), jnp.array([4, 6]), inplace=False), [4, 2, 0, 6]),
        (lambda x: jnp.roll(x, x[1]), [0, 5, 0, 2]),
        (lambda x: jnp.take(x, jnp.array([9, 1]), mode="clip"), [5, 2]),
        (lambda x: jnp.take(x, jnp.array([9, 1]), fill_value=-5), [-5, 2]),
        (lambda x: jnp.top_k(x, 2)[0], [5, 2]),
        (lambda x: jnp.top_k(x, 2, mode="smallest")[1], [0, 2]),
        (lambda x: jnp.searchsorted(jnp.sort(x), x, method="sort"), [0, 2, 0, 3]),
        (lambda x: jnp.searchsorted(jnp.sort(x), x, side="right", method="compare_all"), [2, 3, 2, 4]),
        (lambda x: jnp.searchsorted(jnp.sort(x), x, method="scan_unrolled"), [0, 2, 0, 3]),
        (lambda x: jnp.isin(x, jnp.array([5, 0])), [True, False, True, True]),
        (lambda x: jnp.delete(x, x[1]), [0, 2, 5]),
        (lambda x: x.at[jnp.argmax(x)].set(1), [0, 2, 0, 1]),
        (lambda x: jnp.sort(x, descending=True), [5, 2, 0, 0]),
        (lambda x: jnp.argsort(x, descending=True), [3, 1, 0, 2]),
        (lambda x: jnp.fill_diagonal(jnp.zeros((2, 2), int), x[:2], inplace=False)[1], [0, 2]),
        (lambda x: jnp.put_along_axis(x[None], jnp.array([[0]]), 9, 1, inplace=False)[0], [9, 2, 0, 5]),
        (lambda x: jnp.choose(jnp.clip(x, 0, 1), [x, -x], mode="clip"), [0, -2, 0, -5]),
    ],
)
def test_sizes_within_jit(call, expected):
    x = jnp.array([0, 2, 0, 5])
    check(tw.jit(call)(x), expected)
    check(call(x), expected)


GRADIENTS = {
    "logaddexp": lambda x: jnp.logaddexp(x, -x),
    "softmax": lambda x: tw.nn.softmax(x) ** 2,
    "sinc": jnp.sinc,
    "var": lambda x: jnp.var(x, 0),
    "std": lambda x: jnp.std(x, 1),
    "norm": lambda x: jnp.linalg.norm(x, axis=1),
    "cumsum": lambda x: jnp.cumsum(x, 1) ** 2,
    "prod": lambda x: jnp.prod(x, 1),
    "sort": lambda x: jnp.sort(x, 0) ** 2,
    "take": lambda x: jnp.take(x, jnp.array([0, 2, 2]), 0) ** 2,
    "einsum": lambda x: jnp.einsum("ij,kj->ik", x, x),
    "pad": lambda x: jnp.pad(x, 2, mode="reflect") ** 2,
    "median": lambda x: jnp.median(x, 1) ** 2,
    "interp": lambda x: jnp.interp(x, jnp.array([-2.0, 0.1, 3.0]), jnp.array([1.0, 5.0, 2.0])),
    "hypot": lambda x: jnp.hypot(x, 2.0),
    "power": lambda x: (x + 5) ** jnp.float32(1.5),
    "quantile": lambda x: jnp.quantile(x, 0.3),
    "convolve": lambda x: jnp.convolve(x[0], x[1]),
    "matmul": lambda x: x @ x.T,
    "clip": lambda x: jnp.clip(x, -1, 1) ** 2,
    "logsumexp": lambda x: tw.nn.logsumexp(x, 0),
    "gelu": tw.nn.gelu,
    "standardize": lambda x: tw.nn.standardize(x) ** 3,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_against_differences(name):
    with laws.numpy_meaning():
        x = jnp.asarray(np.random.default_rng(1).uniform(-1.9, 1.9, (3, 4)))
        weight = np.random.default_rng(2).uniform(0.5, 1.5, np.shape(GRADIENTS[name](x)))

        def loss(v):
            return jnp.sum(GRADIENTS[name](v) * weight)

        step = np.random.default_rng(3).uniform(-1, 1, (3, 4))
        difference = (loss(x + 1e-5 * step) - loss(x - 1e-5 * step)) / 2e-5
        check(jnp.sum(tw.grad(loss)(x) * step), difference, 1e-6)


def test_gradients_at_singular_points():
    inf = float("inf")
    check(tw.grad(lambda x: jnp.logaddexp(x, -inf))(-inf), 1.0)
    check(tw.grad(jnp.sinc)(0.0), 0.0)
    check(tw.grad(tw.grad(jnp.sinc))(0.0), -(np.pi**2) / 3, 1e-4)
    check(tw.grad(tw.nn.relu)(0.0), 0.0)
    check(tw.grad(lambda x: tw.nn.elu(x))(200.0), 1.0)
    check(tw.grad(lambda x: jnp.where(x > 0, x, 0.0))(0.0), 0.0)


@pytest.mark.law
@pytest.mark.parametrize(
    "call",
    [
        lambda x: jnp.quantile(x, 0.3),
        jnp.sort,
        jnp.argmax,
        jnp.median,
        lambda x: jnp.pad(x, 1, mode="edge"),
        lambda x: jnp.roll(x, 1),
        lambda x: jnp.searchsorted(jnp.sort(x), 0.5),
        lambda x: jnp.einsum("i,i", x, x),
        lambda x: jnp.take_along_axis(x, jnp.argsort(x), 0),
        lambda x: jnp.cumsum(x),
        lambda x: jnp.unique(x, size=3),
        lambda x: jnp.histogram(jnp.sin(x), 4)[0],
        lambda x: tw.nn.softmax(x),
        jnp.nanmean,
        lambda x: jnp.interp(x, x * 0 + jnp.arange(4.0), x),
    ],
)
def test_vmap_is_a_loop(call):
    check(tw.vmap(call)(X), np.stack([np.asarray(call(row)) for row in X]))


NUMBERS = {
    "var": lambda x, n: jnp.var(x, ddof=n),
    "nanstd": lambda x, n: jnp.nanstd(x, ddof=n),
    "standardize": lambda x, n: jnp.sum(tw.nn.standardize(x, epsilon=n) ** 2),
    "attention": lambda x, n: jnp.sum(tw.nn.dot_product_attention(*[x[:, None]] * 3, scale=n) ** 2),
    "interp": lambda x, n: jnp.sum(jnp.interp(x[0], x[1], x[2] ** 2, period=n)),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_beside_arrays_are_differentiated_and_batched(name):
    """Of a call outside of `jit` they are part of what is compiled, unless they are traced."""
    f = functools.partial(NUMBERS[name], X.astype(np.float64))
    with laws.numpy_meaning():
        check(tw.grad(f)(1.3), (f(1.3 + 1e-5) - f(1.3 - 1e-5)) / 2e-5, 1e-6)
        check(tw.vmap(f)(np.array([1.3, 0.7])), [f(1.3), f(0.7)], 1e-6)


def test_a_power_of_a_half_is_no_square_root():
    x, half = np.array([-np.inf, -0.0], np.float32), np.array([0.5, 0.5], np.float32)
    for power in (jnp.power, lambda *args: under(NUMPY, jnp.power, *args)):
        for found in (power(x, half), power(x, half[0]), [power(x[0], half[0]), power(x[1], half[0])]):
            assert np.asarray(found).tolist() == [np.inf, 0] and not np.signbit(found).any()


def test_the_offset_of_a_trace_may_be_traced():
    found = tw.vmap(lambda k: jnp.trace(X, k))(np.arange(-4, 5))
    check(found, [np.trace(X, k) for k in range(-4, 5)])


@pytest.mark.parametrize("text, f", [
    ("fill_value", lambda n: jnp.asarray(X).at[9].get(mode="fill", fill_value=n)[0]),
    ("fill_value", lambda n: jnp.take(X, 99, fill_value=n)), ("order of a norm", lambda n: jnp.linalg.norm(X[0], n)),
])  # fmt: skip
def test_what_may_not_be_traced_is_refused_where_its_value_is_known(text, f):
    with pytest.raises(errors.ConcretizationError, match=text):
        tw.grad(f)(3.0)


def test_ufunc_methods():
    check(jnp.add.reduce(X, axis=1), X.sum(1))
    check(jnp.logaddexp.reduce(X, axis=0), np.logaddexp.reduce(X, axis=0))
    check(jnp.maximum.accumulate(X, axis=1), np.maximum.accumulate(X, axis=1))
    check(jnp.subtract.outer(X[0], X[1]), np.subtract.outer(X[0], X[1]))
    larger = jnp.frompyfunc(lambda x, y: lax.cond(x > y, lambda: x, lambda: y), 2, 1)  # of numbers, not of arrays
    check(larger.outer(X[0], X[1]), np.maximum.outer(X[0], X[1]))
    check(jnp.add.reduceat(X[0], [0, 2, 1]), np.add.reduceat(X[0], [0, 2, 1]))
    check(jnp.add.at(jnp.zeros(3), jnp.array([0, 0, 2]), 1.0, inplace=False), [2, 0, 1])
    check(jnp.multiply.at(jnp.ones(3), jnp.array([0, 0, 2]), 3.0, inplace=False), [9, 1, 3])
    check(jnp.logaddexp.at(jnp.zeros(2), jnp.array([0, 0]), 0.0, inplace=False), [np.log(3), 0])
    assert jnp.frompyfunc(lambda a, b: a * b, 2, 1)(X, 2).shape == X.shape


UFUNCS = ("add multiply subtract maximum minimum bitwise_and bitwise_or bitwise_xor logical_and logical_or logical_xor "
          "logaddexp logaddexp2").split()  # fmt: skip
METHODS = {
    "one axis": lambda f, x: f.reduce(x, axis=1, keepdims=True),
    "all axes": lambda f, x: f.reduce(x, axis=(1, 0), initial=2),
    "a mask": lambda f, x: f.reduce(x, where=x > 0, initial=1),
    "no elements": lambda f, x: f.reduce(x[:0]),
    "a dtype": lambda f, x: f.reduce(x, dtype=np.float32),
    "running": lambda f, x: f.accumulate(x, axis=1),
    "slices": lambda f, x: f.reduceat(x, np.array([0, 2, 1]), axis=1),
    "pairs": lambda f, x: f.outer(x[0], x[1]),
}


@pytest.mark.parametrize("name", UFUNCS)
def test_methods_of_ufuncs_are_numpys(name):
    rng = np.random.default_rng(0)
    for x in (rng.integers(-4, 5, (3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(3, 4)) > 0):
        for call in METHODS.values():
            with tw.config(enable_x64=True):
                try:
                    want = np.asarray(call(getattr(np, name), x))
                except (TypeError, ValueError):  # neither a loop for the dtype, nor an identity
                    continue
                found = under(NUMPY, lambda call=call, x=x: call(getattr(jnp, name), x))
                assert found.dtype == want.dtype or want.dtype == np.float16  # NumPy's smallest loop for booleans
                check(found, want, 1e-3 if want.dtype == np.float16 else 1e-6)


def test_methods_of_ufuncs_do_not_go_by_the_name():
    def add(x, y):
        return x + 2 * y

    x = np.array([1, 2, 3])
    assert jnp.frompyfunc(add, 2, 1).reduce(x) == np.frompyfunc(add, 2, 1).reduce(x) == 11
    assert jnp.ufunc(add, 2, 1, reduce=lambda a, **how: a[0] + how["axis"]).reduce(x, axis=0) == 1
    check(jnp.ufunc(add, 2, 1, call=jnp.subtract)(x, 1), x - 1)


def test_functions_of_one_operand_are_applied_once_for_each_time_an_index_occurs():
    x, y = np.array([1.0, 2, 3]), np.array([1.0, 2, 3])
    np.negative.at(y, [0, 0, 1])
    check(jnp.negative.at(x, [0, 0, 1], inplace=False), y)


def test_slices_at_traced_indices():
    x, starts = np.arange(6.0), np.array([0, 3, 2])
    check(tw.jit(jnp.add.reduceat)(x, starts), np.add.reduceat(x, starts))
    check(tw.grad(lambda x: jnp.multiply.reduceat(x, starts)[0])(x), [2.0, 0, 0, 0, 0, 0], 1e-6)


def test_methods_of_arrays_and_tracers():
    def calls(x):
        return (
            x.sum(0),
            x.mean(),
            x.reshape(4, 3),
            x.reshape((2, -1)),
            x.T,
            x.transpose(1, 0),
            x.astype(int),
            x.max(axis=1),
            x.ravel(),
            x.flatten(),
            x.clip(0, 1),
            x.argmax(),
            x.cumsum(1),
            x.sort(0),
            x.std(),
            x.squeeze(),
            x.dot(x.T),
            x.view(np.int32),
        )

    for eager, traced in zip(calls(jnp.asarray(X)), tw.jit(calls)(X), strict=True):
        check(traced, np.asarray(eager))


def test_grid_makers():
    check(jnp.mgrid[0:2, 0:3], np.mgrid[0:2, 0:3])
    check(jnp.mgrid[0:1:3j], np.mgrid[0:1:3j])
    for a, b in zip(jnp.ogrid[0:2, 0:3], np.ogrid[0:2, 0:3], strict=True):
        check(a, b)
    check(jnp.r_[0:3, 5, jnp.array([7, 8])], np.r_[0:3, 5, np.array([7, 8])])
    check(jnp.c_[0:2, 2:4], np.c_[0:2, 2:4])
    check(jnp.r_["0,2", [1, 2], [3, 4]], np.r_["0,2", [1, 2], [3, 4]])


def test_vectorize():
    def mean_of(a, b):
        return jnp.sum(a) / b

    call = jnp.vectorize(mean_of, signature="(n),()->()")
    check(call(X, np.ones((5, 1), np.float32) * 2), np.broadcast_to(X.sum(1) / 2, (5, 3)), 1e-5)
    product = jnp.vectorize(lambda a, b: a @ b, signature="(n,m),(m)->(n)")
    check(product(X, X[:2, None]), np.einsum("nm,bcm->bcn", X, X[:2, None]))
    check(jnp.vectorize(lambda a, b: a + b, excluded={1})(X, 1.0), X + 1)


def test_save_and_load(tmp_path):
    jnp.save(tmp_path / "x.npy", jnp.asarray(X))
    check(jnp.load(tmp_path / "x.npy"), X)
    jnp.savez(tmp_path / "x.npz", a=jnp.asarray(X))
    check(jnp.load(tmp_path / "x.npz")["a"], X)


def test_traced_creation_equals_eager():
    def make():
        return (
            jnp.arange(2, 9, 3),
            jnp.arange(0.0, 1.0, 0.25),
            jnp.eye(3, 4, 1),
            jnp.tri(3, 4, -1),
            jnp.linspace(0, 1, 5),
            jnp.full((2, 2), 3),
            jnp.linspace(1.0, 4.0, 4, endpoint=False),
            jnp.zeros((2, 0)),
            jnp.identity(2, int),
        )

    for eager, traced in zip(make(), tw.jit(make)(), strict=True):
        assert eager.dtype == traced.dtype
        check(traced, np.asarray(eager))


def test_array_of_nested_values():
    made = tw.jit(lambda x: jnp.array([[x, 1], [2.0, x * 2]]))(3.0)
    check(made, [[3, 1], [2, 6]])
    with pytest.raises(errors.ArgumentError, match="unequal"):
        jnp.array([[1, 2], [3]])


BAD = [
    (lambda: jnp.sum([1, 2]), errors.ArgumentTypeError, "asarray"),
    (lambda: jnp.sum(X, out=X), errors.UnsupportedError, "out"),
    (lambda: jnp.sum(X, axis=5), errors.ArgumentError, "axis 5"),
    (lambda: jnp.max(jnp.zeros((0,))), errors.ArgumentError, "initial"),
    (lambda: jnp.max(X, where=X > 0), errors.ArgumentError, "initial"),
    (lambda: jnp.add(np.ones(3), np.ones(4)), errors.ShapeError, "broadcast"),
    (lambda: jnp.reshape(X, (5, 5)), errors.ShapeError, "product is 12"),
    (lambda: jnp.matmul(X, X), errors.ShapeError, "equal"),
    (lambda: jnp.einsum("ij,jk->il", X, X.T), errors.ArgumentError, "label"),
    (lambda: jnp.einsum("ij,jk->ik", X, X), errors.ShapeError, "label"),
    (lambda: jnp.concatenate([]), errors.ArgumentError, "no arrays"),
    (lambda: jnp.stack([X, X.T]), errors.ShapeError, "shapes"),
    (lambda: jnp.split(X, 3, axis=1), errors.ArgumentError, "equal parts"),
    (lambda: jnp.pad(X, 1, mode="nothing"), errors.ArgumentError, "mode"),
    (lambda: jnp.pad(X, -1), errors.ArgumentError, "negative"),
    (lambda: jnp.squeeze(X, 0), errors.ShapeError, "size 1"),
    (lambda: jnp.subtract(X > 0, X > 0), errors.DtypeError, "boolean"),
    (lambda: jnp.bitwise_and(X, X), errors.DtypeError, "integers"),
    (lambda: jnp.put(X, 0, 1.0), errors.UnsupportedError, "inplace"),
    (lambda: jnp.arange(0, 1, 0), errors.ArgumentError, "step 0"),
    (lambda: jnp.array("text"), errors.ArgumentTypeError, "numeric"),
    (lambda: jnp.asarray(None), errors.ArgumentTypeError, "None"),
    (lambda: jnp.quantile(X, 0.5, method="other"), errors.ArgumentError, "method"),
    (lambda: tw.jit(lambda x: jnp.nonzero(x)[0])(X), errors.TracerArrayConversionError, "depend on its values"),
    (lambda: tw.jit(lambda n: jnp.arange(n))(3), errors.ConcretizationError, "value is not known"),
    (lambda: jnp.choose(jnp.array([7]), [X[0, :1]]), errors.ArgumentError, "choices"),
    (lambda: jnp.vectorize(lambda a: a, signature="n->n")(X), errors.ArgumentError, "signature"),
    (lambda: jnp.fill_diagonal(X, 0.0), errors.UnsupportedError, "inplace"),
]


@pytest.mark.parametrize("number", range(len(BAD)))
def test_errors_are_named(number):
    call, kind, text = BAD[number]
    with pytest.raises(kind, match=text) as caught:
        call()
    assert "test_numpy_semantics.py" in str(caught.value)


def test_64_bits():
    with pytest.warns(UserWarning, match="enable_x64"):
        assert jnp.zeros(2, np.float64).dtype == np.float32
    with tw.config(enable_x64=True):
        assert jnp.zeros(2).dtype == np.float64 and jnp.arange(3).dtype == np.int64
        assert jnp.argmax(jnp.arange(3)).dtype == np.int64
        assert jnp.sum(jnp.ones(3, np.int32)).dtype == np.int64


def test_composites_inline_within_a_trace():
    text = str(tw.make_jaxpr(lambda x: tw.nn.softmax(jnp.var(x, 0)))(X))
    assert "jit" not in text


@pytest.mark.parametrize(
    "make",
    [
        lambda: jnp.array(2**40),
        lambda: jnp.asarray([1, 2**40]),
        lambda: jnp.array(-1, jnp.uint8),
        lambda: jnp.array([300], "int8"),
    ],
)
def test_a_python_integer_that_does_not_fit_is_an_error(make):
    with pytest.raises(OverflowError, match="does not fit"):
        make()
    assert jnp.array(np.array([300]), "int8").tolist() == [44]


def test_plain_arguments_that_are_equal_are_not_confused():
    """What a call runs is kept by its plain arguments: by their types too, and by the sign of zero."""
    x, n = jnp.asarray(np.array([-2.0, 0.5, 3.0], np.float32)), jnp.arange(3)
    for _ in range(2):
        for low, high, dtype in (
            (0, 1, np.int32),
            (0.0, 1.0, np.float32),
            (False, True, np.int32),
            (0, 1.0, np.float32),
        ):
            found = jnp.clip(n, low, high)
            assert found.dtype == dtype and found.tolist() == [0, 1, 1]
        for low in (0.0, -0.0, 0):
            assert np.signbit(np.asarray(jnp.clip(x, low, 1))[0]) == np.signbit(low)
        assert jnp.sum(x, 0).shape == () and jnp.sum(x, 0, None, None, True).shape == (1,)
        with pytest.raises(TypeError):
            jnp.sum(x, 0.0)
        with tw.config(enable_x64=True):
            assert jnp.clip(jnp.arange(3), 0, 1).dtype == np.int64
        assert jnp.where(x > 0, x, x).tolist() == x.tolist() == jnp.maximum(x, x).tolist()
        assert tw.grad(lambda v: jnp.clip(v, -1, 1).sum())(x).tolist() == [0, 1, 0]


@pytest.mark.parametrize("square", [jnp.square, lambda x: x**2, lambda x: jnp.power(x, 2)])
def test_squares_of_booleans_are_int32(square):
    found = square(jnp.array([True, False]))
    assert found.dtype == np.int32 and found.tolist() == [1, 0]


@pytest.mark.parametrize("make", [
    lambda d: jnp.zeros(3, device=d), lambda d: jnp.asarray([1, 2], device=d), lambda d: jnp.arange(3, device=d),
    lambda d: jnp.linspace(0, 1, 3, device=d), lambda d: jnp.full_like(np.zeros(2), 1, device=d),
    lambda d: jnp.eye(2, device=d), lambda d: jnp.ones(3).astype(int, device=d),
])  # fmt: skip
def test_arrays_are_made_on_a_device(make):
    device = tw.devices()[0]
    found = make(device)
    assert found.device == device and found.to_device(device) is found
    assert tw.jit(lambda: make(device) + 1)().shape == found.shape


@pytest.mark.parametrize("namespace", [jnp, lax], ids=["numpy", "lax"])
def test_each_name_comes_from_one_module(namespace):
    homes: dict[str, str] = {}
    for node in ast.parse(inspect.getsource(namespace)).body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            module = importlib.import_module("." * node.level + node.module, namespace.__name__)
            for name in module.__all__:
                assert homes.setdefault(name, node.module) == node.module, name
                assert getattr(namespace, name) is getattr(module, name), name
    assert len(homes) > 200


@pytest.mark.parametrize("exponent", [2, np.int32(2), np.int64(2)])
def test_a_known_exponent_keeps_the_dtype(exponent):
    x = jnp.array([3, -2], "int8")
    for found in (x**exponent, jnp.power(x, exponent), tw.jit(lambda x: x**exponent)(x)):
        assert found.dtype == np.int8 and found.tolist() == [9, 4]


@pytest.mark.parametrize("name, rest", [("fabs", ()), ("signbit", ()), ("heaviside", (1.0,)), ("copysign", (1.0,))])
def test_what_has_no_meaning_for_complex_numbers_refuses_them(name, rest):
    with pytest.raises(errors.DtypeError, match=f"{name} of complex64"):
        getattr(jnp, name)(1j, *rest)


def test_unique_of_nothing_with_a_size_is_filling():
    found, places, inverse, counts = jnp.unique(
        jnp.zeros((0, 2)), True, True, True, axis=0, size=3, fill_value=np.float32(7)
    )
    check(found, np.full((3, 2), 7))
    assert counts.tolist() == [0, 0, 0] and inverse.shape == (0,) and places.shape == (3,)
    assert jnp.unique(jnp.array([]), size=2).tolist() == [0, 0]


def test_running_sums_of_a_scalar_have_one_element():
    for axis in (None, 0, -1):
        assert jnp.cumsum(2.0, axis=axis).tolist() == [2.0]
    with pytest.raises(errors.AxisError):
        jnp.cumsum(2.0, axis=1)


def test_parts_of_an_array_on_one_device():
    x = jnp.arange(6.0).reshape(2, 3)
    (shard,) = x.addressable_shards
    assert shard.device == x.device and shard.index == (slice(None), slice(None)) and shard.replica_id == 0
    assert shard.data is x and x.addressable_data(0) is x and len(x.global_shards) == 1


def test_formats_tell_of_the_memory():
    x = jnp.arange(6.0).reshape(2, 3)
    assert x.format.layout.major_to_minor == (0, 1) and x.format.sharding == x.sharding
    assert tw.device_put(x, x.format).format == x.format
    compiled = tw.jit(lambda x, y: {"sum": (x + y).sum()}).lower(x, y=x).compile()
    assert compiled.input_formats == ((x.format,), {"y": x.format})
    assert compiled.output_formats == {"sum": jnp.float32(0).format}
    x.delete()
    assert x.format.layout is None


def test_settings_are_read_by_name():
    assert tw.config.read("jax_enable_x64") is tw.config.x64_enabled is False
    assert lax.Precision("highest") is lax.Precision.HIGHEST


def test_saved_bfloat16_is_read_as_such(tmp_path):
    x = jnp.arange(3, dtype="bfloat16")
    jnp.save(tmp_path / "x.npy", x)
    read = jnp.load(tmp_path / "x.npy")
    assert read.dtype == x.dtype and read.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("call", [
    lambda: jnp.polyfit(jnp.arange(5.0), jnp.arange(5.0) ** 2, 2, w=jnp.ones(5), cov=True),
    lambda: jnp.polyfit(jnp.arange(5.0), jnp.arange(10.0).reshape(5, 2) ** 2, 2, cov=True),
    lambda: jnp.cov(jnp.arange(6.0).reshape(2, 3) ** 2, fweights=jnp.array([1, 2, 1]), aweights=jnp.arange(3.0)),
    lambda: jnp.isin(jnp.arange(6).reshape(2, 3), jnp.array([2, 4])),
])  # fmt: skip
def test_ranks_may_differ_within_a_function(call):
    expected = call()
    with tw.numpy_rank_promotion("raise"):
        tw.tree.map(np.testing.assert_array_equal, call(), expected)


WEAK = [
    lambda x: jnp.linalg.cholesky(x), lambda x: jnp.linalg.qr(x)[1], lambda x: jnp.linalg.svd(x)[0],
    lambda x: jnp.linalg.eigh(x)[0], lambda x: jnp.linalg.solve(x, x), lambda x: lax.linalg.lu(x)[1],
    lambda x: jnp.pad(x, 1), lambda x: jnp.pad(x, 1, mode="mean"), jnp.tril, lambda x: jnp.diag(x[0]),
    lambda x: jnp.insert(x, 0, 1.0), lambda x: jnp.place(x, x > 0, np.float32(1), inplace=False),
    lambda x: jnp.polyadd(x[0], x[1, :1]),
    lambda x: jnp.convolve(x[0], x[1]), lambda x: lax.pad(x, 0.0, [(1, 1, 0)] * 2), lambda x: lax.top_k(x, 1)[1],
    lambda x: x.at[0].set(np.float32(1)), lambda x: jnp.copysign(x, x), lambda x: jnp.modf(x)[0], jnp.angle,
    lambda x: jnp.round(x), scipy.stats.expon.pdf, lambda x: scipy.stats.binom.pmf(x, x, x),
]  # fmt: skip
STRONG = [
    lambda x: jnp.hypot(x, x), lambda x: jnp.logaddexp2(x, x), lambda x: jnp.heaviside(x, x), jnp.deg2rad, jnp.sinc,
    lambda x: jnp.copysign(x, np.ones((3, 3), "f")), lambda x: jnp.angle(x, deg=True), lambda x: jnp.round(x, 1),
    lambda x: jnp.cross(x, x), lambda x: jnp.diagflat(x), lambda x: scipy.linalg.toeplitz(x[0]), scipy.special.logit,
    lambda x: lax.dynamic_update_slice(x, x[:1], (0, 0)), lambda x: jnp.histogram(x)[1], scipy.stats.norm.pdf,
    lambda x: jnp.gcd(x.astype(int), 2), lambda x: lax.pad(x, np.float32(0), [(1, 1, 0)] * 2),
]  # fmt: skip


@pytest.mark.parametrize("weak", [True, False])
def test_weakness_of_results_is_as_jaxs(weak):
    """Of a weakly typed array."""
    x = tw.ShapeDtypeStruct((3, 3), "float32", weak_type=True)
    for n, f in enumerate(WEAK if weak else STRONG):
        assert tw.eval_shape(f, x).weak_type == weak, n
