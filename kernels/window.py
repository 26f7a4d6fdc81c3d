"""Reductions of windows: a block of places reads the span of elements that its windows cover.

Along an axis with base dilation, tiles are in units of places whose strides are whole elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.primitive import Primitive
from ..core.primitives import window as w
from ..core.primitives.compare import ge_p, select_n_p
from ..core.primitives.reduce import highest, lowest
from ..core.primitives.shape import pad_p, slice_p
from ..lang.ops import cdiv
from .reduce import constant, full
from .shape import Params, Types, whole_or, within
from .template import Cut, Loops, Parts, Template, Window, windows

IDENTITIES = {w.reduce_window_sum_p: constant(0), w.reduce_window_max_p: lowest, w.reduce_window_min_p: highest}


@dataclass(frozen=True)
class Span:
    """What the windows of a tile of places read along one axis: place p, tap k is element
    (p * stride + k * hole - low) / dilation of the operand, where that is whole and within its `n`."""

    n: int
    taps: int
    stride: int
    low: int
    dilation: int
    hole: int

    @property
    def unit(self) -> int:
        """Places to a step: so many that they advance whole elements."""
        return self.dilation // math.gcd(self.stride, self.dilation)

    def spread(self, tile: int) -> int:
        """How many dilated elements a tile of units reads."""
        return (tile * self.unit - 1) * self.stride + (self.taps - 1) * self.hole + 1

    @property
    def rest(self) -> int:
        return -self.low % self.dilation

    def window(self, loop: int, tile: int) -> Window:
        step = tile * self.unit * self.stride // self.dilation
        size = cdiv(self.rest + self.spread(tile), self.dilation)
        return Window(loop, -self.low // self.dilation, step, size, self.n)


def spread_out(cut: Cut, block: Any, spans: Sequence[tuple[int, int, Span]], filler: Any) -> Any:
    """A block read by spans as (axis, loop, span): what lies outside filled, dilated, and begun where windows begin."""
    shape = list(block.shape)
    bounds = []
    for axis, loop, span in spans:
        place = span.window(loop, cut.tiles[loop])
        if place.base < 0 or place.base + place.step * (cut.counts[loop] - 1) + place.size > span.n:
            bounds.append((axis, cut.id(loop) * np.int32(place.step) + np.int32(place.base), 0, span.n))
    if bounds:
        block = select_n_p.bind(within(cut, shape, bounds), full(filler, shape), block)
    if all(span.dilation == 1 for _, _, span in spans):
        return block
    config = [(0, 0, 0)] * len(shape)
    starts, stops = [0] * len(shape), shape
    for axis, loop, span in spans:
        config[axis] = (0, span.dilation - 1, span.dilation - 1)
        starts[axis] = span.rest
        stops[axis] = span.rest + span.spread(cut.tiles[loop])
    block = pad_p.bind(block, filler, padding_config=tuple(config))
    return slice_p.bind(block, start_indices=tuple(starts), limit_indices=tuple(stops), strides=None)


def _spans(shape: Sequence[int], params: Params) -> list[tuple[int, int, Span]]:
    ones = (1,) * len(shape)
    columns = zip(shape, params["window_dimensions"], params["window_strides"], params["padding"],
                  params.get("base_dilation") or ones, params.get("window_dilation") or ones, strict=True)  # fmt: skip
    return [(d, d, Span(n, k, s, low, b, h)) for d, (n, k, s, (low, _), b, h) in enumerate(columns)]


def _inner(params: Params) -> Params:
    """The parameters within a block that is padded and dilated already."""
    none = {"padding": ((0, 0),) * len(params["padding"])}
    return params | none | ({"base_dilation": (1,) * len(params["padding"])} if "base_dilation" in params else {})


def _loops(primitive: Primitive) -> Any:
    def loops(types: Types, params: Params) -> Loops:
        found = primitive.typing(*types, **params)
        places = (found[0] if primitive.multiple else found).shape
        spans = _spans(_arrays(primitive, types)[0].shape, params)
        return Loops(tuple(cdiv(n, span.unit) for n, (_, _, span) in zip(places, spans, strict=True)))

    return loops


def _arrays(primitive: Primitive, types: Types) -> Types:
    return types[: len(types) // 2] if primitive is w.reduce_window_p else types


def _fillers(primitive: Primitive, types: Types, starts: Sequence[Any], params: Params) -> list[Any]:
    """What each operand is surrounded with."""
    if primitive is w.reduce_window_p:
        return list(starts)
    if primitive is w.select_and_gather_add_p:
        return [constant(0)(types[0].dtype), _worst(params)(types[1].dtype)]
    return [IDENTITIES[primitive](types[0].dtype)]


def _worst(params: Params) -> Any:
    return lowest if params["select_prim"] is ge_p else highest


def reducer(primitive: Primitive) -> Template:
    """The template of a reduction of each window, of one array or several."""

    def cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        arrays = _arrays(primitive, types)
        count, rank = len(arrays), arrays[0].ndim
        spans = _spans(arrays[0].shape, params)
        sources = [
            windows(cut, [span.window(loop, cut.tiles[loop]) for _, loop, span in spans], t.shape) for t in arrays
        ]
        starts_specs = [cut.spec((), ()) for _ in types[count:]]
        units = [span.unit for _, _, span in spans]

        def body(*refs: Any) -> None:
            starts = [r[...] for r in refs[count : len(types)]]
            fillers = _fillers(primitive, types, starts, params)
            blocks = [spread_out(cut, r[...], spans, f) for r, f in zip(refs[:count], fillers, strict=True)]
            found = primitive.bind(*blocks, *starts, **_inner(params))
            for o, value in zip(refs[len(types) :], found if primitive.multiple else [found], strict=True):
                o[...] = value

        if any(0 in t.shape for t in arrays):  # windows of nothing but padding

            def nothing(*refs: Any) -> None:
                starts = [r[...] for r in refs[: len(types) - count]]
                fillers = _fillers(primitive, types, starts, params)
                for o, f in zip(refs[len(types) - count :], fillers, strict=False):
                    o[...] = full(f, o.shape)

            results = [cut.spec(range(rank), t.shape, units) for t in outs]
            return Parts(nothing, starts_specs, results, args=range(count, len(types)))
        return Parts(body, [*sources, *starts_specs], [cut.spec(range(rank), t.shape, units) for t in outs])

    def work(types: Types, outs: Types, params: Params) -> tuple[int, int]:
        return math.prod(outs[0].shape) * math.prod(params["window_dimensions"]) * len(outs), 0

    return Template("window", primitive, _loops(primitive), whole_or(primitive, cut), work)


# ---------------------------------------------------------------------------- the transpose of an extremum


def _scatter_loops(types: Types, params: Params) -> Loops:
    """Over the operand, in units of a stride."""
    return Loops(tuple(cdiv(n, s) for n, s in zip(types[1].shape, params["window_strides"], strict=True)))


def _scatter(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    """Each tile of the result from all windows that reach it, wherever the rest of them lies."""
    source, operand = types
    rank = operand.ndim
    source_axes, operand_axes, crops = [], [], []
    columns = zip(cut.tiles, params["window_dimensions"], params["window_strides"], params["padding"], strict=True)
    for d, (tile, taps, stride, (low, _)) in enumerate(columns):
        first = -((taps - 1 - low) // stride)  # the first window that reaches element 0
        count = (tile * stride - 1 + low) // stride - first + 1
        start = first * stride - low
        source_axes.append(Window(d, first, tile, count, source.shape[d]))
        operand_axes.append(Window(d, start, tile * stride, (count - 1) * stride + taps, operand.shape[d]))
        crops.append((-start, tile * stride))

    def masked(block: Any, axes: Sequence[Window], filler: Any) -> Any:
        bounds = [(d, cut.id(d) * np.int32(a.step) + np.int32(a.base), 0, a.n) for d, a in enumerate(axes)]
        shape = [a.size for a in axes]
        return select_n_p.bind(within(cut, shape, bounds), full(filler, shape), block) if rank else block

    def body(source_ref: Any, operand_ref: Any, o: Any) -> None:
        near = masked(source_ref[...], source_axes, constant(0)(source.dtype))
        block = masked(operand_ref[...], operand_axes, _worst(params)(operand.dtype))
        found = w.select_and_scatter_add_p.bind(near, block, **_inner(params))
        starts, stops = tuple(a for a, _ in crops), tuple(a + n for a, n in crops)
        o[...] = slice_p.bind(found, start_indices=starts, limit_indices=stops, strides=None)

    specs = [windows(cut, source_axes, source.shape), windows(cut, operand_axes, operand.shape)]
    return Parts(body, specs, [cut.spec(range(rank), outs[0].shape, params["window_strides"])])


def _scatter_work(types: Types, outs: Types, params: Params) -> tuple[int, int]:
    return math.prod(types[0].shape) * (math.prod(params["window_dimensions"]) + 1), 0


TEMPLATES = {
    **{p: reducer(p) for p in (*IDENTITIES, w.reduce_window_p, w.select_and_gather_add_p)},
    w.select_and_scatter_add_p: Template(
        "window", w.select_and_scatter_add_p, _scatter_loops, whole_or(w.select_and_scatter_add_p, _scatter),
        _scatter_work
    ),
}  # fmt: skip
