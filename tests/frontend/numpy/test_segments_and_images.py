"""Segments of arrays and resized images, against NumPy's loops and, where it is installed, jax."""

import importlib.util

import numpy as np
import pytest

import tilewright as tw
from tests.support.laws import numpy_meaning
from tilewright import image, ops
from tilewright import numpy as tnp

IDS = np.array([0, 1, 2, 1, 5, -1, 3, 3, 0, 2])
DATA = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)
FOLDS = {"sum": (np.add, 0), "prod": (np.multiply, 1), "max": (np.maximum, -np.inf), "min": (np.minimum, np.inf)}


def by_hand(kind, data, ids, count):
    fold, start = FOLDS[kind]
    if np.isinf(start) and data.dtype.kind in "iu":
        start = getattr(np.iinfo(data.dtype), {"max": "min", "min": "max"}[kind])
    out = np.full((count, *data.shape[1:]), start, data.dtype)
    for place, row in zip(ids, data, strict=True):
        if 0 <= place < count:
            out[place] = fold(out[place], row)
    return out


@pytest.mark.law
@pytest.mark.parametrize("count", [4, 8, 0])
@pytest.mark.parametrize("kind", FOLDS)
def test_segments(kind, count):
    segment = getattr(ops, f"segment_{kind}")
    for data in (DATA, np.round(DATA * 10).astype(np.int32), np.round(DATA * 10).astype(np.uint32), DATA[:0]):
        ids = IDS[: len(data)]
        want = by_hand(kind, data, ids, count)
        for found in (segment(data, ids, count), segment(data, ids, count, bucket_size=4)):
            assert found.dtype == data.dtype
            np.testing.assert_allclose(found, want, rtol=1e-5)


def test_segments_are_counted_where_that_is_possible():
    assert ops.segment_sum(DATA, IDS).shape == (6, 3) and ops.segment_max(DATA[:0], IDS[:0]).shape == (0, 3)
    with pytest.raises(tw.errors.ConcretizationTypeError, match="pass num_segments"):
        tw.jit(ops.segment_sum)(DATA, IDS)


def test_one_element_is_a_segment():
    assert ops.segment_sum(3.0, np.int32(1), 3).tolist() == [0, 3, 0]
    assert ops.segment_prod(3.0, 1, 2, bucket_size=4).tolist() == [1, 3]


def test_promises_and_modes():
    order = np.argsort(IDS, kind="stable")
    np.testing.assert_allclose(ops.segment_sum(DATA[order], IDS[order], 6, indices_are_sorted=True),
                               by_hand("sum", DATA, IDS, 6), rtol=1e-5)  # fmt: skip
    clipped = ops.segment_sum(DATA, IDS, 3, mode="clip")
    np.testing.assert_allclose(clipped, by_hand("sum", DATA, np.clip(IDS, 0, 2), 3), rtol=1e-5)
    unique = ops.segment_prod(DATA[:3], IDS[:3], 3, unique_indices=True)
    np.testing.assert_allclose(unique, DATA[:3])
    assert ops.segment_sum(np.array([True, True]), np.array([1, 1])).tolist() == [0, 2]


@pytest.mark.law
@pytest.mark.parametrize("kind", FOLDS)
def test_derivatives_and_batches_of_segments(kind):
    data = DATA.copy()
    data[0, 0] = data[8, 0] = data[1, 1] = 0.0  # two zeros in one segment, one in another
    used = np.array([0, 1, 2, 3])

    def f(data):
        return getattr(ops, f"segment_{kind}")(data, IDS, 6)[used] ** 2

    with numpy_meaning():
        tw.test_util.check_grads(f, (data[:, :2] if kind == "prod" else DATA[:, :2],), 2, "rev")
    batch = np.stack([DATA, 2 * DATA], 1)
    got = tw.vmap(lambda d, i: getattr(ops, f"segment_{kind}")(d, i, 4), (1, None))(batch, IDS)
    np.testing.assert_allclose(got, [by_hand(kind, batch[:, n], IDS, 4) for n in range(2)], rtol=1e-5)


@pytest.mark.parametrize(
    "error,call",
    [
        ("segment ids have dtype float32", lambda: ops.segment_sum(DATA, IDS * 1.0, 3)),
        ("ids of shape (4,)", lambda: ops.segment_sum(DATA, IDS[:4], 3)),
        ("num_segments is -1", lambda: ops.segment_sum(DATA, IDS, -1)),
        ("bucket_size is 0", lambda: ops.segment_sum(DATA, IDS, 3, bucket_size=0)),
    ],
)
def test_segments_refuse(error, call):
    with pytest.raises(tw.errors.TilewrightError) as caught:
        call()
    assert error in str(caught.value)


