"""Convolution as an implicit contraction: a block of places and output features reads the span its windows cover.

The loops of the taps and of the input features carry, in float32 for narrow floats. Of a grouped convolution blocks are
cut both in groups and within them: kernels see the axis of groups by itself, which is a view of the arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array
from ..core.ir.types import ArrayType
from ..core.primitives.contraction.conv import conv_general_dilated_p
from ..core.primitives.movement.shape import reshape_p
from ..core.tracing.trace import shape_of
from ..lang.ops.basic import cdiv, when
from .bodies import cropped
from .generate.accumulators import CarriedValues, accumulator
from .generate.loops import Cut, Loops, windows
from .template import Params, Parts, Types, filled, own
from .window_spans import Reach, Span, inside, spread_out, tap_ends

if TYPE_CHECKING:
    from ..core.primitives.refs.ref_views import AnyRef


def _reaches(types: Types, params: Params) -> list[Reach]:
    """What each axis of space of the left operand is read by. Loops: taps, batch, output features, space."""
    lhs_spec, rhs_spec, _ = params["dimension_numbers"]
    lhs, rhs = types
    columns = zip(lhs_spec[2:], rhs_spec[2:], params["window_strides"], params["padding"], params["lhs_dilation"],
                  params["rhs_dilation"], strict=True)  # fmt: skip
    space = len(lhs_spec) - 2
    return [
        Reach(a, space + 2 + i, i, Span(lhs.shape[a], rhs.shape[b], stride, low, dilation, hole))
        for i, (a, b, stride, (low, _), dilation, hole) in enumerate(columns)
    ]


@dataclass(frozen=True)
class _Groups:
    """The groups of a convolution. Blocks see the axis of groups by itself, before the axis that it is part of: of the
    left operand its features (or, of batch groups, its batch), of the others the output features."""

    features: int
    batch: int
    lhs_axis: int
    rhs_axis: int
    out_axis: int

    @classmethod
    def of(cls, params: Params) -> _Groups:
        lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
        features, batch = params["feature_group_count"], params["batch_group_count"]
        return cls(features, batch, lhs_spec[0 if batch > 1 else 1], rhs_spec[0], out_spec[1])

    @property
    def count(self) -> int:
        return max(self.features, self.batch)

    def counts(self, tile: int) -> Params:
        """The parameters of a block of so many groups."""
        return {"feature_group_count": tile if self.features > 1 else 1,
                "batch_group_count": tile if self.batch > 1 else 1}  # fmt: skip

    def view(self, shape: Sequence[int], axis: int) -> tuple[int, ...]:
        """A shape with a separate axis of groups."""
        if self.count == 1:
            return tuple(shape)
        return (*shape[:axis], self.count, shape[axis] // self.count, *shape[axis + 1 :])

    def follow(self, axes: Sequence[Any], axis: int, loop: int) -> list[Any]:
        """What the axes of a view follow, the groups a loop."""
        return list(axes) if self.count == 1 else [*axes[:axis], loop, *axes[axis:]]

    def merged(self, block: Array, axis: int) -> Any:
        """A block with the groups as part of their axis again."""
        if self.count == 1:
            return block
        shape = shape_of(block)
        return reshape_p.bind(
            block, new_sizes=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]), dimensions=None
        )


def _loops(types: Types, params: Params) -> Loops:
    """Taps, batch, output features, space in units, input features, and groups where there are several."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    out = conv_general_dilated_p.typing(*types, **params)
    groups, spans = _Groups.of(params), [r.span for r in _reaches(types, params)]
    space = [cdiv(out.shape[a], span.unit) for a, span in zip(out_spec[2:], spans, strict=True)]
    free = (out.shape[out_spec[0]], out.shape[out_spec[1]] // groups.count, *space)
    sizes = (*(span.steps for span in spans), *free, types[1].shape[rhs_spec[1]])
    taps = tuple(range(len(spans)))
    carry = (*taps, len(sizes) - 1)
    return Loops(sizes if groups.count == 1 else (*sizes, groups.count), carry, short=taps)


def _product(cut: Cut, params: Params, reaches: Sequence[Reach], zero: Any, shape: Sequence[int]) -> Callable[..., Any]:
    """The convolution of some taps of two blocks, as a block of the result."""
    space, groups, rhs_spec = len(reaches), _Groups.of(params), params["dimension_numbers"].rhs_spec
    inner = params | {"padding": ((0, 0),) * space, "lhs_dilation": (1,) * space} | groups.counts(cut.tiles[-1])

    def product(x: AnyRef, y: AnyRef, taps: Sequence[int], dtype: np.dtype[Any]) -> Any:
        block = inside(cut, groups.merged(x[...], groups.lhs_axis), reaches, zero)
        block = spread_out(cut, block, reaches, taps, zero)
        kernel = groups.merged(y[...], groups.rhs_axis)
        sizes = list(shape_of(kernel))
        for a, n in zip(rhs_spec[2:], taps, strict=True):
            sizes[a] = n
        found = conv_general_dilated_p.bind(block, cropped(kernel, sizes), **inner | {"preferred_element_type": dtype})
        return found if groups.count == 1 else reshape_p.bind(found, new_sizes=tuple(shape), dimensions=None)

    return product


def _blocks(types: Types, out: ArrayType, params: Params, cut: Cut) -> tuple[list[Any], Any]:
    """The blocks of the operands and of the result."""
    (lhs, rhs), groups = types, _Groups.of(params)
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    reaches = _reaches(types, params)
    batch, outs = len(reaches), len(reaches) + 1
    features, last = cut.loops.carry[-1], len(cut.tiles) - 1
    left: list[Any] = [batch] * lhs.ndim
    left[lhs_spec[1]] = features
    right: list[Any] = [outs] * rhs.ndim
    right[rhs_spec[1]] = features
    result, scales, taps = [batch] * out.ndim, [1] * out.ndim, [1] * rhs.ndim
    result[out_spec[1]] = outs
    for a, b, r in zip(out_spec[2:], rhs_spec[2:], reaches, strict=True):
        left[r.axis], right[b], taps[b] = r.window(cut), r.along, r.span.tap_unit
        result[a], scales[a] = r.places, r.span.unit
    taps = groups.follow(taps, groups.rhs_axis, 1)
    right = groups.follow(right, groups.rhs_axis, last)
    sources = [
        windows(cut, groups.follow(left, groups.lhs_axis, last), groups.view(lhs.shape, groups.lhs_axis), fill=0),
        cut.spec(right, groups.view(rhs.shape, groups.rhs_axis), taps, fill=0),
    ]
    scales = groups.follow(scales, groups.out_axis, 1)
    axes = groups.follow(result, groups.out_axis, last)
    return sources, cut.spec(axes, groups.view(out.shape, groups.out_axis), scales)


def _cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (lhs, rhs), (out,), groups = types, outs, _Groups.of(params)
    reaches = _reaches(types, params)
    sources, target = _blocks(types, out, params, cut)
    shape = tuple(target.block_shape or ())
    views = {0: groups.view(lhs.shape, groups.lhs_axis), 1: groups.view(rhs.shape, groups.rhs_axis)}
    results = [ArrayType(groups.view(out.shape, groups.out_axis), out.dtype)]
    if 0 in lhs.shape or 0 in rhs.shape:
        return filled([target], lambda: [np.zeros((), out.dtype)[()]], outs=results)
    product = _product(cut, params, reaches, np.zeros((), lhs.dtype)[()], shape)
    if not any(map(cut.split, cut.loops.carry)):

        def once(x: AnyRef, y: AnyRef, o: AnyRef) -> None:
            ((_, taps),) = tap_ends(cut, reaches)
            o[...] = product(x, y, taps, params["preferred_element_type"])

        return Parts(once, sources, [target], views=views, outs=results)
    kept = CarriedValues(cut, results, shape, [accumulator(out.dtype)])

    def body(x: AnyRef, y: AnyRef, o: AnyRef, *scratch: Any) -> None:
        def step(states: Sequence[Any]) -> None:
            (total,) = states
            for here, taps in tap_ends(cut, reaches):

                @when(here)
                def _(taps: Sequence[int] = taps) -> None:
                    total[...] += product(x, y, taps, total.dtype)

        kept.run([o], scratch, lambda: [np.zeros((), out.dtype)[()]], step)

    return Parts(body, sources, [target], kept.scratch, views=views, outs=results)


TEMPLATES = {conv_general_dilated_p: own("conv", conv_general_dilated_p, _cut, _loops)}
