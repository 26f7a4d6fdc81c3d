"""Operations that move elements: broadcast, reshape, squeeze, transpose, reverse, slice, pad, concatenate, split, iota.

Blocks of the result say which elements are read: a block of the operand that lies as they do, or a window of elements
where the two do not line up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.primitive import Primitive
from ..core.primitives import shape as s
from ..core.primitives.compare import and_p, ge_p, lt_p, select_n_p
from ..core.primitives.convert import convert_element_type
from ..core.primitives.elementwise import add_p, min_p
from ..core.types import ArrayType
from ..lang.block import BlockSpec
from ..lang.ops import cdiv
from .reduce import full
from .template import Cut, Loops, Parts, Template, Window, windows

INT32 = np.dtype(np.int32)
Types = Sequence[ArrayType]
Params = dict[str, Any]


def _no_work(types: Types, outs: Types, params: Params) -> tuple[int, int]:
    return 0, 0


def _over_result(primitive: Primitive) -> Callable[[Types, Params], Loops]:
    return lambda types, params: Loops(primitive.typing(*types, **params).shape)


def mover(primitive: Primitive, cut: Callable[..., Parts], loops: Callable[..., Loops] | None = None,
          family: str = "shape") -> Template:  # fmt: skip
    """The template of an operation without arithmetic; loops over the result unless others are given."""
    return Template(family, primitive, loops or _over_result(primitive), cut, _no_work)


def whole_or(primitive: Primitive, cut: Callable[..., Parts]) -> Callable[..., Parts]:
    """The primitive itself where the tiles are the whole arrays, else the kernel cut."""

    def parts(types: Types, outs: Types, params: Params, tiled: Cut) -> Parts:
        if tiled.cells > 1 or any(0 in t.shape for t in (*types, *outs)):
            return cut(types, outs, params, tiled)
        count = len(types)

        def body(*refs: Any) -> None:
            found = primitive.bind(*(r[...] for r in refs[:count]), **params)
            for ref, value in zip(refs[count:], found if primitive.multiple else [found], strict=True):
                ref[...] = value

        return Parts(body, [tiled.spec([None] * t.ndim, t.shape) for t in types],
                     [tiled.spec([None] * t.ndim, t.shape) for t in outs])  # fmt: skip

    return parts


# ---------------------------------------------------------------------------- blocks that line up


def _transpose(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (x,), (out,) = types, outs
    follows = s.inverse(params["permutation"])

    def body(x: Any, o: Any) -> None:
        o[...] = s.transpose_p.bind(x[...], **params)

    return Parts(body, [cut.spec(follows, x.shape)], [cut.spec(range(out.ndim), out.shape)])


def _broadcast(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (x,), (out,) = types, outs
    dims = params["broadcast_dimensions"]
    follows = [None if n == 1 and out.shape[d] != 1 else d for n, d in zip(x.shape, dims, strict=True)]

    def body(x: Any, o: Any) -> None:
        o[...] = s.broadcast_in_dim_p.bind(x[...], shape=cut.tiles, broadcast_dimensions=dims)

    return Parts(body, [cut.spec(follows, x.shape)], [cut.spec(range(out.ndim), out.shape)])


def _iota(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (out,), axis = outs, params["dimension"]

    def body(o: Any) -> None:
        own = s.iota_p.bind(**params | {"shape": cut.tiles})
        if cut.split(axis):
            start = convert_element_type(cut.id(axis) * np.int32(cut.tiles[axis]), out.dtype)
            own = add_p.bind(own, start)
        o[...] = own

    return Parts(body, [], [cut.spec(range(out.ndim), out.shape)])


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Runs of axes of the two shapes that hold the same elements, as short as can be."""
    found, i, j = [], 0, 0
    while i < len(old) or j < len(new):
        left, right, a, b = [], [], 1, 1
        while not left or not right or a != b:
            if i < len(old) and (a <= b or j == len(new)):
                a, left, i = a * old[i], [*left, i], i + 1
            elif j < len(new):
                b, right, j = b * new[j], [*right, j], j + 1
            else:
                break
        found.append((left, right))
    return found


