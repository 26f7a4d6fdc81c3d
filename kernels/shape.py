"""Data movement that no relation describes: reshape, reverse, slice, pad, concatenate, split.

Blocks of the result determine the elements read: the corresponding block of the operand, or a window of elements
where the two do not line up.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array
from ..core.ir.axis_relation import Whole
from ..core.ir.primitive import Primitive
from ..core.ir.types import ArrayType
from ..core.primitives.elementwise.arithmetic import min_p
from ..core.primitives.elementwise.comparison import select_n_p
from ..core.primitives.movement import shape as s
from ..lang.kernel.block_spec import BlockSpec
from ..lang.ops.basic import cdiv
from .bodies import copied, within
from .generate.loops import Cut, Loops, Window, windows
from .template import Params, Parts, Template, Types, filled, own
from .window_spans import Reach, Span, inside, spread_out

if TYPE_CHECKING:
    from ..core.primitives.refs.ref_views import AnyRef

# ---------------------------------------------------------------------------- reshapes


def _view(primitive: Primitive, types: Types, params: Params) -> tuple[int, ...]:
    """The shape in which operand and result of a reshape are the same: an axis for each factor of its relation.

    Where no factors fit both, all of these axes are one.
    """
    assert primitive.relation is not None
    relation = primitive.relation(types, [primitive.typing(*types, **params)], **params)
    assert relation is not None
    sizes, joined = [], False
    for factor in (f for axis in relation.operands[0] for f in axis):
        whole = type(relation.kinds[factor]) is Whole
        if whole and joined:
            sizes[-1] *= relation.sizes[factor]
        else:
            sizes.append(relation.sizes[factor])
        joined = whole
    return tuple(sizes)


def _reshape(primitive: Primitive) -> Template:
    """A copy in that shape."""

    def loops(types: Types, params: Params) -> Loops:
        return Loops(_view(primitive, types, params))

    def parts(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        shape = cut.loops.sizes
        spec = cut.spec(range(len(shape)), shape)
        return Parts(copied, [spec], [spec], views={0: shape}, outs=[ArrayType(shape, outs[0].dtype)])

    return own("shape", primitive, parts, loops)


# ---------------------------------------------------------------------------- windows


def _rev(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (x,) = types
    axes: list[Any] = list(range(x.ndim))
    for d in params["dimensions"]:
        axes[d] = Window(d, x.shape[d] - cut.tiles[d], -cut.tiles[d], cut.tiles[d], x.shape[d])

    def body(x: AnyRef, o: AnyRef) -> None:
        o[...] = s.rev_p.bind(x[...], **params)

    return Parts(body, [windows(cut, axes, x.shape)], [cut.spec(range(x.ndim), x.shape)])


def _slice(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (x,), (out,) = types, outs
    strides = params["strides"] or (1,) * x.ndim
    sizes = [(t - 1) * k + 1 for t, k in zip(cut.tiles, strides, strict=True)]
    axes = [
        Window(d, start, cut.tiles[d] * strides[d], sizes[d], x.shape[d])
        for d, start in enumerate(params["start_indices"])
    ]

    def body(x: AnyRef, o: AnyRef) -> None:
        block = x[...]
        if params["strides"]:
            block = s.slice_p.bind(block, start_indices=(0,) * len(sizes), limit_indices=tuple(sizes), strides=strides)
        o[...] = block

    return Parts(body, [windows(cut, axes, x.shape)], [cut.spec(range(out.ndim), out.shape)])


def _pad_loops(types: Types, params: Params) -> Loops:
    """Units of a result element and the elements put between it and the next."""
    shape = s.pad_p.typing(*types, **params).shape
    return Loops(tuple(cdiv(n, inner + 1) for n, (_, _, inner) in zip(shape, params["padding_config"], strict=True)))


def _pad(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    """Result element p is operand element (p - low) / (inner + 1) where that is whole, and the filler elsewhere."""
    (x, _), (out,), config = types, outs, params["padding_config"]
    number, result = cut.spec((), ()), cut.spec(range(out.ndim), out.shape, [inner + 1 for _, _, inner in config])
    if 0 in x.shape:
        return filled([result], lambda value: [value], [number], args=(1,))
    columns = enumerate(zip(x.shape, config, strict=True))
    reaches = [Reach(d, d, None, Span(n, 1, 1, low, inner + 1, 1)) for d, (n, (low, _, inner)) in columns]

    def body(x: AnyRef, value: AnyRef, o: AnyRef) -> None:
        filler = value[...]
        o[...] = spread_out(cut, inside(cut, x[...], reaches, filler), reaches, (1,) * len(reaches), filler)

    return Parts(body, [windows(cut, [r.window(cut) for r in reaches], x.shape), number], [result])


def _concatenate(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (out,), axis = outs, params["dimension"]
    tile = cut.tiles[axis]
    offsets = np.cumsum([0, *(t.shape[axis] for t in types)])
    used = [i for i, t in enumerate(types) if 0 not in t.shape]
    specs = []
    for i in used:
        n = types[i].shape[axis]
        axes: list[Any] = list(range(out.ndim))
        axes[axis] = Window(axis, -int(offsets[i]), tile, tile, n)
        specs.append(windows(cut, axes, types[i].shape))

    def body(*refs: Any) -> None:
        *operands, o = refs
        start = cut.id(axis) * np.int32(tile)
        found = operands[0][...]
        for i, ref in zip(used[1:], operands[1:], strict=True):
            mask = within(cut.tiles, [(axis, start, int(offsets[i]), int(offsets[i + 1]))])
            found = select_n_p.bind(mask, found, ref[...])
        o[...] = found

    return Parts(body, specs, [cut.spec(range(out.ndim), out.shape)], args=used)


def _split_loops(types: Types, params: Params) -> Loops:
    """As many cells along the axis as the longest piece takes."""
    (x,), axis = types, params["axis"]
    longest = max(params["sizes"], default=0)
    return Loops((*x.shape[:axis], longest, *x.shape[axis + 1 :]), carry=(axis,))


def _split(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    """The operand once for each piece. Cells past a short piece's end write its last block again."""
    (x,), axis = types, params["axis"]
    tile = cut.tiles[axis]
    offsets = np.cumsum([0, *params["sizes"]])
    full_ones = [i for i, out in enumerate(outs) if 0 not in out.shape]
    sources, results = [], []
    for offset, out in zip(offsets, outs, strict=False):
        if 0 in out.shape:
            results.append(BlockSpec())
            continue
        last = max(cdiv(out.shape[axis], tile) - 1, 0)

        def place(i: Array, last: int = last) -> Any:
            return i if last + 1 >= cut.counts[axis] else min_p.bind(i, np.int32(last))

        own = Window(axis, int(offset), tile, tile, x.shape[axis])
        axes = [own if d == axis else d for d in range(x.ndim)]
        sources.append(_clamped(windows(cut, axes, x.shape), cut, axis, place))
        results.append(_clamped(cut.spec(range(x.ndim), out.shape), cut, axis, place))

    def body(*refs: Any) -> None:
        for number, i in enumerate(full_ones):
            refs[len(full_ones) + i][...] = refs[number][...]

    return Parts(body, sources, results, args=[0] * len(full_ones))


def _clamped(spec: Any, cut: Cut, loop: int, place: Callable[[Any], Any]) -> Any:
    """A spec whose index map gets another id of a loop."""
    where = cut.order.index(loop)
    index_map = spec.index_map
    return spec.replace(index_map=lambda *ids: index_map(*(place(i) if k == where else i for k, i in enumerate(ids))))


TEMPLATES = {
    **{p: _reshape(p) for p in (s.reshape_p, s.squeeze_p)},
    s.rev_p: own("shape", s.rev_p, _rev),
    s.slice_p: own("shape", s.slice_p, _slice),
    s.pad_p: own("shape", s.pad_p, _pad, _pad_loops),
    s.concatenate_p: own("shape", s.concatenate_p, _concatenate),
    s.split_p: own("shape", s.split_p, _split, _split_loops),
}
