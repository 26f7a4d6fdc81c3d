"""NumPy's indexing: `x[index]` and `x.at[index].set(y)`, as slices where they are known, else as gathers and scatters.

All of it works on the entries of an index (`core/tracing/index_entries.py`). Out of bounds: reads clamp, updates are
dropped, unless `mode` says otherwise; a slice never leaves its array.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.array import Array, ArrayLike, Index, Operand
from ..ir.binding import is_evaluating, with_out_sharding
from ..ir.promotion import promote_types
from ..ir.types import INT32, INT64, ArrayType, Shape, is_bool, is_integer
from ..primitives.elementwise.arithmetic import add_p, max_p, min_p, mul_p, sub_p
from ..primitives.elementwise.comparison import select_n_p
from ..primitives.elementwise.conversion import cast, convert_element_type
from ..primitives.movement.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p, int64, widened, wrapped
from ..primitives.movement.gather_dimension_numbers import (
    CLIP,
    FILL,
    PROMISE,
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from ..primitives.movement.gather_functions import gather
from ..primitives.movement.scatter_functions import (
    scatter,
    scatter_add,
    scatter_apply,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
)
from ..primitives.movement.shape import (
    Dims,
    broadcast_in_dim,
    broadcast_shapes,
    broadcast_to,
    concatenate,
    expand_dims,
    full_like,
    reshape_to,
    rev,
    slice_p,
    squeeze,
)
from ..support.config import current
from ..support.errors import IndexingError, ShapeError, check_options, warn
from ..tracing.array_conversion import on_devices_of
from ..tracing.index_entries import Entries, Entry, Flag, Span, is_array, is_basic, known_mask, parse_index, takes_axis
from ..tracing.trace import Tracer, Value, dtype_of, shape_of, typeof

INT32_MAX = np.iinfo(np.int32).max

# ---------------------------------------------------------------------------- lists of traced integers


def _holds_tracer(item: Any) -> bool:
    return any(map(_holds_tracer, item)) if isinstance(item, (list, tuple)) else isinstance(item, Tracer)


def _joined(item: Any) -> Any:
    """A list that holds traced integers as one array; other items as they are."""
    if not isinstance(item, (list, tuple)) or not _holds_tracer(item):
        return item
    parts = [_joined(i) if _holds_tracer(i) else np.asarray(i) for i in item]
    dtype = promote_types([typeof(p) for p in parts])[0]  # type: ignore[misc]
    return concatenate([expand_dims(cast(p, dtype), (0,)) for p in parts], 0)


def _entries(shape: Shape, index: Index) -> Entries:
    return parse_index(shape, tuple(map(_joined, index)) if isinstance(index, tuple) else _joined(index))


# ---------------------------------------------------------------------------- integers and slices


def _is_known(x: ArrayLike) -> bool:
    """Whether a position is a number or a size rather than an array."""
    return isinstance(x, int) or getattr(x, "symbolic", False)


def _position(entry: ArrayLike, axis: int, size: int, wrap: bool, clamp: bool = True) -> Any:
    """An integer entry as a start index; `clamp`: a symbolic one within bounds."""
    if type(size) is int and not size and (_is_known(entry) or not shape_of(entry)):
        raise IndexingError(f"index {entry} into axis {axis} of size 0", "the axis has no elements")
    if not _is_known(entry):
        return wrapped(entry, size) if wrap else entry
    if type(size) is not int or type(entry) is not int:
        kind: Any = type(size if type(size) is not int else entry)
        position = entry + size if entry < 0 and wrap else entry
        return kind.smallest(kind.largest(position, 0), size - 1) if clamp else position
    return entry + size if entry < 0 and wrap else entry


def _first(span: Span, size: int, wrap: bool) -> Any:
    """The least index that a slice touches; a computed one may count from the end."""
    return wrapped(span.low, size) if wrap and is_array(span.start) else span.low


def _in_bounds(entries: Sequence[Entry], shape: Shape, wrap: bool) -> bool:
    """Whether integers are static and in bounds."""
    axes: list[Any] = [e for e in entries if takes_axis(e)]
    for entry, size in zip(axes, shape, strict=True):
        if type(entry) is Span:
            if is_array(entry.start):
                return False
        elif is_array(entry):
            return False
        elif _is_known(entry) and type(size) is int and not (-size if wrap else 0) <= entry < size:
            return False
    return True


class _Box(NamedTuple):
    """A basic index: the box of elements it selects, and the steps from the box to the result."""

    starts: list[Any]
    sizes: Dims
    steps: Dims  # within the box
    reverse: Dims
    drop: Dims
    new_axes: Dims

    def result(self, box: Array) -> Any:
        """The box's elements in the order and shape of the result."""
        box = rev(box, self.reverse) if self.reverse else box
        box = squeeze(box, self.drop) if self.drop else box
        return expand_dims(box, self.new_axes) if self.new_axes else box

    def shape(self) -> Shape:
        """The shape of the result, without the new axes."""
        sizes = [-(-n // s) for n, s in zip(self.sizes, self.steps, strict=True)]
        return tuple(n for i, n in enumerate(sizes) if i not in self.drop)

    def box(self, values: Operand) -> Any:
        """What `result` undoes: values of the result's shape as a box."""
        values = squeeze(values, self.new_axes) if self.new_axes else values
        values = expand_dims(values, self.drop) if self.drop else values
        return rev(values, self.reverse) if self.reverse else values


def _box(entries: Sequence[Entry], shape: Shape, wrap: bool) -> _Box:
    starts: list[Any] = []
    sizes, steps, reverse, drop = [], [], [], []
    axes = [e for e in entries if e is not None]
    for axis, (entry, size) in enumerate(zip(axes, shape, strict=True)):
        if isinstance(entry, Span):
            many = type(entry.size) is not int or entry.size > 1
            starts.append(_first(entry, size, wrap) if many or entry.size else 0)
            sizes.append(entry.reach)
            steps.append(abs(entry.step) if many else 1)
            if entry.step < 0 and many:
                reverse.append(axis)
        else:
            starts.append(_position(entry, axis, size, wrap))
            sizes.append(1)
            steps.append(1)
            drop.append(axis)
    kept = [e for e in entries if e is None or isinstance(e, Span)]
    new_axes = tuple(i for i, e in enumerate(kept) if e is None)
    return _Box(starts, tuple(sizes), tuple(steps), tuple(reverse), tuple(drop), new_axes)


def _literals(starts: Sequence[Any]) -> list[Any]:
    return [np.int32(min(max(s, -INT32_MAX), INT32_MAX)) if isinstance(s, int) else s for s in starts]


def _small(shape: Shape) -> bool:
    return all([d <= INT32_MAX for d in shape if type(d) is int])


def _outside(box: _Box, shape: Shape) -> bool:
    """Whether an integer is known to be out of bounds: `dynamic_slice` clamps it, and checks report it."""
    return any(
        type(start) is int and type(size) is int and not 0 <= start <= size - n
        for start, n, size in zip(box.starts, box.sizes, shape, strict=True)
    )


def _read_box(x: Array, box: _Box, shape: Shape) -> Any:
    known = all(_is_known(s) for s in box.starts) and not _outside(box, shape)
    plain = all(s == 1 for s in box.steps)
    if known and plain and box.sizes == tuple(shape):
        return x
    # Evaluated at once, a known position is an operand all the same: one executable serves every position. What types
    # tell of the result is then known where no more is cut out than it has.
    moving = is_evaluating() and isinstance(x, Value) and _small(shape) and (plain or x.aval.placed is None)
    if known and not moving:
        limits = tuple(a + n for a, n in zip(box.starts, box.sizes, strict=True))
        strides = None if plain else box.steps
        return slice_p.bind(x, start_indices=tuple(box.starts), limit_indices=limits, strides=strides)
    x = dynamic_slice_p.bind(x, *_literals(box.starts), slice_sizes=box.sizes)
    if plain:
        return x
    return slice_p.bind(x, start_indices=(0,) * len(shape), limit_indices=box.sizes, strides=box.steps)


# ---------------------------------------------------------------------------- arrays among the entries


class _Plan(NamedTuple):
    """A gather or scatter: indices, dimension numbers, and the steps from the window array to the result."""

    indices: Any
    numbers: GatherDimensionNumbers
    sizes: Dims
    shape: Shape  # of the window array
    reverse: Dims
    new_axes: Dims
    unique: bool

    def result(self, windows: Operand) -> Any:
        windows = rev(windows, self.reverse) if self.reverse else windows
        return expand_dims(windows, self.new_axes) if self.new_axes else windows

    def windows(self, values: Operand) -> Any:
        values = squeeze(values, self.new_axes) if self.new_axes else values
        return rev(values, self.reverse) if self.reverse else values


def _with_flags(x: Operand, entries: Entries) -> tuple[Any, Entries, Dims]:
    """Flags as arrays that index axes of size 1 put into `x` for them."""
    new, axis, out = [], 0, Entries()
    out.apart = entries.apart
    for entry in entries:
        if isinstance(entry, Flag):
            new.append(axis)
            entry = np.zeros(int(entry.value), np.int32)
        out.append(entry)
        axis += entry is not None
    return (expand_dims(x, new) if new else x), out, tuple(new)


def _block_first(entries: Entries) -> int | None:
    """Where NumPy puts the axes of broadcast index arrays: at the first of them, or in front if not adjacent."""
    places = [n for n, e in enumerate(entries) if isinstance(e, int) or is_array(e)]
    if places[-1] - places[0] + 1 == len(places) and not entries.apart:
        return places[0]
    return None


class _Planner:
    """What the entries of an index make of the axes of an operand, taken one after the other."""

    def __init__(self, entries: Entries, shape: Shape, wrap: bool):
        self.entries, self.shape, self.wrap = entries, shape, wrap
        self.arrays = [e for e in entries if isinstance(e, int) or is_array(e)]
        self.block = _broadcast_indices([() if isinstance(a, int) else shape_of(a) for a in self.arrays])
        self.block_at = 0  # where the batch axes of the broadcast index arrays start
        self.batch: list[int] = []  # sizes of the axes of the index array, in the order of the result
        self.windows: dict[int, int] = {}  # the size of each window axis, by its axis of the result
        self.parts: list[tuple[Any, int]] = []  # for each indexed operand axis: indices, and their first batch axis
        self.indexed: list[int] = []
        self.sizes: list[int] = []
        self.reverse: list[int] = []
        self.new_axes: list[int] = []

    @property
    def out(self) -> int:
        """Axes of the result so far; new ones are not counted."""
        return len(self.batch) + len(self.windows)

    def plan(self) -> _Plan:
        first = _block_first(self.entries) if self.arrays else None
        if first is None:
            self.put_block()
        axis = 0
        for n, entry in enumerate(self.entries):
            if n == first:
                self.put_block()
            if entry is None:
                self.new_axes.append(self.out + len(self.new_axes))
                continue
            self.put(entry, axis)
            axis += 1
        rest = iter(self.batch)
        window_shape = tuple(self.windows[i] if i in self.windows else next(rest) for i in range(self.out))
        ends = [(p, self.block_at + len(self.block) - _rank(p) if at < 0 else at) for p, at in self.parts]
        return _Plan(
            _stacked(ends, self.batch, self.shape),
            GatherDimensionNumbers(tuple(self.windows), _collapsed(self.entries), tuple(self.indexed)),
            tuple(self.sizes), window_shape, tuple(self.reverse), tuple(self.new_axes),
            unique=all(isinstance(e, int) or shape_of(e) == () for e in self.arrays),
        )  # fmt: skip

    def put_block(self) -> None:
        self.block_at = len(self.batch)
        self.batch.extend(self.block)

    def put(self, entry: Any, axis: int) -> None:
        """An entry for an axis of the operand."""
        if not isinstance(entry, Span):
            self.index(axis, _position(entry, axis, self.shape[axis], self.wrap, clamp=False), -1)
            self.sizes.append(1)
        elif abs(entry.step) == 1 or entry.size <= 1:
            if not entry.is_whole(self.shape[axis]):
                self.index(axis, _first(entry, self.shape[axis], self.wrap) if entry.size else 0, -1)
            if entry.step < 0:
                self.reverse.append(self.out)
            self.windows[self.out] = entry.size
            self.sizes.append(entry.size)
        else:
            first = _first(entry, self.shape[axis], self.wrap) if is_array(entry.start) else entry.start
            self.index(axis, first + np.arange(entry.size, dtype=np.int64) * entry.step, len(self.batch))
            self.batch.append(entry.size)
            self.sizes.append(1)

    def index(self, axis: int, positions: ArrayLike, at: int) -> None:
        self.parts.append((positions, at))
        self.indexed.append(axis)


def _collapsed(entries: Sequence[Entry]) -> Dims:
    """Operand axes that are not window axes of the result."""
    axes = [e for e in entries if e is not None]
    return tuple(i for i, e in enumerate(axes) if not (isinstance(e, Span) and (abs(e.step) == 1 or e.size <= 1)))


def _rank(part: ArrayLike) -> int:
    return 0 if isinstance(part, int) else len(shape_of(part))


def _broadcast_indices(shapes: Sequence[Shape]) -> Shape:
    try:
        return broadcast_shapes(*shapes)
    except ShapeError:
        shown = ", ".join(map(str, shapes))
        raise IndexingError(
            f"index arrays of shapes {shown} cannot be broadcast", "sizes must be equal or 1"
        ) from None


def _stacked(parts: Sequence[tuple[Any, int]], batch: Sequence[int], shape: Shape) -> Any:
    """Positions along several axes, each over its own batch axes, as one index array (*batch, number of axes)."""
    full = (*batch, 1)
    wide = not _small(shape) or any(isinstance(p, Value) and dtype_of(p).itemsize == 8 for p, _ in parts)
    dtype = INT64 if wide else INT32
    columns = []
    for part, at in parts:
        dims = tuple(range(at, at + _rank(part)))
        if isinstance(part, Value):
            part = widened(part) if wide else convert_element_type(part, dtype)
            columns.append(broadcast_in_dim(part, full, dims))
        else:
            view = [1] * len(full)
            for d, size in zip(dims, np.shape(part), strict=True):
                view[d] = size
            limits = np.iinfo(dtype)
            values = np.clip(np.asarray(part, np.int64), limits.min, limits.max).astype(dtype)
            column = np.broadcast_to(values.reshape(view), full)
            columns.append(int64(column) if wide and not current().enable_x64 else column)
    if not any(isinstance(c, Value) for c in columns):
        return np.concatenate(columns, -1)
    return concatenate(columns, len(batch))


# ---------------------------------------------------------------------------- reading


def getitem(x: ArrayLike, index: Index) -> Any:
    """`x[index]` by NumPy's rules; integers out of bounds are clamped."""
    return get(x, index)


def get(
    x: ArrayLike, index: Index, *, indices_are_sorted: bool = False, unique_indices: bool = False,
    mode: Any = None, fill_value: ArrayLike | None = None, wrap_negative_indices: bool = True,
) -> Any:  # fmt: skip
    """`x[index]` with a choice of what out-of-bounds integers give (`mode`, `fill_value`)."""
    shape, wrap = shape_of(x), wrap_negative_indices
    entries = _entries(shape, index)
    how = PROMISE if mode is None else GatherScatterMode.from_any(mode)
    if how is PROMISE and current().check_static_indices:
        _check_static(entries, shape)
    if is_basic(entries) and (how is not FILL or _in_bounds(entries, shape, wrap)):
        box = _box(entries, shape, wrap)
        return box.result(_read_box(x, box, shape))
    x, entries, _ = _with_flags(x, entries)
    plan = _Planner(entries, shape_of(x), wrap).plan()
    if 0 in plan.shape:
        return plan.result(on_devices_of(x, full_like(x, 0, shape=plan.shape)))
    _check_not_empty(entries, shape_of(x))
    out = gather(
        x, plan.indices, plan.numbers, plan.sizes, unique_indices=unique_indices or plan.unique,
        indices_are_sorted=indices_are_sorted or plan.unique, mode=how, fill_value=fill_value)  # fmt: skip
    return plan.result(out)


def _check_static(entries: Sequence[Entry], shape: Shape) -> None:
    """Raise where a known integer is beyond its axis, which reads nearby otherwise."""
    axes = [e for e in entries if takes_axis(e)]
    for axis, (entry, size) in enumerate(zip(axes, shape, strict=True)):
        if type(entry) is int and type(size) is int and not -size <= entry < size:
            raise IndexingError(f"index {entry} is out of bounds for axis {axis} of size {size}",
                                "`check_static_indices` asks for indices within")  # fmt: skip


def _check_not_empty(entries: Sequence[Entry], shape: Shape) -> None:
    axes = [e for e in entries if e is not None]
    for axis, (entry, size) in enumerate(zip(axes, shape, strict=True)):
        if not size and not isinstance(entry, Span):
            raise IndexingError(f"an array of indices into axis {axis} of size 0", "the axis has no elements")


# ---------------------------------------------------------------------------- updating


class _Operation(NamedTuple):
    """An update: its scatter, and what it does to elements read and written back."""

    scatter: Callable[..., Any]
    combine: Callable[[Any, Any], Any]


OPERATIONS = {
    "set": _Operation(scatter, lambda old, new: new),
    "add": _Operation(scatter_add, lambda old, new: add_p.bind(old, new)),
    "subtract": _Operation(scatter_sub, lambda old, new: sub_p.bind(old, new)),
    "multiply": _Operation(scatter_mul, lambda old, new: mul_p.bind(old, new)),
    "min": _Operation(scatter_min, lambda old, new: min_p.bind(old, new)),
    "max": _Operation(scatter_max, lambda old, new: max_p.bind(old, new)),
}


def update(
    x: ArrayLike, index: Index, values: ArrayLike, name: str, *, indices_are_sorted: bool = False,
    unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True,
) -> Any:  # fmt: skip
    """`x` with `values` set, added, ... at an index; repeated places take every update, in no certain order."""
    type_ = typeof(x)
    x, values = _promoted(x, values, name)
    operation = OPERATIONS[name]
    flags = (indices_are_sorted, unique_indices)
    if _is_traced_mask(index):
        out = _update_mask(x, index, values, operation)
    else:
        out = _update(x, index, values, operation, flags, mode, wrap_negative_indices)
    return _typed_as(out, type_)


def _typed_as(x: Operand, wanted: ArrayType) -> Any:
    """A value with the dtype of a type, weak only where that is."""
    if typeof(x).weak_type and not wanted.weak_type:
        return convert_element_type(x, wanted.dtype)
    return cast(x, wanted.dtype, wanted.weak_type)


def _promoted(x: Operand, values: ArrayLike, name: str) -> tuple[Any, Any]:
    """Array and values of one dtype; the result is cast back to the array's."""
    x_type, value_type = typeof(x), typeof(values)
    dtype, _ = promote_types([x_type, value_type])  # type: ignore[list-item]
    in_range = type(values) is int and is_integer(x_type.dtype)
    if dtype != x_type.dtype and not in_range:
        what = f"at[].{name}: values of {value_type.show()} do not fit an array of {x_type.show()} and will be cast"
        warn(what, FutureWarning)
    if name == "set" or in_range:
        dtype = x_type.dtype
    return cast(x, dtype), cast(values, dtype)


def _fitted(values: ArrayLike, shape: Shape) -> Any:
    """Values broadcast to the shape that the index has."""
    given = shape_of(values)
    while len(given) > len(shape) and given[0] == 1:
        given = given[1:]
    try:
        fits = broadcast_shapes(given, shape) == tuple(shape)
    except ShapeError:
        fits = False
    if not fits:
        raise ShapeError(
            f"values of shape {shape_of(values)} do not fit an index of shape {tuple(shape)}",
            "values broadcast to the shape of x[index]")  # fmt: skip
    return broadcast_to(reshape_to(values, given), shape)


def _final_shape(shape: Shape, new_axes: Dims) -> Shape:
    sizes = list(shape)
    for at in new_axes:
        sizes.insert(at, 1)
    return tuple(sizes)


def _update(
    x: Operand, index: Index, values: ArrayLike, operation: _Operation, flags: Sequence[Any], mode: Any,
    wrap: bool,
) -> Any:  # fmt: skip
    shape = shape_of(x)
    entries = _entries(shape, index)
    how = GatherScatterMode.from_any(mode)
    boxed = _update_as_box(entries, shape, how, wrap)
    if boxed is not None:
        values = boxed.box(_fitted(values, _final_shape(boxed.shape(), boxed.new_axes)))
        return _write_box(x, boxed, values, operation.combine, shape)
    x, entries, added = _with_flags(x, entries)
    plan = _Planner(entries, shape_of(x), wrap).plan()
    values = plan.windows(_fitted(values, _final_shape(plan.shape, plan.new_axes)))
    if 0 not in plan.shape:
        _check_not_empty(entries, shape_of(x))
        x = operation.scatter(
            x, plan.indices, values, ScatterDimensionNumbers(*plan.numbers), mode=how,
            indices_are_sorted=flags[0] or plan.unique, unique_indices=flags[1] or plan.unique)  # fmt: skip
    return squeeze(x, added) if added else x


def _update_as_box(entries: Sequence[Entry], shape: Shape, mode: GatherScatterMode, wrap: bool) -> _Box | None:
    """The box to write, where the update is one box of adjacent elements that is known to be in bounds."""
    if not is_basic(entries) or not _small(shape):
        return None
    if not _in_bounds(entries, shape, wrap) and (mode is not CLIP or 0 in shape):
        return None
    box = _box(entries, shape, wrap)
    return box if all(s == 1 for s in box.steps) else None


def _write_box(x: Array, box: _Box, values: Operand, combine: Callable[[Any, Any], Any], shape: Shape) -> Any:
    if box.sizes == tuple(shape) and all(_is_known(s) for s in box.starts):
        return combine(x, values)
    if 0 in box.sizes:
        return x
    if combine is not OPERATIONS["set"].combine:
        values = combine(_read_box(x, box, shape), values)
    return dynamic_update_slice_p.bind(x, values, *_literals(box.starts))


def _is_traced_mask(index: Index) -> bool:
    if isinstance(index, tuple) and len(index) == 1:
        index = index[0]
    return isinstance(index, Tracer) and is_bool(index.aval.dtype) and index.concrete() is None


def _update_mask(x: Array, mask: Array, values: ArrayLike, operation: _Operation) -> Any:
    """An update where a traced mask holds, by selection; the values must not run over the mask's own elements."""
    mask = mask[0] if isinstance(mask, tuple) else mask
    shape, covered = shape_of(x), shape_of(mask)
    if tuple(shape[: len(covered)]) != covered:
        raise IndexingError(f"mask of shape {covered} for an array of shape {shape}", "it must match the leading axes")
    if len(shape_of(values)) > len(shape) - len(covered):
        known_mask(mask)
    values = broadcast_to(values, shape)
    chosen = broadcast_in_dim(mask, shape, range(len(covered)))
    return select_n_p.bind(chosen, x, operation.combine(x, values))


def apply(x: ArrayLike, index: Any, function: Callable[[Any], Any], *, indices_are_sorted: bool = False,
          unique_indices: bool = False, mode: Any = None, wrap_negative_indices: bool = True) -> Any:  # fmt: skip
    """`x` with a function applied to its elements at an index, once for each time an element is named."""
    shape, wrap = shape_of(x), wrap_negative_indices
    entries, how = _entries(shape, index), GatherScatterMode.from_any(mode)
    boxed = _update_as_box(entries, shape, how, wrap)
    if boxed is not None:
        return _write_box(x, boxed, None, lambda old, _: cast(function(old), dtype_of(x)), shape)
    x, entries, added = _with_flags(x, entries)
    plan = _Planner(entries, shape_of(x), wrap).plan()
    if 0 not in plan.shape:
        _check_not_empty(entries, shape_of(x))
        x = scatter_apply(
            x, plan.indices, function, ScatterDimensionNumbers(*plan.numbers), update_shape=plan.shape, mode=how,
            indices_are_sorted=indices_are_sorted or plan.unique,
            unique_indices=unique_indices or plan.unique)  # fmt: skip
    return squeeze(x, added) if added else x


class IndexUpdate:
    """`x.at`: indexing it gives a place, whose methods give copies of `x` changed there."""

    __slots__ = ("array",)
    array: Any

    def __init__(self, array: Operand):
        self.array = array

    def __getitem__(self, index: Index) -> Place:
        return Place(self.array, index)

    def __repr__(self) -> str:
        return f"IndexUpdate({self.array!r})"


_OPTIONS = ("mode", "indices_are_sorted", "unique_indices", "wrap_negative_indices")


def _check(method: str, options: dict[str, Any]) -> None:
    check_options(f"x.at[...].{method}", options, (*_OPTIONS, "fill_value") if method == "get" else _OPTIONS)


def _lying(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method with an option `out_sharding`: how its result is to lie on a mesh."""
    @functools.wraps(method)
    def call(self: Any, *args: Any, out_sharding: Any = None, **options: Any) -> Any:
        if out_sharding is None:
            return method(self, *args, **options)

        def run(array: Array, index: int, *given: Any) -> Any:
            return method(Place(array, index), *given, **options)

        return with_out_sharding(out_sharding, run, self.array, self.index, *args)

    return call


class Place:
    """`x.at[index]`. Options of every method: `mode` ("promise_in_bounds", "clip", "drop" or "fill"),
    `indices_are_sorted`, `unique_indices`, `wrap_negative_indices`.
    """

    __slots__ = ("array", "index")
    array: Any
    index: Any

    def __init__(self, array: Operand, index: Index):
        self.array, self.index = array, index

    def __repr__(self) -> str:
        return f"Place({self.array!r}, {self.index!r})"

    @_lying
    def get(self, *, fill_value: ArrayLike | None = None, **options: Any) -> Any:
        """`x[index]`, with `fill_value` out of bounds when `mode="fill"`."""
        _check("get", options)
        return get(self.array, self.index, fill_value=fill_value, **options)

    @_lying
    def set(self, values: ArrayLike, **options: Any) -> Any:
        """`x` after `x[index] = values`."""
        _check("set", options)
        return update(self.array, self.index, values, "set", **options)

    @_lying
    def add(self, values: ArrayLike, **options: Any) -> Any:
        """`x` after `x[index] += values`, repeated places taking every addition."""
        _check("add", options)
        return update(self.array, self.index, values, "add", **options)

    @_lying
    def subtract(self, values: ArrayLike, **options: Any) -> Any:
        """`x` after `x[index] -= values`, repeated places taking every subtraction."""
        _check("subtract", options)
        return update(self.array, self.index, values, "subtract", **options)

    @_lying
    def multiply(self, values: ArrayLike, **options: Any) -> Any:
        """`x` after `x[index] *= values`, repeated places taking every product."""
        _check("multiply", options)
        return update(self.array, self.index, values, "multiply", **options)

    mul = multiply

    @_lying
    def divide(self, values: ArrayLike, **options: Any) -> Any:
        """`x` after `x[index] /= values`."""
        _check("divide", options)
        return operator.truediv(self.array, self._factors(values, options))

    @_lying
    def power(self, values: ArrayLike, **options: Any) -> Any:
        """`x` after `x[index] **= values`."""
        _check("power", options)
        return operator.pow(self.array, self._factors(values, options))

    def _factors(self, values: ArrayLike, options: dict[str, Any]) -> Any:
        """Ones, but for the product of the values at the index."""
        return update(full_like(self.array, 1), self.index, values, "multiply", **options)

    @_lying
    def min(self, values: ArrayLike, **options: Any) -> Any:
        """`x` after `x[index] = minimum(x[index], values)`."""
        _check("min", options)
        return update(self.array, self.index, values, "min", **options)

    @_lying
    def max(self, values: ArrayLike, **options: Any) -> Any:
        """`x` after `x[index] = maximum(x[index], values)`."""
        _check("max", options)
        return update(self.array, self.index, values, "max", **options)

    @_lying
    def apply(self, func: Callable[[Any], Any], **options: Any) -> Any:
        """`x` after `func` was applied at the index, once for each time a place is named."""
        _check("apply", options)
        return apply(self.array, self.index, func, **options)
