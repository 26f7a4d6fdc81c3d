"""The functions over the shape, index and sort primitives: conveniences, clamping, total order, and errors."""

import numpy as np
import pytest

from tilewright.core.api.transformations import jvp, vjp
from tilewright.core.ir.types import bfloat16
from tilewright.core.primitives.movement import index_functions, shape, sort
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError, UnsupportedError
from tilewright.core.support.runtime import runtime
from tilewright.core.tracing import trace as tracing
from tilewright.core.tracing.numpy_interpreter import apply

X = np.arange(20, dtype=np.float32).reshape(4, 5)
SPECIAL = np.array([1.0, np.nan, -0.0, np.inf, 0.0, -np.inf, -1.0], np.float32)


@pytest.fixture(autouse=True)
def numpy_evaluator():
    runtime.backend.evaluate = apply
    yield
    del runtime.backend.evaluate


def equal(found, expected):
    expected = np.asarray(expected)
    assert found.shape == expected.shape and found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_shape_functions():
    equal(shape.tile(X, (2, 1, 3)), np.tile(X, (2, 1, 3)))
    equal(shape.collapse(X, 0), X.reshape(20))
    equal(shape.broadcast(X, (2,)), np.broadcast_to(X, (2, 4, 5)))
    equal(shape.expand_dims(X, (0, -1)), X[None, :, :, None])
    equal(shape.reshape(X, (-1, 2), (1, 0)), X.T.reshape(-1, 2))
    equal(shape.full_like(X, 3), np.full_like(X, 3))
    equal(shape.full((2,), 1.5, "int32"), np.ones(2, np.int32))
    equal(shape.broadcasted_iota(bfloat16, (2, 3), 1), np.broadcast_to(np.arange(3), (2, 3)).astype(bfloat16))
    equal(shape.slice_in_dim(X, -3, -1, 1, 1), X[:, -3:-1])
    equal(shape.slice_in_dim(X, None, None, 2), X[::2])
    equal(shape.index_in_dim(X, -1, 1, keepdims=False), X[:, -1])
    equal(shape.stack([X, X], -1), np.stack([X, X], -1))
    equal(shape.unstack(X, 1)[4], X[:, 4])
    assert shape.broadcast_shapes((3, 1), (4,), ()) == (3, 4)
    assert tracing.typeof(shape.full((), 2.0)).shape == ()


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ((1, 2, 0), [9, 1, 2, 3, 9, 9]),
        ((0, 0, 1), [1, 9, 2, 9, 3]),
        ((-1, 1, 1), [9, 2, 9, 3, 9]),
        ((1, -2, 1), [9, 1, 9, 2]),
        ((-2, -1, 0), []),
    ],
)
def test_pad(config, expected):
    x = np.array([1, 2, 3], np.float32)
    equal(shape.pad(x, 9, [config]), np.array(expected, np.float32))
    _, pull = vjp(lambda x, v: shape.pad(x, v, [config]), x, np.float32(9))
    to_x, to_value = pull(np.arange(len(expected), dtype=np.float32))
    source = np.array([expected.index(v) if v in expected else 0 for v in (1, 2, 3)], np.float32)
    equal(to_x, source)
    assert to_value == sum(range(len(expected))) - source.sum()


STARTS = [((0, 0), (0, 0)), ((3, 4), (2, 2)), ((-1, -2), (2, 2)), ((9, -9), (2, 0))]


@pytest.mark.parametrize(("start", "moved"), STARTS)
def test_dynamic_slices_stay_inside(start, moved):
    a, b = moved
    equal(index_functions.dynamic_slice(X, start, (2, 3)), X[a : a + 2, b : b + 3])
    expected = X.copy()
    expected[a : a + 2, b : b + 3] = -1
    equal(index_functions.dynamic_update_slice(X, np.full((2, 3), -1, np.float32), start), expected)


def test_dynamic_indices():
    equal(index_functions.dynamic_index_in_dim(X, -1, 0, keepdims=False), X[-1])
    equal(index_functions.dynamic_slice_in_dim(X, np.int32(-2), 2, 1), X[:, -2:])
    equal(index_functions.dynamic_slice_in_dim(X, -2, 2, 1, allow_negative_indices=False), X[:, :2])
    expected = X.copy()
    expected[:, 3] = 7
    equal(index_functions.dynamic_update_index_in_dim(X, np.full(4, 7, np.float32), 3, 1), expected)
    equal(index_functions.index_take(X, (np.array([0, -1]), np.array([6, 2])), (0, 1)), X[[0, 3], [1, 2]])


def test_sort_orders_every_float():
    equal(sort.sort(SPECIAL), np.sort(SPECIAL))
    equal(sort.argsort(SPECIAL), np.argsort(SPECIAL, kind="stable").astype(np.int32))
    keys, values = sort.sort_key_val(np.array([2, 1, 2, 0]), np.arange(4))
    equal(keys, np.array([0, 1, 2, 2], np.int32))
    equal(values, np.array([3, 1, 0, 2], np.int32))
    out = sort.sort((np.array([1, 0, 1, 0]), np.array([4.0, 3.0, 2.0, 1.0], np.float32)), num_keys=2)
    equal(out[1], np.array([1, 3, 2, 4], np.float32))