LONG = 4096  # elements: rows of more are cut themselves


class _Regrouped:
    """How the axes of operand and result of a reshape follow loops, one loop for each run of axes.

    A run is cut along its first axes of more than one element, in units of the least number of elements that both
    sides hold as whole rows. Where such a unit is the whole run, or long, both sides are views in which the run is one
    axis, cut anywhere.
    """

    def __init__(self, old: Sequence[int], new: Sequence[int]):
        self.sizes: list[int] = []
        self.views: tuple[list[int], list[int]] = ([], [])
        self.follows: tuple[list[int | None], list[int | None]] = ([], [])
        self.scales: tuple[list[int], list[int]] = ([], [])
        for sides in [] if 0 in old else _groups(old, new):
            self.add(*([shape[a] for a in axes] for shape, axes in zip((old, new), sides, strict=True)))

    def add(self, *sides: list[int]) -> None:
        """A run of axes with these sizes on the two sides."""
        leads = [next((a for a, n in enumerate(sizes) if n > 1), None) for sizes in sides]
        total, loop = math.prod(sides[0]), len(self.sizes)
        rows = [1 if lead is None else math.prod(sizes[lead + 1 :]) for sizes, lead in zip(sides, leads, strict=True)]
        unit = math.lcm(*rows)
        flat = total > 1 and (unit >= total or unit > LONG)
        for side, (sizes, lead, row) in enumerate(zip(sides, leads, rows, strict=True)):
            self.views[side].extend([total] if flat else sizes)
            self.follows[side].extend([loop] if flat else [loop if a == lead else None for a in range(len(sizes))])
            self.scales[side].extend([1] if flat else [unit // row if a == lead else 1 for a in range(len(sizes))])
        if total > 1:
            self.sizes.append(total if flat else cdiv(total, unit))


def _reshape_loops(primitive: Primitive) -> Callable[[Types, Params], Loops]:
    def loops(types: Types, params: Params) -> Loops:
        return Loops(tuple(_Regrouped(types[0].shape, primitive.typing(*types, **params).shape).sizes))

    return loops


def _reshape(primitive: Primitive) -> Callable[..., Parts]:
    def cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        (x,), (out,) = types, outs
        how = _Regrouped(x.shape, out.shape)
        specs = [cut.spec(f, v, c) for f, v, c in zip(how.follows, how.views, how.scales, strict=True)]
        here, there = (tuple(s.block_shape or ()) for s in specs)

        def body(x: Any, o: Any) -> None:
            block = x[...]
            if primitive is s.squeeze_p:
                block = primitive.bind(block, **params)
            elif here != there:
                block = primitive.bind(block, **params | {"new_sizes": there})
            o[...] = block

        view, result = (tuple(v) for v in how.views)
        return Parts(body, specs[:1], specs[1:], views={0: view}, outs=[ArrayType(result, out.dtype)])

    return cut


# ---------------------------------------------------------------------------- windows


def _rev(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (x,) = types
    axes: list[Any] = list(range(x.ndim))
    for d in params["dimensions"]:
        axes[d] = Window(d, x.shape[d] - cut.tiles[d], -cut.tiles[d], cut.tiles[d], x.shape[d])

    def body(x: Any, o: Any) -> None:
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

    def body(x: Any, o: Any) -> None:
        block = x[...]
        if params["strides"]:
            block = s.slice_p.bind(block, start_indices=(0,) * len(sizes), limit_indices=tuple(sizes), strides=strides)
        o[...] = block

    return Parts(body, [windows(cut, axes, x.shape)], [cut.spec(range(out.ndim), out.shape)])


def within(cut: Cut, shape: Sequence[int], bounds: Sequence[tuple[int, Any, int, int]]) -> Any:
    """A mask of a block: where, for each (axis, start, low, high), `start` + place is at least low and below high."""
    mask = None
    for axis, start, low, high in bounds:
        place = s.iota_p.bind(dtype=INT32, shape=tuple(shape), dimension=axis)
        place = add_p.bind(place, start)
        inside = and_p.bind(ge_p.bind(place, np.int32(low)), lt_p.bind(place, np.int32(high)))
        mask = inside if mask is None else and_p.bind(mask, inside)
    return mask


def _pad_loops(types: Types, params: Params) -> Loops:
    """Units of a result element and the elements put between it and the next."""
    shape = s.pad_p.typing(*types, **params).shape
    return Loops(tuple(cdiv(n, inner + 1) for n, (_, _, inner) in zip(shape, params["padding_config"], strict=True)))


def _pad(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (x, _), (out,) = types, outs
    config = params["padding_config"]
    steps = [inner + 1 for _, _, inner in config]
    result = cut.spec(range(out.ndim), out.shape, steps)
    sizes = tuple(t * k for t, k in zip(cut.tiles, steps, strict=True))
    if 0 in x.shape:

        def nothing(value: Any, o: Any) -> None:
            o[...] = full(value[...], sizes)

        return Parts(nothing, [cut.spec((), ())], [result], args=(1,))
    # Result element p is operand element (p - low) / step where that is whole: first * step + rest = -low.
    firsts = [(-low) // k for (low, _, _), k in zip(config, steps, strict=True)]
    rests = [(-low) % k for (low, _, _), k in zip(config, steps, strict=True)]
    reads = tuple(t + (rest > 0) for t, rest in zip(cut.tiles, rests, strict=True))
    axes = [Window(d, firsts[d], cut.tiles[d], reads[d], n) for d, n in enumerate(x.shape)]
    outside = [
        d for d, n in enumerate(x.shape) if firsts[d] < 0 or firsts[d] + cut.tiles[d] * cut.counts[d] + reads[d] > n
    ]

    def body(x: Any, value: Any, o: Any) -> None:
        block, filler = x[...], value[...]
        starts = [cut.id(d) * np.int32(cut.tiles[d]) + np.int32(firsts[d]) for d in outside]
        if outside:
            mask = within(cut, reads, [(d, start, 0, axes[d].n) for d, start in zip(outside, starts, strict=True)])
            block = select_n_p.bind(mask, full(filler, reads), block)
        if any(k > 1 for k in steps):
            block = s.pad_p.bind(block, filler, padding_config=tuple((0, k - 1, k - 1) for k in steps))
            stops = tuple(r + n for r, n in zip(rests, sizes, strict=True))
            block = s.slice_p.bind(block, start_indices=tuple(rests), limit_indices=stops, strides=None)
        o[...] = block

    return Parts(body, [windows(cut, axes, x.shape), cut.spec((), ())], [result])


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
            mask = within(cut, cut.tiles, [(axis, start, int(offsets[i]), int(offsets[i + 1]))])
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

        def place(i: Any, last: int = last) -> Any:
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


_WINDOWED = {s.rev_p: (_rev, None), s.slice_p: (_slice, None), s.pad_p: (_pad, _pad_loops),
             s.concatenate_p: (_concatenate, None), s.split_p: (_split, _split_loops)}  # fmt: skip

TEMPLATES = {
    s.transpose_p: mover(s.transpose_p, _transpose),
    s.broadcast_in_dim_p: mover(s.broadcast_in_dim_p, _broadcast),
    s.iota_p: mover(s.iota_p, _iota),
    **{p: mover(p, whole_or(p, _reshape(p)), _reshape_loops(p)) for p in (s.reshape_p, s.squeeze_p)},
    **{p: mover(p, whole_or(p, cut), loops) for p, (cut, loops) in _WINDOWED.items()},
}
