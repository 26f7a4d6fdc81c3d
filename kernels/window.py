"""Reductions of windows: a block of places reads the span of elements that some taps of its windows cover.

The loops of the taps carry. Along an axis with base dilation, tiles are in units of places (and of taps) whose strides
are whole elements. Where an element is selected the taps stay whole: of equal elements the first in the window wins,
which another order of the taps would not find.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array
from ..core.ir.primitive import Primitive
from ..core.primitives.elementwise.comparison import ge_p, select_n_p
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.shape import slice_p
from ..core.primitives.reduction import reduce_window as w
from ..core.primitives.reduction.reduce import MAXIMUM, MINIMUM, SUM, highest, lowest
from ..lang.kernel.block_spec import BlockSpec
from ..lang.ops.basic import cdiv, when
from .bodies import on_elements, store, within
from .generate.accumulators import CarriedValues, accumulator_of, full
from .generate.loops import Cut, Loops, Window, windows
from .template import Params, Parts, Template, Types, filled, own
from .window_spans import Reach, Span, inside, spread_out, tap_ends

if TYPE_CHECKING:
    from ..core.primitives.refs.ref_views import AnyRef

MONOIDS = {w.reduce_window_sum_p: SUM, w.reduce_window_max_p: MAXIMUM, w.reduce_window_min_p: MINIMUM}


def _reaches(shape: Sequence[int], params: Params) -> list[Reach]:
    """Loops: taps, then places."""
    ones, rank = (1,) * len(shape), len(shape)
    columns = zip(shape, params["window_dimensions"], params["window_strides"], params["padding"],
                  params.get("base_dilation") or ones, params.get("window_dilation") or ones, strict=True)  # fmt: skip
    return [Reach(d, rank + d, d, Span(n, k, s, low, b, h)) for d, (n, k, s, (low, _), b, h) in enumerate(columns)]


def _inner(params: Params) -> Params:
    """The parameters within a block that is padded and dilated already."""
    none = {"padding": ((0, 0),) * len(params["padding"])}
    return params | none | ({"base_dilation": (1,) * len(params["padding"])} if "base_dilation" in params else {})


def _loops(primitive: Primitive) -> Any:
    def loops(types: Types, params: Params) -> Loops:
        found = primitive.typing(*types, **params)
        places = (found[0] if primitive.multiple else found).shape
        spans = [r.span for r in _reaches(_arrays(primitive, types)[0].shape, params)]
        taps = tuple(range(len(spans)))
        whole = taps if primitive is w.select_and_gather_add_p else ()  # of equal elements the window's first wins
        sizes = (*(s.steps for s in spans), *(cdiv(n, s.unit) for n, s in zip(places, spans, strict=True)))
        return Loops(sizes, carry=taps, whole=whole, short=taps)

    return loops


def _arrays(primitive: Primitive, types: Types) -> Types:
    return types[: len(types) // 2] if primitive is w.reduce_window_p else types


def _worst(params: Params) -> Any:
    return lowest if params["select_prim"] is ge_p else highest


class _Reduction:
    """The body of a reduction of windows: the taps of a cell combined with those of the cells before it."""

    def __init__(self, primitive: Primitive, types: Types, outs: Types, params: Params, cut: Cut):
        self.primitive, self.types, self.params, self.cut = primitive, types, params, cut
        self.arrays = _arrays(primitive, types)
        self.reaches = _reaches(self.arrays[0].shape, params)
        rank = self.arrays[0].ndim
        self.results = [cut.spec(range(rank, 2 * rank), t.shape, [r.span.unit for r in self.reaches]) for t in outs]
        self.starts = range(len(self.arrays), len(types))  # the operands that are the values to start with
        monoid = MONOIDS.get(primitive)
        self.split = any(map(cut.split, cut.loops.carry))
        self.wide = [accumulator_of(monoid, t.dtype) if self.split and monoid else t.dtype for t in outs]
        self.kept = CarriedValues(cut, outs, self.results[0].block_shape or (), self.wide)

    def sources(self) -> list[BlockSpec]:
        """The spans of the arrays that a cell reads."""
        reads, monoid = [r.window(self.cut) for r in self.reaches], MONOIDS.get(self.primitive)
        return [windows(self.cut, reads, t.shape, monoid and monoid.neutral(t.dtype)) for t in self.arrays]

    def fillers(self, starts: Sequence[Any]) -> list[Any]:
        """What each operand is surrounded with."""
        if self.primitive is w.reduce_window_p:
            return list(starts)
        if self.primitive is w.select_and_gather_add_p:
            return [SUM.neutral(self.types[0].dtype), _worst(self.params)(self.types[1].dtype)]
        return [MONOIDS[self.primitive].neutral(self.types[0].dtype)]

    def combined(self, old: Sequence[Any], new: Sequence[Any]) -> list[Any]:
        """The results of some taps and of those after them as one."""
        if self.primitive is w.reduce_window_p:
            return on_elements(self.params["computation"], [*old, *new])
        return [MONOIDS[self.primitive].combine(a, b) for a, b in zip(old, new, strict=True)]

    def found(self, refs: Sequence[Any], taps: tuple[int, ...]) -> list[Any]:
        """The results of some taps alone, of the operands' Refs."""
        arrays, starts = refs[: len(self.arrays)], [refs[i][...] for i in self.starts]
        fillers = self.fillers(starts)
        blocks = [inside(self.cut, r[...], self.reaches, f) for r, f in zip(arrays, fillers, strict=True)]
        blocks = [spread_out(self.cut, b, self.reaches, taps, f) for b, f in zip(blocks, fillers, strict=True)]
        if self.kept.narrow:
            blocks = [convert_element_type(b, self.wide[0]) for b in blocks]
        values = self.primitive.bind(*blocks, *starts, **_inner(self.params) | {"window_dimensions": taps})
        return list(values) if self.primitive.multiple else [values]

    def body(self, *refs: Any) -> None:
        operands, rest = refs[: len(self.types)], refs[len(self.types) :]
        results, scratch = rest[: len(self.results)], rest[len(self.results) :]
        if not self.split:
            ((_, taps),) = tap_ends(self.cut, self.reaches)
            store(results, self.found(operands, taps))
            return

        def step(states: Sequence[Any]) -> None:
            for here, taps in tap_ends(self.cut, self.reaches):

                @when(here)
                def _(taps: tuple[int, ...] = taps) -> None:
                    store(states, self.combined([s[...] for s in states], self.found(operands, taps)))

        self.kept.run(results, scratch, lambda: self.fillers([operands[i][...] for i in self.starts]), step)


