"""Rounding at random, numbers of a few bits, scaled products, counts: eager, interpreted, compiled, walked, derived."""

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.walker import check_all, check_mosaic, check_triton
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.tracing.numpy_interpreter import evaluate
from tilewright.core.tracing.trace import trace_program, typeof

RNG = np.random.default_rng(0)
WALKS = [
    (check_triton, "cuda:sm_90"),
    (check_triton, "rocm:gfx942"),
    (check_mosaic, "tpu:v5e"),
    (check_mosaic, "tpu:v6e"),
]


def kernel(function, shape, dtype, **options):
    """A kernel of one cell that stores `function` of its operands."""
    return tl.kernel_call(
        lambda *refs: refs[-1].__setitem__(..., function(*(r[...] for r in refs[:-1]))),
        tw.ShapeDtypeStruct(shape, dtype), **options,
    )  # fmt: skip


def numpy(function, *args):
    """What a function means, in NumPy."""
    program = trace_program(lambda *xs: [function(*xs)], [typeof(np.asarray(a)) for a in args])
    return np.asarray(evaluate(program, *map(np.asarray, args))[0])


def everywhere(function, *args, skip=()):
    """The result of a kernel, on which its meaning, the interpreter and the modules of all targets agree."""
    expected = numpy(function, *args)
    for interpret in (False, True):
        call = kernel(function, expected.shape, expected.dtype, interpret=interpret)
        np.testing.assert_array_equal(np.asarray(call(*args)), expected)
    call = kernel(function, expected.shape, expected.dtype)
    for check, target in WALKS:
        if target not in skip:
            assert check_all(check, call, *args, target=target) == 1
    return expected


# ---------------------------------------------------------------------------- rounding at random


def neighbours(x, dtype):
    """The two numbers of a dtype that float32 ones lie between, both the number itself where it is one."""
    near = x.astype(dtype)
    most = float(ml_dtypes.finfo(dtype).max)
    other = np.nextafter(near, np.where(near.astype("f") < x, most, -most).astype(dtype))
    other = np.where(near.astype("f") == x, near, other)
    return np.minimum(near, other).astype("f"), np.maximum(near, other).astype("f")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float8_e4m3fn", "float8_e5m2"])
def test_rounding_at_random(dtype):
    kind, limits = np.dtype(getattr(ml_dtypes, dtype, dtype)), ml_dtypes.finfo(getattr(ml_dtypes, dtype, dtype))
    scale = np.float32(2.0) ** RNG.integers(max(limits.minexp - 4, -120), 6, (8, 128))
    x = (RNG.standard_normal((8, 128)) * scale).astype("f")
    most = limits.max if "8" in dtype[:6] else np.inf  # of infinities targets make what conversions do
    x[0, :5] = 0, most, -most, limits.max, -limits.max
    bits = RNG.integers(0, 2**32, x.shape, dtype=np.uint32)
    found = everywhere(
        lambda x, b: tl.stochastic_round(x, b, dtype), x, bits, skip=("rocm:gfx942",) if "8" in dtype[:6] else ()
    )
    low, high = neighbours(x[1:], kind)
    assert found.dtype == kind and ((found[1:].astype("f") == low) | (found[1:].astype("f") == high)).all()
    np.testing.assert_array_equal(found[0, :5].astype("f"), x[0, :5].astype(kind).astype("f"))
    for word, wanted in ((0, high), (2**32 - 1, low)):  # magnitudes: all bits carry, no bit does
        words = np.full(x[1:].shape, 2**32 - 1 - word, np.uint32)
        got = numpy(lambda x, b: tl.stochastic_round(x, b, dtype), x[1:], words).astype("f")
        exact = low == high
        away = np.where(x[1:] > 0, wanted, low + high - wanted)
        if dtype == "bfloat16" or word:
            np.testing.assert_array_equal(got[exact], low[exact])
        if dtype == "bfloat16":
            np.testing.assert_array_equal(got, away)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_the_mean_over_draws_is_the_number(dtype):
    x = np.full((40_000,), 1 + 0.3 * float(ml_dtypes.finfo(dtype).eps), "f")
    bits = RNG.integers(0, 2**32, x.shape, dtype=np.uint32)
    up = numpy(lambda x, b: tl.stochastic_round(x, b, dtype), x, bits).astype("f") > 1
    assert abs(up.mean() - 0.3) < 0.012


