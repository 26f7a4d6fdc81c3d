"""The entries of an index: an integer, a `Span` (a slice made absolute), or an array of integers for each axis.

`parse_index` brings any index of NumPy's to them, with None for each new axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..ir.array import Index, Operand
from ..ir.types import Shape, as_size, is_bool, is_integer
from ..support.errors import ArgumentTypeError, BooleanIndexError, DtypeError, IndexingError, SliceStepError
from .trace import Tracer, Value, dtype_of, shape_of, typeof


@dataclass(frozen=True)
class Slice:
    """`size` indices from `start` (which may be traced), with a stride; made by `ds`."""

    start: Any
    size: int
    stride: int = 1


class Span(NamedTuple):
    """A slice of an axis: `size` elements from `start`, which may be traced, with a step (negative: backwards)."""

    start: Any
    step: int
    size: int

    @property
    def low(self) -> int:
        """The least index touched."""
        return self.start if self.step > 0 else self.start + (self.size - 1) * self.step

    @property
    def reach(self) -> int:
        """The number of elements from the least index touched to the greatest."""
        return (self.size - 1) * abs(self.step) + 1 if type(self.size) is not int or self.size else 0

    def is_whole(self, size: int) -> bool:
        return self.step == 1 and self.size == size


class Flag(NamedTuple):
    """A scalar boolean as an index: a new axis of size 1 or 0, placed as an array of integers would be."""

    value: bool


Entry = Any  # int | Span | Flag | array | None


class Entries(list[Entry]):
    """The entries of an index; `apart` where an ellipsis of no axis separates its integers and arrays."""

    apart = False


def _shown(index: Index) -> str:
    text = repr(index)
    return text if len(text) <= 60 else text[:57] + "..."


def _item(item: Any) -> Any:
    """One item of an index as None, Ellipsis, slice, int, Flag, or an array of integers or booleans."""
    if item is None or item is Ellipsis or isinstance(item, (slice, Flag)):
        return item
    if isinstance(item, Slice):
        return _sliced(item)
    if isinstance(item, (bool, np.bool_)):
        return Flag(bool(item))
    if isinstance(item, (int, np.integer)):
        return int(item)
    if isinstance(item, (list, tuple)):
        item = np.asarray(item) if len(item) else np.zeros(0, np.int32)
    if not isinstance(item, (Value, np.ndarray)):
        if hasattr(item, "__index__"):
            return as_size(item)
        if isinstance(item, (str, bytes, float, complex)) or not hasattr(item, "__array__"):
            raise ArgumentTypeError(
                f"index {_shown(item)} of type {type(item).__name__} is not an integer, slice, array or None",
                "index with integers; cast floats with `int`")  # fmt: skip
        item = np.asarray(item)
    dtype, shape = dtype_of(item), shape_of(item)
    if is_bool(dtype):
        item = known_mask(item)
        return item if shape else Flag(bool(item))
    if not is_integer(dtype):
        raise DtypeError(f"index of type {typeof(item).show()}", "index with integers or booleans; cast with `astype`")
    return int(item) if not shape and not isinstance(item, Value) else item


def _sliced(item: Slice) -> slice | Span:
    """What `ds` made: a slice where its start is known, else a span that is not made to fit the axis."""
    start, size = _item(item.start), item.size
    if isinstance(size, Value):
        raise IndexingError(f"index {_shown(item)} has a computed size", "the size of a slice is static")
    if isinstance(start, int):
        return slice(start, start + size * item.stride, item.stride)
    if shape_of(start):
        raise IndexingError(f"index {_shown(item)} starts at an array of shape {shape_of(start)}", "give one integer")
    return Span(start, item.stride, size)


def known_mask(mask: Operand) -> Any:
    """The values of an array of booleans, which must be known where it indexes."""
    if isinstance(mask, Tracer):
        value = mask.concrete()
        if value is None:
            raise BooleanIndexError(
                f"index {mask.describe()}: the shape of the result would depend on its values",
                "use `numpy.where(mask, x, y)`, or `numpy.nonzero(mask, size=...)` for a static size")  # fmt: skip
        mask = value
    return np.asarray(mask)


def _span(item: slice, axis: int, size: int) -> Span:
    try:
        parts = [None if p is None else as_size(p) for p in (item.start, item.stop, item.step)]
    except TypeError:
        remedy = "use `lax.dynamic_slice` for a computed start; the size must be static"
        if not any(isinstance(p, Value) for p in (item.start, item.stop, item.step)):
            remedy = "cast them with `int`, or divide by `//`"
        raise IndexingError(
            f"slice {_shown(item)} of axis {axis}: start, stop and step must be known integers", remedy) from None
    if parts[2] == 0:
        raise SliceStepError(f"slice {_shown(item)} of axis {axis} has step zero", "use a step of 1 or -1")
    if any([p is not None and type(p) is not int for p in (size, *parts)]):
        return _symbolic_span(parts, size)
    start, stop, step = slice(*parts).indices(size)
    return Span(start, step, len(range(start, stop, step)))


def _symbolic_span(parts: list[Any], size: Any) -> Span:
    """A slice of an axis, some of which is not known yet (`core/ir/symbolic`)."""
    start, stop, step = parts
    kind = type(next(n for n in (size, start, stop) if getattr(n, "symbolic", False)))
    step = 1 if step is None else step
    low, high = (0, size) if step > 0 else (-1, size - 1)

    def end(place: Any, otherwise: int) -> Any:
        if place is None:
            return otherwise
        return kind.largest(low, kind.smallest(place + size if place < 0 else place, high))

    first, last = (low, high) if step > 0 else (high, low)
    first, last = end(start, first), end(stop, last)
    length = last - first if step > 0 else first - last
    return Span(first, step, kind.largest(0, -(-length // abs(step))))


def parse_index(shape: Shape, index: Index) -> Entries:
    """An index as entries: one int, `Span` or array of integers per axis, None for each new axis.

    Masks become the arrays of their true positions; a scalar boolean becomes a `Flag`, which takes no axis.
    """
    items = [_item(i) for i in (index if isinstance(index, tuple) else (index,))]
    widths = [len(i.shape) if isinstance(i, np.ndarray) and is_bool(i.dtype) else
              int(i is not None and i is not Ellipsis and not isinstance(i, Flag)) for i in items]  # fmt: skip
    missing = len(shape) - sum(widths)
    ellipses = [n for n, i in enumerate(items) if i is Ellipsis]
    if missing < 0:
        raise IndexingError(
            f"{sum(widths)} indices for an array of shape {tuple(shape)}", f"it takes {len(shape)} at most"
        )
    if len(ellipses) > 1:
        raise IndexingError(f"index {_shown(index)} has more than one ellipsis", "keep one `...`")
    at = ellipses[0] if ellipses else len(items)
    rest = [slice(None)] * missing
    items = [*items[:at], *rest, *items[at + len(ellipses) :]]
    entries = Entries()
    entries.apart = bool(ellipses) and not missing and any(map(_places, items[:at])) and any(map(_places, items[at:]))
    axis = 0
    for item in items:
        if isinstance(item, np.ndarray) and is_bool(item.dtype):
            _check_mask(item, axis, shape)
            entries.extend(np.nonzero(item))
            axis += item.ndim
        elif item is None or isinstance(item, Flag):
            entries.append(item)
        else:
            entries.append(_span(item, axis, shape[axis]) if isinstance(item, slice) else item)
            axis += 1
    return entries


def _check_mask(mask: Operand, axis: int, shape: Shape) -> None:
    covered = tuple(shape[axis : axis + mask.ndim])
    if len(covered) < mask.ndim or any(m not in (n, 0) for m, n in zip(mask.shape, covered, strict=True)):
        raise IndexingError(
            f"mask of shape {mask.shape} indexes axes of shape {covered} of an array of shape {tuple(shape)}",
            "a mask has the shape of the axes it indexes, or no elements")  # fmt: skip


def is_array(entry: Entry) -> bool:
    return isinstance(entry, (Value, np.ndarray))


def _places(item: Any) -> bool:
    """Whether NumPy broadcasts an item of an index with the others."""
    return item is not None and not isinstance(item, (slice, Span))


def is_basic(entries: Sequence[Entry]) -> bool:
    """Whether there are only integers, slices and new axes."""
    return not any(isinstance(e, Flag) or (is_array(e) and shape_of(e)) for e in entries)


def takes_axis(entry: Entry) -> bool:
    return entry is not None and not isinstance(entry, Flag)
