"""Products by groups and by blocks, narrow float formats, and the names of `lax` that few programs use."""

import functools

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.core.ir.types import RARE_FLOATS
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError

RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def rows_by_hand(x, w, sizes):
    out, start = np.zeros((len(x), w.shape[2]), np.float32), 0
    for matrix, size in zip(w, sizes, strict=True):
        out[start : start + size] = x[start : start + size] @ matrix
        start += size
    return out


def sums_by_hand(x, y, sizes):
    ends = np.cumsum(sizes)
    return np.stack([x[end - size : end].T @ y[end - size : end] for end, size in zip(ends, sizes, strict=True)])


FREE, SUM = (((1,), (1,)), ((), ())), (((0,), (0,)), ((), ()))


@pytest.mark.parametrize("sizes", [(4, 0, 7), (1, 1, 1), (0, 0, 11), (0, 0, 0)])
def test_products_by_groups(sizes):
    x, w, y = draw(11, 4), draw(3, 4, 5), draw(11, 5)
    sizes = np.array(sizes, np.int32)
    np.testing.assert_allclose(lax.ragged_dot(x, w, sizes), rows_by_hand(x, w, sizes), atol=1e-5)
    numbers = lax.RaggedDotDimensionNumbers(SUM, [0], [])
    np.testing.assert_allclose(lax.ragged_dot_general(x, y, sizes, numbers), sums_by_hand(x, y, sizes), atol=1e-5)


def test_many_rows_and_many_groups():
    x, w = draw(700, 4), draw(50, 4, 3)
    sizes = RNG.multinomial(700, np.ones(50) / 50)
    np.testing.assert_allclose(lax.ragged_dot(x, w, sizes), rows_by_hand(x, w, sizes), atol=1e-4)


@pytest.mark.parametrize("rows,inner,columns,groups", [(0, 3, 4, 2), (5, 0, 4, 2), (5, 3, 0, 2), (5, 3, 4, 0)])
def test_products_by_groups_of_nothing_are_zeros(rows, inner, columns, groups):
    sizes = np.full(groups, rows // max(groups, 1))
    found = lax.ragged_dot(draw(rows, inner), draw(groups, inner, columns), sizes)
    np.testing.assert_array_equal(found, np.zeros((rows, columns), np.float32))
    numbers = lax.RaggedDotDimensionNumbers(SUM, [0], [])
    found = lax.ragged_dot_general(draw(rows, inner), draw(rows, columns), sizes, numbers)
    assert found.shape == (groups, inner, columns) and found.dtype == np.float32
    assert rows or not np.any(found)


def test_infinities_stay_in_their_group():
    x, w, sizes = draw(20, 3), draw(3, 3, 2), np.array([4, 9, 5])
    w[1] = np.inf
    found = np.isfinite(lax.ragged_dot(x, w, sizes))
    np.testing.assert_array_equal(found.all(1), np.r_[[True] * 4, [False] * 9, [True] * 7])


def test_products_by_groups_with_more_axes():
    # Batch 2, an outer free axis 3, rows 6, an inner free axis 2; sizes for each batch and outer element.
    x, w = draw(2, 3, 6, 2, 4), draw(2, 3, 4, 5)
    sizes = np.array([[[1, 2, 3], [0, 6, 0], [2, 2, 1]], [[3, 3, 0], [1, 1, 1], [6, 0, 0]]])
    numbers = lax.RaggedDotDimensionNumbers((((4,), (2,)), ((0,), (0,))), (2,), (1,))
    found = lax.ragged_dot_general(x, w, sizes, numbers)
    for b in range(2):
        for outer in range(3):
            for inner in range(2):
                want = rows_by_hand(x[b, outer, :, inner], w[b], sizes[b, outer])
                np.testing.assert_allclose(found[b, outer, :, inner], want, atol=1e-5)
    y = draw(2, 6, 5)
    numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((0,), (0,))), (1,), ())
    found = lax.ragged_dot_general(x[:, 0, :, 0], y, sizes[:, 0], numbers)
    for b in range(2):
        np.testing.assert_allclose(found[:, b], sums_by_hand(x[b, 0, :, 0], y[b], sizes[b, 0]), atol=1e-5)
    batched = lax.RaggedDotDimensionNumbers((((2,), (1,)), ((0,), (0,))), (0,), ())
    np.testing.assert_allclose(lax.ragged_dot_general(y.swapaxes(1, 2), y, np.array([1, 1]), batched),
                               y.swapaxes(1, 2) @ y, atol=1e-4)  # fmt: skip


def test_derivatives_and_batches_of_products_by_groups():
    x, w, sizes = draw(11, 3), draw(3, 3, 2), np.array([4, 1, 5])
    tw.test_util.check_grads(lambda x, w: lax.ragged_dot(x, w, sizes), (x, w), 2, "rev", atol=0.05, rtol=0.05)
    batch = draw(2, 11, 3)
    found = tw.jit(tw.vmap(lambda x, n: lax.ragged_dot(x, w, n)))(batch, np.stack([sizes, sizes[::-1]]))
    np.testing.assert_allclose(
        found, [rows_by_hand(batch[0], w, sizes), rows_by_hand(batch[1], w, sizes[::-1])], atol=1e-5
    )
    half = lax.ragged_dot(x.astype("float16"), w.astype("float16"), sizes, preferred_element_type=np.float32)
    assert half.dtype == np.float32