def test_the_derivative_of_rounding_is_a_conversion():
    bits = RNG.integers(0, 2**32, (8, 128), dtype=np.uint32)
    rounded = kernel(lambda x, b: tl.stochastic_round(x * 3, b, "bfloat16").astype("float32"), (8, 128), "float32")
    x = RNG.standard_normal((8, 128)).astype("f")
    np.testing.assert_array_equal(tw.grad(lambda x: tnp.sum(rounded(x, bits)))(x), np.full((8, 128), 3, "f"))
    both = np.stack([x, -x])
    batched = tw.vmap(rounded, in_axes=(0, None))(both, bits)
    np.testing.assert_array_equal(batched, np.stack([rounded(x, bits), rounded(-x, bits)]))
    with pytest.raises(errors.DtypeError, match="round float32 to one of"):
        tl.stochastic_round(x, bits, "float64")
    with pytest.raises(errors.ShapeError, match="32 random bits"):
        tl.stochastic_round(x, bits[0], "bfloat16")


# ---------------------------------------------------------------------------- a few bits in a word


@pytest.mark.parametrize(
    ("bits", "dtype", "axis"), [(4, "uint8", 1), (4, "int32", 0), (2, "uint8", 0), (8, "uint32", 1)]
)
def test_numbers_of_a_few_bits(bits, dtype, axis):
    info = np.iinfo(dtype)
    words = RNG.integers(info.min, info.max, (8, 128), dtype=dtype, endpoint=True)
    count = info.bits // bits
    wide = words.astype(np.int64) & (2**info.bits - 1)
    parts = [(wide >> (bits * i)) & (2**bits - 1) for i in range(count)]
    side = np.stack(parts, axis + 1).reshape([n * (count if d == axis else 1) for d, n in enumerate(words.shape)])
    signed = np.where(side >= 2 ** (bits - 1), side - 2**bits, side)
    np.testing.assert_array_equal(everywhere(lambda w: tl.unpack(w, bits, axis=axis), words), signed)
    np.testing.assert_array_equal(numpy(lambda w: tl.unpack(w, bits, axis=axis, signed=False), words), side)
    apart = numpy(lambda w: tl.unpack(w, bits, axis=axis, signed=False, interleaved=False), words)
    np.testing.assert_array_equal(apart, np.concatenate(parts, axis))
    packed = numpy(lambda v: tl.pack(v, bits, dtype, axis=axis), signed.astype("i"))
    np.testing.assert_array_equal(packed, words)
    if bits == 4:
        np.testing.assert_array_equal(
            everywhere(lambda v: tl.pack(v, bits, dtype, axis=axis), signed.astype("i")), words
        )


def test_a_product_with_packed_weights_and_its_derivative():
    """int4 weights, two in a byte along the contracted axis, with a scale for every column."""
    words, scale = RNG.integers(0, 256, (32, 128), dtype=np.uint8), RNG.random((1, 128)).astype("f")
    x = RNG.standard_normal((8, 64)).astype("f")

    def product(x, words, scale):
        return x @ (tl.unpack(words, axis=0).astype("float32") * scale)

    call = kernel(product, (8, 128), "float32")
    weights = numpy(lambda w: tl.unpack(w, axis=0), words).astype("f") * scale
    np.testing.assert_allclose(call(x, words, scale), x @ weights, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(
        tw.grad(lambda x: tnp.sum(call(x, words, scale)))(x), np.ones((8, 128)) @ weights.T, rtol=1e-5
    )
    with pytest.raises(errors.DtypeError, match="less than theirs"):
        tl.unpack(x)


# ---------------------------------------------------------------------------- scaled products

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], "f")


def operand(form, shape, axis):
    """An operand in a format, and its numbers."""
    if form == "e2m1":
        codes = RNG.integers(0, 16, shape).astype(np.uint8)
        low, high = (np.take(codes, range(k, shape[axis], 2), axis) for k in (0, 1))
        return low | (high << 4), FP4[codes]
    dtype = {
        "e4m3": ml_dtypes.float8_e4m3fn,
        "e5m2": ml_dtypes.float8_e5m2,
        "bf16": ml_dtypes.bfloat16,
        "fp16": np.float16,
    }[form]
    numbers = RNG.standard_normal(shape).astype(dtype)
    return numbers, numbers.astype("f")


