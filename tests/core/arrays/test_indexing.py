"""Indexing and indexed updates against NumPy, which defines them; out-of-bounds rules, derivatives and errors."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright import config
from tilewright.core.api.transformations import grad, jvp, vjp, vmap
from tilewright.core.arrays.gather_scatter_indexing import IndexUpdate, getitem
from tilewright.core.primitives.reduction.reduce import reduce_sum_p
from tilewright.core.primitives.refs.ref_indexing import dslice as ds
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    BooleanIndexError,
    DtypeError,
    IndexingError,
    ShapeError,
)
from tilewright.core.support.runtime import runtime
from tilewright.core.tracing.index_entries import Span, parse_index
from tilewright.core.tracing.numpy_interpreter import apply, evaluate
from tilewright.core.tracing.trace import trace_program, typeof

SHAPES = [(), (5,), (3, 4), (2, 3, 4), (0, 3), (3, 0, 2), (2, 1, 3, 2)]


@pytest.fixture(autouse=True)
def numpy_evaluator():
    runtime.backend.evaluate = apply
    yield
    del runtime.backend.evaluate


def array_of(shape, salt=0):
    size = int(np.prod(shape))
    return (np.arange(size) * 37 % 23 - 11 + salt).astype(np.float32).reshape(shape)


@st.composite
def indexed(draw):
    """A shape and an index that NumPy takes."""
    shape = draw(st.sampled_from(SHAPES))
    block = draw(st.sampled_from([(), (2,), (3,), (2, 3), (0,), (1, 3)]))
    items, axis, ellipsis = [], 0, False
    used = draw(st.integers(0, len(shape)))
    while axis < used:
        size = shape[axis]
        choices = ["slice", "slice", "new", "whole"] + ["int", "array", "array", "mask"] * (size > 0)
        choice = draw(st.sampled_from(choices + ["ellipsis"] * (not ellipsis)))
        if choice == "new":
            items.append(None)
            continue
        if choice == "ellipsis":
            items.append(Ellipsis)
            ellipsis = True
            continue
        axis += 1
        if choice == "int":
            items.append(draw(st.integers(-size, size - 1)))
        elif choice == "slice":
            bound = st.none() | st.integers(-size - 2, size + 2)
            step = draw(st.sampled_from([None, 1, -1, 2, -2, 3, -3]))
            items.append(slice(draw(bound), draw(bound), step))
        elif choice == "array":
            rng = np.random.default_rng(draw(st.integers(0, 99)))
            items.append(rng.integers(-size, size, block).astype(draw(st.sampled_from(["int32", "int8"]))))
        elif choice == "mask":
            items.append(np.random.default_rng(draw(st.integers(0, 99))).random(size) < 0.5)
        else:
            items.append(slice(None))
    index = tuple(items)
    try:
        array_of(shape)[index]
    except IndexError:  # masks whose counts do not broadcast
        index = (Ellipsis,)
    return shape, index


def times_named(shape, index):
    count = np.zeros(shape, int)
    np.add.at(count, index, 1)
    return count


def updated(x, index, values, ufunc):
    out = x.copy()
    ufunc.at(out, index, values)
    return out


EVERY = settings(max_examples=300)


@EVERY
@given(indexed())
def test_getitem_is_numpys(case):
    shape, index = case
    x = array_of(shape)
    found, expected = getitem(x, index), x[index]
    assert found.shape == expected.shape
    np.testing.assert_array_equal(found, expected)


@EVERY
@given(indexed())
def test_updates_are_numpys(case):
    shape, index = case
    x, count = array_of(shape), times_named(shape, index)
    y = array_of(x[index].shape, 1)
    place = IndexUpdate(x)[index]
    np.testing.assert_array_equal(place.add(y), updated(x, index, y, np.add))
    np.testing.assert_array_equal(place.subtract(y), updated(x, index, y, np.subtract))
    np.testing.assert_array_equal(place.multiply(y), updated(x, index, y, np.multiply))
    np.testing.assert_array_equal(place.min(y), updated(x, index, y, np.minimum))
    np.testing.assert_array_equal(place.max(np.float32(2)), updated(x, index, np.float32(2), np.maximum))
    np.testing.assert_array_equal(place.apply(lambda v: v * 2.0), x * 2.0**count)
    if count.max(initial=0) > 1:
        y = np.float32(3)
    expected = x.copy()
    expected[index] = y
    np.testing.assert_array_equal(place.set(y), expected)


@EVERY
@given(indexed())
def test_traced_positions_are_numpys(case):
    shape, index = case
    x = array_of(shape)
    y = array_of(x[index].shape, 1)
    traced = [n for n, i in enumerate(index) if isinstance(i, (int, np.ndarray)) and np.asarray(i).dtype != bool]
    positions = [np.asarray(index[n]).astype(np.int32) for n in traced]

    def f(x, y, *positions):
        items = list(index)
        for n, p in zip(traced, positions, strict=True):
            items[n] = p
        place = IndexUpdate(x)[tuple(items)]
        return [getitem(x, tuple(items)), place.get(mode="fill"), place.get(mode="clip"), place.add(y)]

    program = trace_program(f, [typeof(v) for v in (x, y, *positions)])
    one, two, three, added = evaluate(program, x, y, *positions)
    for found in (one, two, three):
        np.testing.assert_array_equal(found, x[index])
    np.testing.assert_array_equal(added, updated(x, index, y, np.add))


INDICES = [
    (slice(1, 4),),
    (2,),
    (slice(None, None, -2), None),
    (np.array([3, 0, 3]),),
    (np.array([[1], [2]]), slice(0, 3, 2)),
    (slice(None), np.array([0, 2, 2])),
    (np.array([True, False, True, True, False]),),
    (np.array([4, -1]), np.array([0, 1])),
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_gradients_are_finite_differences(index):
    with config(enable_x64=True):
        x = np.random.default_rng(0).uniform(1, 2, (5, 4))
        y = np.random.default_rng(1).uniform(1, 2, x[index].shape)
        functions = [
            lambda x, y: getitem(x, index) * y,
            lambda x, y: IndexUpdate(x)[index].set(y) ** 2,
            lambda x, y: IndexUpdate(x)[index].add(y * y),
            lambda x, y: IndexUpdate(x)[index].min(y) * x,
            lambda x, y: IndexUpdate(x)[index].max(y) * x,
            lambda x, y: IndexUpdate(x)[index].multiply(3.0) * x,
        ]
        for f in functions:
            t, s = np.sin(x), np.cos(y)
            out, tangent = jvp(f, (x, y), (t, s))
            h = 1e-6
            expected = (np.asarray(f(x + h * t, y + h * s)) - np.asarray(f(x - h * t, y - h * s))) / (2 * h)
            np.testing.assert_allclose(tangent, expected, rtol=1e-5, atol=1e-7)
            ct = np.cos(np.asarray(out))
            x_bar, y_bar = vjp(f, x, y)[1](ct)
            np.testing.assert_allclose(np.sum(ct * tangent), np.sum(x_bar * t) + np.sum(y_bar * s), rtol=1e-9)


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_vmap_of_indexing_is_a_loop(index):
    xs = np.random.default_rng(0).uniform(1, 2, (3, 5, 4)).astype(np.float32)
    found = vmap(lambda x: getitem(x, index))(xs)
    np.testing.assert_array_equal(found, np.stack([x[index] for x in xs]))
    found = vmap(lambda x: IndexUpdate(x)[index].add(1.0), in_axes=1, out_axes=1)(np.moveaxis(xs, 0, 1))
    expected = [updated(x, index, np.float32(1), np.add) for x in xs]
    np.testing.assert_array_equal(np.moveaxis(found, 1, 0), np.stack(expected))


def test_vmap_over_positions():
    x = array_of((4, 3))
    rows = np.array([2, -1, 0, 0], np.int32)
    np.testing.assert_array_equal(vmap(lambda i: getitem(x, i))(rows), x[rows])
    np.testing.assert_array_equal(vmap(lambda v, i: getitem(v, i))(x, rows % 3), x[np.arange(4), rows % 3])
    found = vmap(lambda v, i: IndexUpdate(v)[i].set(9.0))(x, rows % 3)
    expected = x.copy()
    expected[np.arange(4), rows % 3] = 9
    np.testing.assert_array_equal(found, expected)


def test_out_of_bounds_reads():
    x, i = np.arange(5, dtype=np.float32), np.array([7, -9, 1], np.int32)
    np.testing.assert_array_equal(getitem(x, i), [4, 0, 1])
    assert getitem(x, 9) == 4 and getitem(x, -9) == 0
    place = IndexUpdate(x)[i]
    np.testing.assert_array_equal(place.get(mode="fill"), [np.nan, np.nan, 1])
    np.testing.assert_array_equal(place.get(mode="fill", fill_value=-1), [-1, -1, 1])
    np.testing.assert_array_equal(IndexUpdate(x)[-1:].get(mode="fill"), [4])
    unwrapped = IndexUpdate(x)[np.array([-1])].get(mode="fill", wrap_negative_indices=False)
    np.testing.assert_array_equal(unwrapped, [np.nan])
    for dtype, fill in (("int8", -128), ("uint16", 65535), ("bool", True)):
        np.testing.assert_array_equal(IndexUpdate(np.zeros(3, dtype))[np.array([5])].get(mode="fill"), [fill])


def test_out_of_bounds_updates():
    x, i = np.arange(5, dtype=np.float32), np.array([7, -9, 1], np.int32)
    np.testing.assert_array_equal(IndexUpdate(x)[i].set(9), [0, 9, 2, 3, 4])
    np.testing.assert_array_equal(IndexUpdate(x)[i].add(9, mode="clip"), [9, 10, 2, 3, 13])
    np.testing.assert_array_equal(IndexUpdate(x)[7].set(9), x)
    np.testing.assert_array_equal(IndexUpdate(x)[7].set(9, mode="clip"), [0, 1, 2, 3, 9])


def test_repeated_places():
    x, i = np.zeros(3, np.float32), np.array([1, 1, 1])
    np.testing.assert_array_equal(IndexUpdate(x)[i].add(1), [0, 3, 0])
    np.testing.assert_array_equal(IndexUpdate(x)[i].apply(lambda v: v + 1), [0, 3, 0])
    _, pull = vjp(lambda v: IndexUpdate(x)[i].set(v), np.arange(3, dtype=np.float32))
    assert np.sum(np.asarray(pull(np.array([5, 7, 9], np.float32))[0])) == 7  # one of them won


def test_dtypes_of_updates():
    x = np.arange(4, dtype=np.int32)
    with pytest.warns(FutureWarning, match="do not fit"):
        out = IndexUpdate(x)[np.array([0, 0])].add(0.5)
    assert out.dtype == np.int32
    np.testing.assert_array_equal(out, [1, 1, 2, 3])
    assert IndexUpdate(np.zeros(2, np.uint8))[0].set(200).dtype == np.uint8
    np.testing.assert_array_equal(IndexUpdate(np.ones(3, np.float32))[1:].divide(4.0), [1, 0.25, 0.25])
    np.testing.assert_array_equal(IndexUpdate(np.full(3, 2, np.float32))[1:].power(3.0), [2, 8, 8])


def test_traced_masks_update_by_selection():
    x, mask = np.arange(4, dtype=np.float32), np.array([True, False, True, False])
    found = vmap(lambda x, m: IndexUpdate(x)[m].set(9.0))(np.stack([x, x]), np.stack([mask, ~mask]))
    np.testing.assert_array_equal(found, [[9, 1, 9, 3], [0, 9, 2, 9]])


@pytest.mark.parametrize("index", [
    (slice(None), 0, Ellipsis, np.array([1, 2])), (slice(None), np.array([1, 2]), Ellipsis, np.array([1, 2])),
    (slice(None), 0, Ellipsis, np.array([True, True, False, False, False])), (0, Ellipsis, 1, np.array([1, 2])),
    (slice(None), slice(None), Ellipsis, np.array([1, 2])), (slice(None), True, Ellipsis, 0, np.array([1, 2])),
])  # fmt: skip
def test_an_ellipsis_of_no_axis_keeps_arrays_apart(index):
    x = array_of((3, 4, 5))
    want = x[index]
    np.testing.assert_array_equal(getitem(x, index), want)
    values, changed = array_of(want.shape, salt=50), x.copy()
    changed[index] = values
    np.testing.assert_array_equal(IndexUpdate(x)[index].set(values), changed)


def test_parse_index():
    assert parse_index((4, 5, 6), (slice(3, None, -2), None, -1)) == [Span(3, -2, 2), None, -1, Span(0, 1, 6)]
    assert parse_index((4, 5), Ellipsis) == [Span(0, 1, 4), Span(0, 1, 5)]
    first, second = parse_index((2, 2), np.array([[True, False], [False, True]]))
    np.testing.assert_array_equal(first, [0, 1])
    np.testing.assert_array_equal(second, [0, 1])


@pytest.mark.parametrize(
    ("index", "error", "match"),
    [
        (1.5, ArgumentTypeError, "1.5"),
        ("a", ArgumentTypeError, "'a'"),
        ((0, 0, 0), IndexingError, r"3 indices for an array of shape \(3, 4\)"),
        ((Ellipsis, Ellipsis), IndexingError, "more than one ellipsis"),
        (slice(0, 3, 0), IndexingError, "step zero"),
        (np.array([0.5]), DtypeError, r"f32\[1\]"),
        (np.array([True, False]), IndexingError, r"mask of shape \(2,\)"),
        ((np.zeros(2, int), np.zeros(3, int)), IndexingError, "cannot be broadcast"),
    ],
)
def test_bad_indices(index, error, match):
    with pytest.raises(error, match=match) as caught:
        getitem(np.zeros((3, 4), np.float32), index)
    assert __file__ in str(caught.value)


def test_bad_updates_and_modes():
    x = np.zeros((3, 4), np.float32)
    with pytest.raises(ShapeError, match=r"values of shape \(2,\) do not fit"):
        IndexUpdate(x)[0].set(np.ones(2, np.float32))
    with pytest.raises(ArgumentError, match="no index mode 'wrap'"):
        IndexUpdate(x)[np.array([0])].get(mode="wrap")
    with pytest.raises(IndexingError, match="size 0"):
        getitem(np.zeros((0, 3), np.float32), np.array([0]))


def test_traced_indices_that_decide_shapes():
    x = np.zeros(4, np.float32)
    with pytest.raises(BooleanIndexError, match=r"numpy\.where"):
        vmap(lambda m: getitem(x, m))(np.zeros((2, 4), bool))
    with pytest.raises(IndexingError, match="dynamic_slice"):
        vmap(lambda i: getitem(x, slice(i, None)))(np.arange(2))


def test_gradient_through_a_scalar_read():
    x = np.array([3.0, 4.0], np.float32)
    np.testing.assert_array_equal(grad(lambda x: getitem(x, 1) ** 2)(x), [0, 8])
    total = grad(lambda x: reduce_sum_p.bind(getitem(x, np.array([0, 0, 1])), axes=(0,)))
    np.testing.assert_array_equal(total(x), [2, 1])


# ---------------------------------------------------------------------------- slices of a computed start

SLICED = array_of((4, 3))


@given(st.integers(-4, 6), st.integers(0, 4), st.sampled_from([None, 1, slice(None, None, -1), [0, 2]]))
@settings(max_examples=20)
def test_a_computed_start_is_clamped(start, size, other):
    from_end = start + 4 if start < 0 else start
    first = min(max(from_end, 0), 4 - size)
    index = slice(first, first + size) if other is None else (slice(first, first + size), other)


    def read(i):
        asked = ds(i, size)
        return [getitem(SLICED, asked if other is None else (asked, other))]

    found = evaluate(trace_program(read, [typeof(np.int32(1))], "read"), np.int32(start))[0]
    np.testing.assert_array_equal(found, SLICED[index])


def test_a_known_start_is_as_in_a_slice():
    np.testing.assert_array_equal(getitem(SLICED, ds(1, 2, 2)), SLICED[1:5:2])
    np.testing.assert_array_equal(getitem(SLICED, (ds(3, 2), 0)), SLICED[3:, 0])


def test_an_update_that_would_leave_the_array_is_dropped():
    start = trace_program(lambda i: [IndexUpdate(SLICED).__getitem__(ds(i, 2)).set(0)], [typeof(np.int32(1))], "set")
    expected = SLICED.copy()
    expected[1:3] = 0
    np.testing.assert_array_equal(evaluate(start, np.int32(1))[0], expected)
    np.testing.assert_array_equal(evaluate(start, np.int32(3))[0], SLICED)


def test_slices_of_a_computed_size_or_of_many_starts_are_refused():
    with pytest.raises(IndexingError, match="starts at an array"):
        getitem(SLICED, ds(np.arange(2), 2))
    with pytest.raises(IndexingError, match="a computed size"):
        trace_program(lambda n: [getitem(SLICED, ds(0, n))], [typeof(np.int32(1))], "f")
