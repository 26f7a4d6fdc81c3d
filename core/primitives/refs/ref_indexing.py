"""What stands between the brackets of a Ref, one entry for each axis, and the same through views of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.array import ArrayLike, Index
from ...ir.types import is_integer
from ...support.call_errors import public
from ...support.errors import ArgumentTypeError, OutOfBoundsError, ShapeError, plural
from ...tracing.index_entries import Slice
from ...tracing.trace import Tracer, shape_of, typeof
from .state_primitives import Shape


@public
def dslice(start: ArrayLike | None, size: int | None = None, stride: int | None = None) -> Slice | slice:
    """A slice of static size, of a Ref or an array, whose start may be traced; `dslice(n)` is the first `n`.

    >>> from tilewright import lang as tl, numpy as tnp
    >>> tnp.arange(10)[tl.ds(2, 3)].tolist(), tnp.arange(10)[tl.ds(0, 3, 2)].tolist()
    ([2, 3, 4], [0, 2, 4])
    """
    if start is None and size is None:
        return slice(None, None, stride)
    if start is None:
        start = 0
    if size is None:
        start, size = 0, start
    if stride is None and isinstance(size, Tracer):  # for the index map of a BoundedSlice
        return Slice(start, size)
    if not isinstance(size, (int, np.integer)) or size < 0:
        raise ArgumentTypeError(
            f"ds: the size {size!r} is not a Python integer", "sizes are static; only starts are traced"
        )
    if stride is not None and (not isinstance(stride, (int, np.integer)) or stride < 1):
        raise ArgumentTypeError(f"ds: the stride {stride!r} is not a positive Python integer")
    return Slice(start, int(size), 1 if stride is None else int(stride))


@dataclass(frozen=True)
class Resolved:
    """One entry of an index before static and traced parts are told apart; `size` None: a point.

    A traced `size` is for copies only. `outside` is what an access without a mask raises: the entry reaches past the
    end of its axis.
    """

    start: Any
    size: int | None = None
    stride: int = 1
    outside: OutOfBoundsError | None = None


def is_static(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _resolve_one(entry: Index, size: int, axis: int, shape: Shape) -> Resolved:
    def outside(what: Any) -> OutOfBoundsError:
        return OutOfBoundsError(
            f"index {what} is out of bounds for axis {axis} of a Ref of shape {shape}",
            f"axis {axis} has {size} positions",
        )

    if is_static(entry):
        if not -size <= entry < size:
            raise outside(int(entry))
        return Resolved(int(entry) % size)
    if isinstance(entry, slice):
        parts = (entry.start, entry.stop, entry.step)
        if any(p is not None and not is_static(p) for p in parts):
            raise ArgumentTypeError(f"a slice of a Ref has a traced bound along axis {axis}", "use `ds(start, size)`")
        if any(p is not None and not -size <= p <= size for p in parts[:2]):
            raise outside(":".join("" if p is None else str(p) for p in (parts if parts[2] is not None else parts[:2])))
        start, stop, step = entry.indices(size)
        if step < 1:
            raise ArgumentTypeError(
                f"a slice of a Ref has step {step} along axis {axis}", "steps are positive; use `flip`"
            )
        return Resolved(start, len(range(start, stop, step)), step)
    if isinstance(entry, Slice):
        if not is_static(entry.start) or not is_static(entry.size):
            return Resolved(entry.start, entry.size, entry.stride)
        start = int(entry.start)
        last = start + max(entry.size - 1, 0) * entry.stride
        within = start >= 0 and (not entry.size or last < size)
        return Resolved(start, entry.size, entry.stride, None if within else outside(f"{start} to {last}"))
    if isinstance(entry, (str, dict, set, type)) or callable(entry):
        raise ArgumentTypeError(f"a Ref is indexed with {entry!r} along axis {axis}",
                                "index with integers, slices, `ds(start, size)` or arrays of integers")  # fmt: skip
    type_ = typeof(entry)
    if not is_integer(type_.dtype):
        raise ArgumentTypeError(
            f"a Ref is indexed with {type_.show()} along axis {axis}",
            "index with integers; pass a mask to `load` or `store`",
        )
    return Resolved(entry)


def resolve(shape: Shape, key: Index) -> list[Resolved]:
    """One entry per axis for whatever stands between the brackets."""
    keys = list(key) if isinstance(key, tuple) else [key]
    dots = [i for i, k in enumerate(keys) if k is Ellipsis]
    if any(k is None for k in keys):
        raise ArgumentTypeError("a Ref is indexed with None", "read it first, then add the axis")
    if len(dots) > 1:
        raise ArgumentTypeError("a Ref is indexed with more than one `...`")
    missing = len(shape) - (len(keys) - len(dots))
    if missing < 0:
        raise ShapeError(f"{plural(len(keys) - len(dots), 'index')} for a Ref of shape {shape}",
                         f"it has {plural(len(shape), 'axis')}")  # fmt: skip
    at = dots[0] if dots else len(keys)
    keys[at : at + len(dots)] = [slice(None)] * missing
    return [_resolve_one(k, d, i, shape) for i, (k, d) in enumerate(zip(keys, shape, strict=True))]


def compose(outer: Sequence[Resolved], inner: Sequence[Resolved]) -> list[Resolved]:
    """The entries of an access to a view."""
    rest = iter(inner)
    out = []
    for entry in outer:
        if entry.size is None:
            if shape_of(entry.start) if not is_static(entry.start) else ():
                raise ArgumentTypeError("a view through an integer array is indexed again", "index it once")
            out.append(entry)
        else:
            given = next(rest)
            start = entry.start + given.start * entry.stride
            stride = entry.stride * given.stride if given.size is not None else 1
            out.append(Resolved(start, given.size, stride, entry.outside or given.outside))
    return out


def groups(one: Shape, other: Shape) -> Iterator[tuple[range, range]]:
    """The axes of two shapes of one size, in the smallest groups that hold as many elements in both."""
    i = j = 0
    while i < len(one) or j < len(other):
        first, second, a, b = i, j, 1, 1
        while i == first or j == second or a != b:
            if j == len(other) or (i < len(one) and a <= b):
                if i == len(one):
                    break
                a, i = a * one[i], i + 1
            else:
                b, j = b * other[j], j + 1
        yield range(first, i), range(second, j)


def unfolded(box: Shape, shape: Shape, entries: Sequence[Resolved]) -> list[Resolved] | None:
    """The spans of an array of shape `box` that `entries` name after it is reshaped to `shape`; None: no spans do."""
    out: list[Resolved] = []
    for axes, seen in groups(box, shape):
        old, new, given = [box[a] for a in axes], [shape[a] for a in seen], [entries[a] for a in seen]
        if old == new:
            found = [e if e.size is not None else Resolved(e.start, 1) for e in given]
        else:
            found = _spans(old, new, given)
        if found is None or any(not is_static(e.start) and shape_of(e.start) for e in found):
            return None
        out += found
    return out


def _spans(old: Sequence[int], new: Sequence[int], entries: Sequence[Resolved]) -> list[Resolved] | None:
    """One group of axes: the positions that the entries name, in row-major order, as a span of each old axis."""
    if not old:  # axes of one position
        return [] if all(e.size != 0 for e in entries) else None
    weights = [int(np.prod(new[d + 1 :])) for d in range(len(new))]
    traced = [(e.start, w) for e, w in zip(entries, weights, strict=True) if not is_static(e.start)]
    if traced and (len(old) != 1 or any(shape_of(start) for start, _ in traced)):
        return None
    places = np.zeros((1,), np.int64)
    for entry, weight in zip(entries, weights, strict=True):
        start = entry.start if is_static(entry.start) else 0
        steps = start + entry.stride * np.arange(1 if entry.size is None else entry.size)
        places = (places[:, None] + steps * weight).reshape(-1)
    if not places.size:
        return [Resolved(0, 0)] + [Resolved(0, n) for n in old[1:]]
    if traced:
        step = int(places[1] - places[0]) if places.size > 1 else 1
        if (np.diff(places) != step).any():
            return None
        return [Resolved(sum((start * w for start, w in traced), int(places[0])), places.size, step)]
    lines = [np.unique(line) for line in np.unravel_index(places, old)]
    strides = [int(line[1] - line[0]) if line.size > 1 else 1 for line in lines]
    box = np.ravel_multi_index(np.meshgrid(*lines, indexing="ij"), old).reshape(-1)
    if any((np.diff(line) != step).any() for line, step in zip(lines, strides, strict=True)) or not np.array_equal(
        box, places
    ):
        return None
    return [Resolved(int(line[0]), line.size, step) for line, step in zip(lines, strides, strict=True)]
