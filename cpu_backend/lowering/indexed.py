"""Rules of gathers and scatters of values: accesses of a memory by arrays of positions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.types import INT32
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.elementwise import conversion as conv
from ...core.primitives.elementwise.arithmetic import add_p
from ...core.primitives.movement.gather_dimension_numbers import FILL, PROMISE, default_fill, window_sizes
from ...core.primitives.refs.state_primitives import Index, Point, Span, Take, access_shape, whole
from . import elementwise
from .body import Body, Rule
from .expression_graph import Iota, Load, Map, Memory, Node, Number, View

INT64 = np.dtype(np.int64)
BOOL = np.dtype(np.bool_)


def _map(primitive: Any, shape: Sequence[int], dtype: np.dtype, *operands: Node) -> Map:
    return Map(tuple(shape), dtype, operands, rule=elementwise.RULES[primitive])


def _both(x: Node | None, y: Node) -> Node:
    return y if x is None else _map(bitwise.and_p, y.shape, BOOL, x, y)


@dataclass(frozen=True)
class Windows:
    """Windows of an operand at computed places, as one access.

    `axes` has for each axis of the access the axis of the windows' array that it is (None: of one element there);
    `inside` says by `batch` axis which windows are inside of the operand (None: all).
    """

    index: Index
    positions: tuple[Node, ...]
    axes: tuple[int | None, ...]
    batch: tuple[int, ...]
    inside: Node | None


def windows(shape: Sequence[int], indices: Node, rank: int, d: Any, sizes: Sequence[int], clamp: bool) -> Windows:
    """The windows of `sizes` of an operand of a shape, in an array of `rank` axes."""
    gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
    offsets = dict(zip([a for a in range(len(shape)) if a not in gone], d.offset_dims, strict=True))
    batch_axes = tuple(a for a in range(rank) if a not in d.offset_dims)
    batch = indices.shape[:-1]
    wide = [a for a in d.start_index_map if sizes[a] != 1]
    picked, inside = (*batch, *(sizes[a] for a in wide)), None
    dtype = INT32 if indices.dtype.itemsize < 4 or indices.dtype == INT32 else INT64
    entries: list[Point | Span | Take] = []
    positions: list[Node] = []
    for a, (n, size) in enumerate(zip(shape, sizes, strict=True)):
        if a in d.start_index_map:
            column = d.start_index_map.index(a)
            start: Node = View(batch, indices.dtype, (indices,),
                               places=(*((k, 0, 1) for k in range(len(batch))), (None, column, 0)))  # fmt: skip
            start = start if start.dtype == dtype else _map(conv.convert_element_type_p, batch, dtype, start)
            low, high = (Number((), dtype, value=v) for v in (0, max(n - size, 0)))
            inside = _both(inside, _map(cmp.ge_p, batch, BOOL, start, low))
            inside = _both(inside, _map(cmp.le_p, batch, BOOL, start, high))
            if clamp:
                start = _map(cmp.clamp_p, batch, dtype, low, start, high)
            spread: Node = View(picked, dtype, (start,), places=tuple((k, 0, 1) for k in range(len(batch))))
            if a in wide:
                along = Iota(picked, dtype, axis=len(batch) + wide.index(a))
                spread = _map(add_p, picked, dtype, spread, along)
            entries.append(Take(picked))
            positions.append(spread)
        elif a in d.operand_batching_dims:
            along = d.start_indices_batching_dims[d.operand_batching_dims.index(a)]
            entries.append(Take(picked))
            positions.append(Iota(picked, INT32, axis=along))
        else:
            entries.append(Span(0, size))
    index = Index(entries)
    first = index.picked()[1]
    axes: list[int | None] = [None] * len(access_shape(index))
    if index.takes:
        for k, axis in enumerate((*batch_axes, *(offsets.get(a) for a in wide))):
            axes[first + k] = axis
    for a, (entry, made) in enumerate(zip(index, index.axes(), strict=True)):
        if type(entry) is Span:
            axes[made[0]] = offsets.get(a)
    return Windows(index, tuple(positions), tuple(axes), batch_axes, inside)


def _memory(e: Body, x: Node) -> Memory:
    """Memory that has a value's elements."""
    if isinstance(x, Load) and x.index.is_whole(x.source.shape) and not x.masked and x.source.fixed:
        if not x.source.ragged:
            return x.source
    found = e.kept(x)
    assert isinstance(found, Load)
    return found.source


def gather(
    e: Body, operands: Sequence[Node], outs: Sequence[Any], dimension_numbers: Any, slice_sizes: Any, mode: Any,
    fill_value: Any, **_: Any,
) -> list[Node]:  # fmt: skip
    x, indices = operands
    out = outs[0]
    if not out.size or isinstance(x, Number) and mode is not FILL:
        return [Number(out.shape, x.dtype, value=x.value if isinstance(x, Number) else 0)]
    w = windows(x.shape, indices, len(out.shape), dimension_numbers, slice_sizes, True)
    load = e.load(_memory(e, x), w.index, w.positions)
    found: Node = View(out.shape, x.dtype, (load,), places=_placed(w, load.shape))
    if mode is FILL and w.inside is not None:
        fill = default_fill(x.dtype) if fill_value is None else fill_value
        inside = View(out.shape, BOOL, (w.inside,), places=tuple((a, 0, 1) for a in w.batch))
        found = _map(cmp.select_n_p, out.shape, x.dtype, inside, Number((), x.dtype, value=fill), found)
    return [found]


def _placed(w: Windows, shape: Sequence[int]) -> tuple[tuple[int | None, int, int], ...]:
    """Where in the windows' array each axis of an access is."""
    return tuple((None, 0, 0) if a is None else (a, 0, 1) for a, _ in zip(w.axes, shape, strict=True))


def _scatter(add: bool) -> Rule:
    def made(
        e: Body, operands: Sequence[Node], outs: Sequence[Any], dimension_numbers: Any, mode: Any, **_: Any
    ) -> list[Node]:  # fmt: skip
        x, indices, updates = operands
        memory = e.allocate(x.dtype, x.shape)
        e.store(memory, whole(x.shape), x, (), None, False)
        if updates.size:
            sizes = window_sizes(x.shape, updates.shape, dimension_numbers)
            drop = mode in (FILL, PROMISE)
            w = windows(x.shape, indices, len(updates.shape), dimension_numbers.as_gather(), sizes, True)
            shape = access_shape(w.index)
            back = {a: k for k, a in enumerate(w.axes) if a is not None}
            value: Node = View(shape, x.dtype, (updates,),
                               places=tuple((back[a], 0, 1) if a in back else (None, 0, 0)
                                            for a in range(len(updates.shape))))  # fmt: skip
            mask = None
            if drop and w.inside is not None:
                mask = View(shape, BOOL, (w.inside,), places=tuple((back[a], 0, 1) for a in w.batch))
            e.store(memory, w.index, value, w.positions, mask, add)
        e.flush()
        memory.fixed = True
        return [e.load(memory)]

    return made


scatter: Rule = _scatter(False)
scatter_add: Rule = _scatter(True)
