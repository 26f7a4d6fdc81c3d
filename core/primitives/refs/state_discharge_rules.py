"""Reads and writes of parts of values, as pure functions: what an access to a Ref means for the value it holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...tracing.trace import shape_of, typeof
from ..elementwise.arithmetic import add_p, mul_p
from ..elementwise.bitwise import and_p
from ..elementwise.comparison import ge_p, lt_p, select_n_p
from ..elementwise.conversion import convert_element_type
from ..movement.dynamic_slice import dynamic_slice, dynamic_update_slice
from ..movement.gather_dimension_numbers import CLIP, FILL, GatherDimensionNumbers, ScatterDimensionNumbers
from ..movement.gather_functions import gather
from ..movement.scatter_functions import scatter, scatter_add
from ..movement.shape import broadcast_in_dim_p, iota_p, pad, reshape_to
from ..movement.shape import slice as slice_
from .state_primitives import Index, Span, Take, access_shape, split_operands

INT32 = np.dtype(np.int32)


def _starts(index: Index, dynamic: Sequence[Any]) -> list[Any]:
    given = iter(dynamic)
    return [next(given) if e.start is None else e.start for e in index]


def _sizes(index: Index) -> list[int]:
    return [e.size for e in index]


def _contiguous(index: Index) -> bool:
    return all(type(e) is not Take and e.stride == 1 for e in index)


def _covers(index: Index, shape: Sequence[int]) -> bool:
    """Whether an access within bounds is to a whole value, in order: nowhere is there another place to start."""
    return all(type(e) is not Take and e.start in (None, 0) and e.size == d and e.stride == 1
               for e, d in zip(index, shape, strict=True))  # fmt: skip


def _spread(x: ArrayLike, shape: Sequence[int], dims: Sequence[int] = ()) -> Any:
    if shape_of(x) == tuple(shape):
        return x
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=tuple(dims))


def _select(mask: Array, on_true: Array, on_false: ArrayLike) -> Any:
    shape = shape_of(on_true)
    return select_n_p.bind(_spread(mask, shape), _spread(on_false, shape), on_true)


def _zero(x: Array) -> Any:
    return np.zeros((), typeof(x).dtype)[()]


def _margin(index: Index, x: Array) -> tuple[Any, list[int]]:
    """A value padded for windows with traced out-of-bounds starts; and the padding before it."""
    room = [e.size if e.start is None and type(e) is Span else 0 for e in index]
    if not any(room):
        return x, room
    return pad(x, _zero(x), [(r, r, 0) for r in room]), room


def read_value(x: ArrayLike, operands: Sequence[Any], *, index: Index, masked: bool = False) -> Any:
    """What `get` gives of a value."""
    dynamic, mask, other = split_operands(index, operands, masked)
    shape = access_shape(index)
    found = _read(x, index, dynamic, shape, masked)
    if mask is None:
        return found
    return _select(mask, found, _zero(x) if other is None else other)


def _read(x: Operand, index: Index, dynamic: Sequence[Any], shape: Sequence[int], masked: bool) -> Any:
    shape = tuple(shape)
    if index.is_whole(shape_of(x)) or (not masked and _covers(index, shape_of(x))):
        return reshape_to(x, shape)
    if index.takes or (index.dynamic and not _contiguous(index)):
        return _read_taken(x, index, dynamic, shape)
    if not index.dynamic:
        lows: list[Any] = [e.start for e in index]
        ends = [low + (e.size - 1) * e.stride if type(e) is Span else low for e, low in zip(index, lows, strict=True)]
        highs = [max(end + 1, low) for end, low in zip(ends, lows, strict=True)]
        return reshape_to(slice_(x, lows, highs, [e.stride for e in index]), shape)
    starts, room = _starts(index, dynamic), [0] * len(index)
    if masked:
        x, room = _margin(index, x)
    starts = [_shifted(s, r) for s, r in zip(starts, room, strict=True)]
    return reshape_to(dynamic_slice(x, starts, _sizes(index), allow_negative_indices=False), shape)


def _shifted(start: Array, room: int) -> Any:
    return start if not room else add_p.bind(start, np.asarray(room, typeof(start).dtype)[()])


def _rows(index: Index, x: Array) -> int | None:
    """The one axis taken along by a 1-d array while all others are whole, if that is what an index is."""
    takes = [i for i, e in enumerate(index) if type(e) is Take]
    if len(takes) != 1 or len(index.picked()[0]) != 1:
        return None
    whole = all(i in takes or (type(e) is Span and e.start == 0 and e.size == d and e.stride == 1)
                for i, (e, d) in enumerate(zip(index, shape_of(x), strict=True)))  # fmt: skip
    return takes[0] if whole else None


def _read_taken(x: Array, index: Index, dynamic: Sequence[Any], shape: tuple[int, ...]) -> Any:
    axis = _rows(index, x)
    if axis is not None:
        sizes = [1 if i == axis else d for i, d in enumerate(shape_of(x))]
        offset = tuple(i for i in range(len(shape)) if i != axis)
        where = reshape_to(dynamic[0], (*shape_of(dynamic[0]), 1))
        return gather(x, where, GatherDimensionNumbers(offset, (axis,), (axis,)), sizes, mode=CLIP)
    flat = reshape_to(x, (-1 if not shape_of(x) else int(np.prod(shape_of(x))),))
    places = linear_places(x, index, dynamic, shape)[0]
    return gather(flat, reshape_to(places, (*shape, 1)), GatherDimensionNumbers((), (0,), (0,)), (1,), mode=CLIP)


def linear_places(x: ArrayLike, index: Index, dynamic: Sequence[Any], shape: tuple[int, ...]) -> tuple[Any, Any]:
    """The position in row-major order of every element of an access, and whether it is within bounds."""
    total: Any = np.int32(0)
    inside: Any = None
    for entry, axes, start, size in zip(index, index.axes(), _starts(index, dynamic), shape_of(x), strict=True):
        value = np.int32(start) if isinstance(start, int) else convert_element_type(start, INT32)
        if type(entry) is Take:
            value = _spread(value, shape, axes)
        elif type(entry) is Span:
            steps = iota_p.bind(dtype=INT32, shape=shape, dimension=axes[0])
            value = add_p.bind(mul_p.bind(steps, np.int32(entry.stride)), value)
        within = and_p.bind(ge_p.bind(value, np.int32(0)), lt_p.bind(value, np.int32(size)))
        inside = within if inside is None else and_p.bind(inside, within)
        total = add_p.bind(mul_p.bind(total, np.int32(size)), value)
    return _spread(total, shape), _spread(inside, shape)


def write_value(
    x: ArrayLike, value: ArrayLike, operands: Sequence[Any], *, add: bool, index: Index, masked: bool = False
) -> Any:
    """The value after `swap` (or, with `add`, after `addupdate`)."""
    dynamic, mask, _ = split_operands(index, operands, masked)
    shape = access_shape(index)
    if index.is_whole(shape_of(x)) or (not masked and _covers(index, shape_of(x))):
        value = reshape_to(value, shape_of(x))
        new = add_p.bind(x, value) if add else value
        return new if mask is None else _select(mask, new, x)
    if not _contiguous(index):
        return _write_taken(x, value, index, dynamic, mask, shape, add)
    starts = _starts(index, dynamic)
    base, room = _margin(index, x) if masked else (x, [0] * len(index))
    starts = [_shifted(s, r) for s, r in zip(starts, room, strict=True)]
    sizes = _sizes(index)
    if add or mask is not None:
        old = reshape_to(dynamic_slice(base, starts, sizes, allow_negative_indices=False), shape)
        value = add_p.bind(old, value) if add else value
        value = value if mask is None else _select(mask, value, old)
    new = dynamic_update_slice(base, reshape_to(value, tuple(sizes)), starts, allow_negative_indices=False)
    if any(room):
        new = slice_(new, room, [r + d for r, d in zip(room, shape_of(x), strict=True)])
    return new


def _write_taken(
    x: Array, value: Operand, index: Index, dynamic: Sequence[Any], mask: Array | None, shape: tuple[int, ...],
    add: bool,
) -> Any:  # fmt: skip
    size = int(np.prod(shape_of(x)))
    places, inside = linear_places(x, index, dynamic, shape)
    if mask is not None:
        inside = and_p.bind(inside, _spread(mask, shape))
    places = _select(inside, places, np.int32(size))  # past the end: dropped
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    put = scatter_add if add else scatter
    flat = put(reshape_to(x, (size,)), reshape_to(places, (*shape, 1)), value, numbers, mode=FILL)
    return reshape_to(flat, shape_of(x))