@pytest.mark.parametrize(
    "error,call",
    [
        ("group_sizes have dtype", lambda: lax.ragged_dot(draw(4, 2), draw(2, 2, 2), np.ones(2))),
        ("3 group sizes for 2 matrices", lambda: lax.ragged_dot(draw(4, 2), draw(2, 2, 2), np.ones(3, int))),
        ("group_offset", lambda: lax.ragged_dot(draw(4, 2), draw(2, 2, 2), np.ones(2, int), group_offset=np.zeros(1))),
        ("(m, k) and (g, k, n)", lambda: lax.ragged_dot(draw(4, 2), draw(2, 2), np.ones(2, int))),
        ("no group axis", lambda: lax.ragged_dot_general(
            draw(4, 2), draw(3, 2), np.ones(2, int), lax.RaggedDotDimensionNumbers(FREE, (0,), ()))),
        ("one scale for each full block", lambda: lax.scaled_dot(draw(4, 6), draw(6, 2), lhs_scale=draw(4, 4))),
        ("pass dimension_numbers", lambda: lax.scaled_dot(draw(4), draw(4))),
        ("no format 'int3'", lambda: nn.get_scaled_dot_general_config("int3")),
        ("2 configs", lambda: nn.scaled_dot_general(draw(2, 2), draw(2, 2), FREE, configs=[None] * 2)),
        ("no function for cpu", lambda: lax.platform_dependent(1.0, tpu=lambda x: x)),
        ("the name is 3", lambda: lax.composite(np.sin, 3)),
    ],
)  # fmt: skip
def test_bad_input(error, call):
    with pytest.raises(tw.errors.TilewrightError) as caught:
        call()
    assert error in str(caught.value)


def test_products_with_scales():
    x, y, s = draw(4, 8), draw(8, 3), np.abs(draw(4, 2))
    want = (x * s.repeat(4, 1)) @ y
    np.testing.assert_allclose(lax.scaled_dot(x, y, lhs_scale=s, preferred_element_type="float32"), want, rtol=1e-5)
    assert lax.scaled_dot(x, y, lhs_scale=s).dtype == tnp.bfloat16
    found = nn.scaled_matmul(x[None], y.T[None], s[None], np.ones((1, 3, 1), np.float32))
    np.testing.assert_allclose(found[0], want, rtol=1e-5)