METHODS = ("linear", "cubic", "cubic-pytorch", "lanczos3", "lanczos5", "area")
PICTURE = np.random.default_rng(1).standard_normal((5, 7, 2)).astype(np.float32)


def test_nearest_and_linear_by_hand():
    rows, columns = (2 * np.arange(9) + 1) * 5 // 18, (2 * np.arange(4) + 1) * 7 // 8
    np.testing.assert_array_equal(image.resize(PICTURE, (9, 4, 2), "nearest"), PICTURE[rows][:, columns])
    at = (np.arange(12) + 0.5) * 5 / 12 - 0.5
    found = image.resize(PICTURE[:, 0, 0], (12,), "linear")
    np.testing.assert_allclose(found, np.interp(at, np.arange(5), PICTURE[:, 0, 0]), rtol=1e-5, atol=1e-6)
    halves = image.resize(PICTURE[:4], (2, 7, 2), image.ResizeMethod.AREA)
    np.testing.assert_allclose(halves, PICTURE[:4].reshape(2, 2, 7, 2).mean(1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_what_every_method_keeps(method):
    flat = image.resize(np.ones((4, 3), np.int32), (3, 5), method)
    assert flat.dtype == np.float32
    np.testing.assert_allclose(flat, 1.0, rtol=1e-5)
    np.testing.assert_array_equal(image.resize(PICTURE, PICTURE.shape, method), PICTURE)


def test_empty_and_narrow_images():
    assert image.resize(PICTURE, (0, 7, 2), "linear").shape == (0, 7, 2)
    half = image.resize(tnp.asarray(PICTURE, "bfloat16"), (3, 9, 2), "cubic")
    assert half.dtype == tnp.bfloat16
    np.testing.assert_allclose(np.asarray(half, np.float32), image.resize(PICTURE, (3, 9, 2), "cubic"), atol=0.05)


def test_derivatives_of_images():
    def moved(x, scale, by):
        return image.scale_and_translate(x, (6, 4), (0, 1), scale, by, "cubic")

    with numpy_meaning():
        tw.test_util.check_grads(lambda x: image.resize(x, (3, 4), "cubic"), (PICTURE[:, :, 0],), 2, "rev")
        tw.test_util.check_grads(moved, (PICTURE[:, :, 0], np.float32([1.3, 0.8]), np.float32([0.2, -0.4])), 1)


@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="jax is not installed")
@pytest.mark.parametrize("method,antialias", [("cubic-pytorch", False), ("lanczos5", True)])
def test_images_against_jax(method, antialias):
    import jax

    other = jax.jit(jax.image.scale_and_translate, static_argnums=(1, 2, 5, 6))

    how = ((8, 4, 2), (0, 1), np.float32([1.7, 0.4]), np.float32([0.3, -1.2]), method, antialias)
    found = image.scale_and_translate(PICTURE, *how)
    np.testing.assert_allclose(found, other(PICTURE, *how), atol=1e-4)


@pytest.mark.parametrize(
    "error,call",
    [
        ("one size for each axis", lambda: image.resize(PICTURE, (3, 4), "linear")),
        ("no way to resize", lambda: image.resize(PICTURE, (3, 4, 2), "sharp")),
        ("an empty axis stays empty", lambda: image.resize(PICTURE[:0], (3, 4, 2), "linear")),
        ("has no method NEAREST", lambda: image.scale_and_translate(
            PICTURE, (5, 7, 2), (0,), np.ones(1), np.ones(1), "nearest")),
        ("name each axis once", lambda: image.scale_and_translate(
            PICTURE, (5, 7, 2), (0, -3), np.ones(2), np.ones(2), "linear")),
        ("changes its size", lambda: image.scale_and_translate(
            PICTURE, (5, 8, 2), (0,), np.ones(1), np.ones(1), "linear")),
        ("for 1 axes", lambda: image.scale_and_translate(PICTURE, (5, 7, 2), (0,), np.ones(2), np.ones(1), "linear")),
    ],
)  # fmt: skip
def test_images_refuse(error, call):
    with pytest.raises(tw.errors.TilewrightError) as caught:
        call()
    assert error in str(caught.value)


@pytest.mark.parametrize("kind", ["sum", "prod", "max", "min"])
def test_segments_of_one_value(kind):
    """One value is that of every id."""
    segment = getattr(ops, f"segment_{kind}")
    for shape, ids in (((), [0, 0, 2, 0]), ((1,), [0, 0, 2, 0]), ((1, 2), [0, 0, 2, 0]), ((), [[0, 2], [2, 0]]),
                       ((4,), [[0, 0, 2, 0]])):  # fmt: skip
        data = np.full(shape, 3.0, np.float32)
        whole = np.broadcast_to(data, (*np.shape(ids), *shape[1:]))
        np.testing.assert_array_equal(segment(data, np.array(ids), 3), segment(whole, np.array(ids), 3))