def reducer(primitive: Primitive) -> Template:
    """The template of a reduction of each window, of one array or several."""

    def parts(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        made = _Reduction(primitive, types, outs, params, cut)
        starts = [cut.spec((), ()) for _ in made.starts]
        if any(0 in t.shape for t in made.arrays):
            return filled(made.results, lambda *values: made.fillers(values), starts, made.starts)
        return Parts(made.body, [*made.sources(), *starts], made.results, made.kept.scratch)

    return own("window", primitive, parts, _loops(primitive))


# ---------------------------------------------------------------------------- the transpose of an extremum


def _scatter_loops(types: Types, params: Params) -> Loops:
    """Over the operand, in units of a stride."""
    return Loops(tuple(cdiv(n, s) for n, s in zip(types[1].shape, params["window_strides"], strict=True)))


def _scatter(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    """Each tile of the result from all windows that overlap it."""
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

    def masked(block: Array, axes: Sequence[Window], filler: Any) -> Any:
        bounds = [(d, cut.id(d) * np.int32(a.step) + np.int32(a.base), 0, a.n) for d, a in enumerate(axes)]
        shape = [a.size for a in axes]
        return select_n_p.bind(within(shape, bounds), full(filler, shape), block) if rank else block

    def body(source_ref: AnyRef, operand_ref: AnyRef, o: AnyRef) -> None:
        near = masked(source_ref[...], source_axes, SUM.neutral(source.dtype))
        block = masked(operand_ref[...], operand_axes, _worst(params)(operand.dtype))
        found = w.select_and_scatter_add_p.bind(near, block, **_inner(params))
        starts, stops = tuple(a for a, _ in crops), tuple(a + n for a, n in crops)
        o[...] = slice_p.bind(found, start_indices=starts, limit_indices=stops, strides=None)

    specs = [windows(cut, source_axes, source.shape), windows(cut, operand_axes, operand.shape)]
    return Parts(body, specs, [cut.spec(range(rank), outs[0].shape, params["window_strides"])])


TEMPLATES = {
    **{p: reducer(p) for p in (*MONOIDS, w.reduce_window_p, w.select_and_gather_add_p)},
    w.select_and_scatter_add_p: own("window", w.select_and_scatter_add_p, _scatter, _scatter_loops),
}