def test_top_k():
    values, places = sort.top_k(SPECIAL, 7)
    equal(values, SPECIAL[[1, 3, 0, 4, 2, 6, 5]])
    equal(places, np.array([1, 3, 0, 4, 2, 6, 5], np.int32))
    values, _ = sort.top_k(X, 2, axis=0)
    equal(values, X[[3, 2]])
    values, places = sort.approx_min_k(X, 1)
    equal(values, X[:, :1])
    _, tangent = jvp(lambda x: sort.top_k(x, 2)[0], (X,), (X * 10,))
    equal(tangent, X[:, [4, 3]] * 10)


def test_scatter_mul_needs_unique_indices_for_a_derivative():
    numbers = index_functions.ScatterDimensionNumbers((), (0,), (0,))
    i, x = np.array([[0], [2]]), np.array([2, 3, 4], np.float32)
    with pytest.raises(UnsupportedError, match="unique_indices=True"):
        jvp(lambda u: index_functions.scatter_mul(x, i, u, numbers), (x[:2],), (x[:2],))
    _, tangent = jvp(lambda u: index_functions.scatter_mul(x, i, u, numbers, unique_indices=True), (x[:2],), (x[:2],))
    equal(tangent, np.array([4, 0, 12], np.float32))


ROWS = index_functions.GatherDimensionNumbers((1,), (0,), (0,))


@pytest.mark.parametrize(
    ("call", "error", "match"),
    [
        (lambda: shape.reshape(X, (3, 7)), ShapeError, r"20 elements.*\(3, 7\).*f32\[4,5\]"),
        (lambda: shape.reshape(X, (-1, 7)), ShapeError, r"-1.*f32\[4,5\]"),
        (lambda: shape.broadcast_in_dim(X, (4, 6), (0, 1)), ShapeError, r"\(4, 6\).*f32\[4,5\]"),
        (lambda: shape.transpose(X, (0, 0)), ShapeError, r"permutation \(0, 0\)"),
        (lambda: shape.squeeze(X, (0,)), ShapeError, r"f32\[4,5\]"),
        (lambda: shape.rev(X, (2,)), ShapeError, "axis 2 is out of range"),
        (lambda: shape.slice(X, (0, 0), (4, 6)), ShapeError, r"limits \(4, 6\).*f32\[4,5\]"),
        (lambda: shape.concatenate([X, X[:, :2]], 0), ShapeError, r"f32\[4,5\], f32\[4,2\]"),
        (lambda: shape.concatenate([X, X.astype(int)], 0), DtypeError, r"f32\[4,5\], i32\[4,5\]"),
        (lambda: shape.concatenate([], 0), ArgumentError, "no arrays"),
        (lambda: shape.pad(X, 0.0, [(0, 0, 0)]), ShapeError, r"f32\[4,5\]"),
        (lambda: shape.split(X, (1, 2)), ShapeError, r"\(1, 2\).*f32\[4,5\]"),
        (lambda: shape.full((2, -1), 0), ShapeError, r"\(2, -1\)"),
        (lambda: shape.full((2, 1.5), 0), ArgumentTypeError, r"\(2, 1.5\)"),
        (lambda: shape.broadcasted_iota("bool", (2,), 0), DtypeError, "bool"),
        (lambda: shape.broadcast_shapes((2, 3), (4,)), ShapeError, r"\(2, 3\), \(4,\)"),
        (lambda: index_functions.dynamic_slice(X, (0,), (1, 1)), ShapeError, r"\(4, 5\)"),
        (lambda: index_functions.dynamic_slice(X, (0, 0), (5, 1)), ShapeError, r"\(5, 1\).*f32\[4,5\]"),
        (lambda: index_functions.dynamic_update_slice(X, X.astype(int), (0, 0)), DtypeError, r"i32\[4,5\].*f32\[4,5\]"),
        (lambda: index_functions.gather(X, np.zeros((2, 1), np.float32), ROWS, (1, 5)), DtypeError, r"f32\[2,1\]"),
        (lambda: index_functions.gather(X, np.zeros((2, 2), int), ROWS, (1, 5)), ShapeError, r"i32\[2,2\]"),
        (lambda: index_functions.gather(X, np.zeros((2, 1), int), ROWS, (1, 6)), ShapeError, r"\(1, 6\).*f32\[4,5\]"),
        (lambda: sort.sort((X, X[:2])), ShapeError, r"f32\[4,5\], f32\[2,5\]"),
        (lambda: sort.sort(X, num_keys=2), ArgumentError, "num_keys 2"),
        (lambda: sort.top_k(X, 6), ShapeError, r"k = 6.*f32\[4,5\]"),
    ],
)
def test_errors_show_the_shapes(call, error, match):
    with pytest.raises(error, match=match):
        call()
