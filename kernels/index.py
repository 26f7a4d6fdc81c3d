"""Gather, scatter and dynamic slices as kernels.

Positions are prefetched scalars that index maps read, so that a cell's window is brought in like any other block:
one cell for each position of a gather or scatter, tiles within the windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array
from ..core.ir.primitive import Primitive
from ..core.ir.program import Program
from ..core.ir.types import INT32, ArrayType, MemorySpace
from ..core.primitives.elementwise.arithmetic import max_p, min_p, mul_p, neg_p
from ..core.primitives.elementwise.bitwise import and_p
from ..core.primitives.elementwise.comparison import ge_p, le_p, select_n_p
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement import dynamic_slice as sl
from ..core.primitives.movement import gather_dimension_numbers as positions
from ..core.primitives.movement import gather_scatter
from ..core.tracing.trace import typeof
from ..lang.kernel.block_spec import BlockSpec, Element
from ..lang.ops.basic import addupdate, ds, store, when
from .bodies import copied, cropped, loop_ends, on_elements, within
from .generate.accumulators import full
from .generate.loops import Cut, Loops, both
from .template import Params, Parts, Template, Types, own

if TYPE_CHECKING:
    from ..core.primitives.movement.gather_dimension_numbers import GatherDimensionNumbers
    from ..core.primitives.refs.ref_views import AnyRef


def _clamped(value: Array, most: int) -> Any:
    """A position of any integer dtype as an int32 from 0 to `most`."""
    value, number = _wide(value)
    return convert_element_type(max_p.bind(min_p.bind(value, number(most)), number(0)), INT32)


def _wide(value: Array) -> tuple[Any, Any]:
    """A position in a dtype that has the sizes of arrays, and what makes numbers of that dtype."""
    value = convert_element_type(value, INT32) if typeof(value).dtype.itemsize < 4 else value
    return value, typeof(value).dtype.type


# ---------------------------------------------------------------------------- dynamic slices


def _dynamic_slice(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (x, *_), (out,) = types, outs
    sizes, rank = params["slice_sizes"], x.ndim

    def index_map(*args: Any) -> tuple[Any, ...]:
        ids, starts = args[: len(cut.grid)], args[len(cut.grid) :]
        return tuple(
            _clamped(starts[d][...], x.shape[d] - sizes[d]) + cut.at(d, ids) * np.int32(cut.tiles[d])
            for d in range(rank)
        )

    room = [cut.counts[d] * cut.tiles[d] - sizes[d] for d in range(rank)]
    source = BlockSpec([Element(t, (0, extra)) for t, extra in zip(cut.tiles, room, strict=True)], index_map)

    result = cut.spec(range(rank), out.shape)
    return Parts(lambda *refs: copied(*refs[rank:]), [source], [result], args=(*range(1, rank + 1), 0), prefetch=rank)


def _dynamic_update(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    """Each block of the result from that of the operand, and from the overlapping window of the update."""
    x, update, *_ = types
    rank = x.ndim

    def start(starts: Sequence[Any], d: int) -> Any:
        return _clamped(starts[d][...], x.shape[d] - update.shape[d])

    def index_map(*args: Any) -> tuple[Any, ...]:
        ids, starts = args[: len(cut.grid)], args[len(cut.grid) :]
        found = []
        for d, (tile, n) in enumerate(zip(cut.tiles, update.shape, strict=True)):
            at = cut.at(d, ids) * np.int32(tile) - start(starts, d)
            found.append(max_p.bind(min_p.bind(at, np.int32(n - 1)), np.int32(1 - tile)) + np.int32(tile - 1))
        return tuple(found)

    source = BlockSpec([Element(t, (t - 1, t - 1)) for t in cut.tiles], index_map)
    plain = cut.spec(range(rank), x.shape)

    def body(*refs: Any) -> None:
        starts, (x, update_ref, o) = refs[:rank], refs[rank:]
        bounds = [(d, cut.id(d) * np.int32(cut.tiles[d]) - start(starts, d), 0, update.shape[d]) for d in range(rank)]
        o[...] = select_n_p.bind(within(cut.tiles, bounds), x[...], update_ref[...])

    if 0 in update.shape:  # nothing is written
        return Parts(copied, [plain], [plain], args=(0,))
    return Parts(body, [plain, source], [plain], args=(*range(2, rank + 2), 0, 1), prefetch=rank)


# ---------------------------------------------------------------------------- gather


def _batch_axes(rank: int, window_axes: Sequence[int]) -> list[int]:
    return [i for i in range(rank) if i not in window_axes]


def _gather_loops(types: Types, params: Params) -> Loops:
    shape = gather_scatter.gather_p.typing(*types, **params).shape
    return Loops(shape, single=tuple(_batch_axes(len(shape), params["dimension_numbers"].offset_dims)))


class _Places:
    """The start of a cell's window, from prefetched indices; `loop_of`: the loops along the operand's axes."""

    def __init__(self, d: GatherDimensionNumbers, shape: Sequence[int], sizes: Sequence[int]):
        self.d, self.shape, self.sizes = d, shape, sizes
        gone = (*d.collapsed_slice_dims, *d.operand_batching_dims)
        self.loop_of = dict(zip([a for a in range(len(shape)) if a not in gone], d.offset_dims, strict=True))

    def raw(self, indices: AnyRef, ids: Sequence[Any], axis: int) -> Any:
        return indices[(*ids, self.d.start_index_map.index(axis))]

    def start(self, indices: AnyRef, ids: Sequence[Any], axis: int) -> Any:
        """The start along an axis of the operand; `ids` are those of the batch axes."""
        if axis in self.d.start_index_map:
            return _clamped(self.raw(indices, ids, axis), self.shape[axis] - self.sizes[axis])
        if axis in self.d.operand_batching_dims:
            return ids[self.d.start_indices_batching_dims[self.d.operand_batching_dims.index(axis)]]
        return np.int32(0)

    def inside(self, indices: AnyRef, ids: Sequence[Any]) -> Any:
        found: Any = None
        for axis in self.d.start_index_map:
            raw, number = _wide(self.raw(indices, ids, axis))
            most = number(self.shape[axis] - self.sizes[axis])
            here = and_p.bind(ge_p.bind(raw, number(0)), le_p.bind(raw, most))
            found = here if found is None else and_p.bind(found, here)
        return found


def _steps(cut: Cut, array: ArrayType, batch: Sequence[int]) -> BlockSpec:
    """Blocks of an array without the axes that are gone along step by step."""
    spec = cut.spec(range(array.ndim), array.shape)
    return spec.replace(block_shape=[None if i in batch else n for i, n in enumerate(spec.block_shape or ())] or None)


def _gather(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (x, _), (out,), d = types, outs, params["dimension_numbers"]
    sizes = params["slice_sizes"]
    batch, places = _batch_axes(out.ndim, d.offset_dims), _Places(d, x.shape, sizes)

    def index_map(*args: Any) -> tuple[Any, ...]:
        ids, indices = args[:-1], args[-1]
        at = [cut.at(i, ids) for i in batch]
        found = []
        for axis in range(x.ndim):
            start = places.start(indices, at, axis)
            loop = places.loop_of.get(axis)
            found.append(start if loop is None else start + cut.at(loop, ids) * np.int32(cut.tiles[loop]))
        return tuple(found)

    entries: list[Any] = []
    for axis in range(x.ndim):
        loop = places.loop_of.get(axis)
        if loop is None:
            entries.append(None)
        else:
            entries.append(Element(cut.tiles[loop], (0, cut.counts[loop] * cut.tiles[loop] - sizes[axis])))

    def body(indices: AnyRef, x: AnyRef, o: AnyRef) -> None:
        block = x[...]
        if params["mode"] is positions.FILL and d.start_index_map:
            given = params["fill_value"]
            fill = np.asarray(positions.default_fill(out.dtype) if given is None else given).astype(out.dtype)[()]
            inside = places.inside(indices, [cut.id(i) for i in batch])
            block = select_n_p.bind(inside, full(fill, typeof(block).shape), block)
        o[...] = block

    return Parts(body, [BlockSpec(entries, index_map)], [_steps(cut, out, batch)], args=(1, 0), prefetch=1)


# ---------------------------------------------------------------------------- scatter


def _scatter_loops(types: Types, params: Params) -> Loops:
    """A cell, or the tiles of a window, per index, in order, because indices may repeat."""
    _, _, updates = types
    batch = tuple(_batch_axes(updates.ndim, params["dimension_numbers"].update_window_dims))
    return Loops(updates.shape, single=batch)


def _with(combine: Primitive) -> Any:
    def write(ref: AnyRef, index: Sequence[Any], value: Array) -> None:
        ref[index] = combine.bind(ref[index], value)

    return write


# How an update meets what is there.
COMBINES: dict[Primitive, Any] = {
    gather_scatter.scatter_p: store,
    gather_scatter.scatter_add_p: addupdate,
    gather_scatter.scatter_sub_p: lambda ref, index, value: addupdate(ref, index, neg_p.bind(value)),
    gather_scatter.scatter_mul_p: _with(mul_p),
    gather_scatter.scatter_min_p: _with(min_p),
    gather_scatter.scatter_max_p: _with(max_p),
}


def _applied(update: Program) -> Any:
    """Each element of a window replaced by a scalar Program of it."""

    def write(ref: AnyRef, index: Sequence[Any], value: Array) -> None:
        ref[index] = on_elements(update, [ref[index]])[0]

    return write


def scatter(primitive: Primitive) -> Template:
    def parts(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        x, _, updates = types
        write = _applied(params["update"]) if primitive is gather_scatter.scatter_apply_p else COMBINES[primitive]
        d = params["dimension_numbers"].as_gather()
        batch = _batch_axes(updates.ndim, d.offset_dims)
        sizes = positions.window_sizes(x.shape, updates.shape, params["dimension_numbers"])
        places = _Places(d, x.shape, sizes)

        def place(starts: Sequence[Any], axis: int, found: Sequence[int]) -> Any:
            loop = places.loop_of.get(axis)
            if loop is None:
                return starts[axis]
            start = starts[axis] + cut.id(loop) * np.int32(cut.tiles[loop]) if cut.split(loop) else starts[axis]
            return ds(start, found[loop])

        def body(indices: AnyRef, x: AnyRef, updates: AnyRef, o: AnyRef) -> None:
            at = [cut.id(i) for i in batch]
            starts = [places.start(indices, at, axis) for axis in range(len(sizes))]
            anywhere = params["mode"] is positions.CLIP or not d.start_index_map
            inside = True if anywhere else places.inside(indices, at)
            for here, found in loop_ends(cut, d.offset_dims):

                @when(both(here, inside))
                def _(found: Sequence[int] = found) -> None:
                    index = tuple(place(starts, axis, found) for axis in range(len(sizes)))
                    write(o, index, cropped(updates[...], [found[i] for i in d.offset_dims]))

        far = BlockSpec(memory_space=MemorySpace.ANY)
        steps = _steps(cut, updates, batch)
        return Parts(body, [far, steps], [far], args=(1, 0, 2), prefetch=1, aliases={1: 0})

    return own("index", primitive, parts, _scatter_loops)


TEMPLATES = {
    sl.dynamic_slice_p: own("index", sl.dynamic_slice_p, _dynamic_slice),
    sl.dynamic_update_slice_p: own("index", sl.dynamic_update_slice_p, _dynamic_update),
    gather_scatter.gather_p: own("index", gather_scatter.gather_p, _gather, _gather_loops),
    **{p: scatter(p) for p in (*COMBINES, gather_scatter.scatter_apply_p)},
}