@pytest.mark.parametrize(("left", "right", "scaled"), [
    ("e2m1", "e2m1", (True, True)), ("e4m3", "e5m2", (True, False)), ("bf16", "e2m1", (False, True)),
    ("fp16", "e4m3", (False, False)),
])  # fmt: skip
def test_scaled_products(left, right, scaled):
    m, n, k = 16, 128, 64
    (a, x), (b, y) = operand(left, (m, k), 1), operand(right, (k, n), 0)
    sa, sb = (RNG.integers(120, 134, (rows, k // 32), dtype=np.uint8) if s else None for rows, s in zip((m, n), scaled))
    given = [v for v in (a, sa, b, sb) if v is not None]

    def product(*values):
        rest = iter(values)
        a, sa, b, sb = (None if v is None else next(rest) for v in (given_a, given_sa, given_b, given_sb))
        return tl.dot_scaled(a, sa, left, b, sb, right)

    given_a, given_sa, given_b, given_sb = a, sa, b, sb
    spread = [
        np.ones((rows, k)) if s is None else np.repeat(2.0 ** (s.astype("f") - 127), 32, 1)
        for rows, s in ((m, sa), (n, sb))
    ]
    expected = (x * spread[0]) @ (y * spread[1].T)
    call = kernel(product, (m, n), "float32")
    found = np.asarray(call(*given))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4 * np.abs(expected).max())
    for check, target in WALKS:
        if target != "rocm:gfx942" or not {left, right} & {"e4m3", "e5m2"}:
            assert check_all(check, call, *given, target=target, rtol=1e-4) == 1


def test_what_scaled_products_refuse():
    a, b = np.zeros((16, 32), np.uint8), np.zeros((32, 16), np.uint8)
    scale = np.zeros((16, 2), np.uint8)

    def product(a, sa, left, b, sb, right, *acc, **options):
        return numpy(lambda a, b: tl.dot_scaled(a, sa, left, b, sb, right, *acc, **options), a, b)

    found = product(a, scale, "e2m1", b, scale, "e2m1", np.ones((16, 16), "f"), out_dtype="bfloat16")
    np.testing.assert_array_equal(found.astype("f"), np.ones((16, 16), "f"))
    with pytest.raises(errors.ShapeError, match=r"\(16, 2\)"):
        product(a, scale[:, :1], "e2m1", b, scale, "e2m1")
    with pytest.raises(errors.ShapeError, match="32 elements along K in lhs, 64 in rhs"):
        product(a, None, "e4m3", b, None, "e2m1")
    with pytest.raises(errors.ArgumentError, match="the format is 'e3m2'"):
        product(a, None, "e3m2", b, None, "e2m1")
    with pytest.raises(errors.DtypeError, match="out_dtype"):
        product(a, None, "e2m1", b, None, "e2m1", out_dtype="int32")
    with pytest.raises(errors.DtypeError, match="uint8 exponents"):
        product(a, scale.astype("f"), "e2m1", b, None, "e2m1")


# ---------------------------------------------------------------------------- counts


def test_counts():
    x = RNG.integers(-2, 130, (8, 128), dtype=np.int32)
    inside = x[(x >= 0) & (x < 128)]
    found = everywhere(lambda x: tl.histogram(x, 128)[None], x)
    np.testing.assert_array_equal(found[0], np.bincount(inside, minlength=128))
    odd = x[(x >= 0) & (x < 128) & (x % 2 == 1)]
    some = numpy(lambda x: tl.histogram(x, 128, mask=x % 2 == 1), x)
    np.testing.assert_array_equal(some, np.bincount(odd, minlength=128))
    with pytest.raises(errors.DtypeError, match="count integers"):
        tl.histogram(x.astype("f"), 4)


def test_operands_of_four_bits():
    """They are operands where memory holds them; a GPU's are packed by hand."""
    x = tnp.asarray((np.arange(64 * 128) % 16 - 8).astype(ml_dtypes.int4).reshape(64, 128))

    def doubled(x):
        return x.astype("float32") * 2

    expected = 2 * np.asarray(x).astype("f")
    for interpret in (False, True):
        np.testing.assert_array_equal(kernel(doubled, x.shape, "float32", interpret=interpret)(x), expected)
    call = kernel(doubled, x.shape, "float32")
    assert check_all(check_mosaic, call, x) == 1
    with pytest.raises(errors.UnsupportedError, match="lang.unpack"):
        tw.compile(call, x, target="cuda:sm_90")