@pytest.mark.parametrize("target", [None, "cuda:sm_90"])
def test_elements_times_scales_are_multiplied_exactly(target):
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((1, 4, 64)).astype(ml_dtypes.float8_e4m3fn) for _ in range(2))
    scales = [np.exp2(rng.integers(-4, 4, (1, 4, 2))).astype(ml_dtypes.float8_e8m0fnu) for _ in range(2)]
    run = nn.scaled_matmul if target is None else functools.partial(tw.emulate, nn.scaled_matmul, target=target)
    found = np.asarray(run(x, y, *scales))
    wide = [a.astype("float64") * np.repeat(s.astype("float64"), 32, -1) for a, s in zip((x, y), scales, strict=True)]
    np.testing.assert_allclose(found, np.einsum("bmk,bnk->bmn", *wide), rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("mode,near", [("mxfp8", 0.04), ("nvfp4", 0.12)])
def test_quantised_products_are_near_the_exact_ones(mode, near):
    config = nn.get_scaled_dot_general_config(mode)
    x, y = draw(2, 5, 40), draw(2, 40, 7)
    numbers = (((2,), (1,)), ((0,), (0,)))

    product = tw.jit(lambda x, y: nn.scaled_dot_general(x, y, numbers, configs=[config] * 3))

    scale = np.linalg.norm(x, axis=2)[:, :, None] * np.linalg.norm(y, axis=1)[:, None]
    assert np.abs(product(x, y) - x @ y).max() < near * scale.max()
    ct = draw(2, 5, 7)
    to_x, to_y = tw.jit(lambda x, y: tw.vjp(product, x, y)[1](ct))(x, y)
    assert np.abs(to_x - ct @ y.swapaxes(1, 2)).max() < near * 40 and to_y.shape == y.shape
    assert np.asarray(product(0 * x, y)).tolist() == np.zeros((2, 5, 7)).tolist()
    exact = nn.scaled_dot_general(x, y, numbers)
    np.testing.assert_allclose(exact, x @ y, atol=1e-4)


@pytest.mark.parametrize("name", RARE_FLOATS)
def test_narrow_formats(name):
    values = np.float32([0.5, 1, 1.5, 2, 3, 0.3])
    dtype = np.dtype(getattr(ml_dtypes, name))
    want = values.astype(dtype).astype(np.float32)
    narrow = tnp.asarray(values).astype(getattr(tnp, name))
    assert narrow.dtype == dtype and tnp.issubdtype(narrow.dtype, tnp.floating)
    np.testing.assert_array_equal(np.asarray(narrow).astype(np.float32), want)
    np.testing.assert_array_equal(narrow.astype("float32"), want)
    np.testing.assert_array_equal(tnp.asarray(values.astype(dtype)).astype("float32"), want)
    assert (narrow * 1.0).dtype == dtype
    with pytest.raises(tw.errors.DtypeError):
        narrow + tnp.ones(6, "bfloat16")


def test_composites():
    def scaled(x, k=3.0, **attributes):
        return lax.composite(lambda x, *, k, **_: (x * k, x), "my.scale", version=2)(x, k=k, **attributes)[0]

    x = draw(3)
    assert "my.scale.v2(k=2.0)" in str(tw.make_jaxpr(lambda x: scaled(x, 2.0))(x))
    attributes = {"a": 'x"y', "b": (1, 2.5), "c": np.arange(3), "d": {"e": True}, "f": np.float16(2.5), "g": None,
                  "h": np.dtype("int8"), "i": b"ab", "j": [], "l": np.ones((2, 0), bool)}  # fmt: skip
    lowered = tw.jit(lambda x: scaled(scaled(x, **attributes))).lower(x)
    found = [line.split("composite_attributes = ")[1] for line in lowered.as_text().splitlines() if "composite" in line]
    assert [line[: line.index(", decomposition")] for line in found] == [
        '{a = "x\\22y", b = [1, 2.500000e+00], c = dense<[0, 1, 2]> : tensor<3xi64>, d = {e = true}, '
        'f = 2.500000e+00 : f16, h = i8, i = "ab", j = [], k = 3.000000e+00 : f64, l = dense<> : tensor<2x0xi1>}',
        "{k = 3.000000e+00 : f64}",
    ]
    assert "version = 2" in found[0]
    for nine in (scaled(scaled(x)), lowered.compile()(x), tw.vmap(lambda x: scaled(scaled(x)))(x)):
        np.testing.assert_allclose(nine, 9 * x, rtol=1e-6)
    for slope in (tw.jit(tw.grad(lambda x: scaled(x))), lambda x: tw.jvp(tw.jit(scaled), (x,), (1.0,))[1]):
        assert slope(1.0) == 3.0
    named = tw.jit(lambda x, k: lax.composite(lambda x, k: x, "named")(x, k=k), static_argnums=1)
    for call, error, what in (
        (lambda: named(x, 1), ArgumentError, "namespace"),
        (lambda: tw.jit(scaled)(x, 1.0), ArgumentTypeError, "my.scale.k"),
        (lambda: tw.jit(lambda x: scaled(x, f=object()))(x), ArgumentTypeError, "my.scale.f"),
    ):
        with pytest.raises(error, match=what):
            call()


@pytest.mark.parametrize("count", range(5))
def test_polynomials_and_their_derivatives_are_those_of_numpy(count):
    x, coefficients = draw(7), draw(count, 1)
    plain = np.polynomial.Polynomial(coefficients[:, 0] if count else [0])
    slopes = tw.vmap(tw.grad(lambda x, c: lax.polynomial(x, c).sum()), (0, None))
    for f, wanted in ((lax.polynomial, plain), (slopes, plain.deriv())):
        found = f(x, list(coefficients))
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted(x), rtol=1e-4, atol=1e-4)
    near = np.float32([1 - 1e-6, -1 + 1e-6, 0.3, 1e-30])
    np.testing.assert_allclose(lax.one_minus_square(near), 1 - near.astype(np.float64) ** 2, rtol=1e-6)
    np.testing.assert_array_equal(tw.vmap(tw.grad(lax.one_minus_square))(near), -2 * near)


def test_small_names():
    assert lax.stage(2).weak_type and lax.empty(2, "float32").shape == (2,)
    assert lax.broadcast_like(1, np.zeros((2, 3))).shape == (2, 3)
    how = {"cpu": lambda x: x + 1, "gpu": lambda x: x + 2, "default": lambda x: x}
    assert lax.platform_dependent(1.0, **how) == 2.0

    def f(x):
        return lax.platform_dependent(x, **how)

    texts = [str(tw.compile(f, np.float32(1), target=t, stop="program")) for t in ("cpu", "cuda:sm_90", "tpu:v5e")]
    assert "add a 1.0" in texts[0] and "add a 2.0" in texts[1] and "add" not in texts[2]
    for accuracy in (lax.AccuracyMode.HIGHEST, lax.Tolerance(rtol=1e-3), lax.Tolerance(1e-3, 1e-3, 2)):
        assert lax.exp(0.0, accuracy=accuracy) == 1.0
    x = draw(3, 3)
    for precision in (*lax.DotAlgorithmPreset, lax.DotAlgorithm("bfloat16", "bfloat16", "float32", 1, 1, 3)):
        assert precision.precision in lax.Precision
    np.testing.assert_allclose(tnp.dot(x, x, precision=lax.DotAlgorithmPreset.F32_F32_F32), x @ x, rtol=1e-5)
