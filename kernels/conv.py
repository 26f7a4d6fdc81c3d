"""Convolution as an implicit contraction: a block of places and output features reads the span its windows cover.

The loop of the input features carries, in float32 for narrow floats. Of a grouped convolution blocks are cut both in
groups and within them: kernels see the axis of groups by itself, which is a view of the arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.primitives.conv import conv_general_dilated_p
from ..core.primitives.convert import convert_element_type
from ..core.primitives.shape import reshape_p
from ..core.trace import shape_of
from ..core.types import ArrayType, MemorySpace, RefType, is_complex
from ..lang.ops import cdiv, when
from .reduce import accumulator, full
from .shape import Params, Types, whole_or
from .template import Cut, Loops, Parts, Template, windows
from .window import Span, spread_out


def _spans(types: Types, params: Params) -> list[tuple[int, int, Span]]:
    """For each axis of space: the axis of the left operand, its loop, and what it reads."""
    lhs_spec, rhs_spec, _ = params["dimension_numbers"]
    lhs, rhs = types
    columns = zip(lhs_spec[2:], rhs_spec[2:], params["window_strides"], params["padding"], params["lhs_dilation"],
                  params["rhs_dilation"], strict=True)  # fmt: skip
    return [
        (a, 2 + i, Span(lhs.shape[a], rhs.shape[b], stride, low, dilation, hole))
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
        """A shape with the groups apart."""
        if self.count == 1:
            return tuple(shape)
        return (*shape[:axis], self.count, shape[axis] // self.count, *shape[axis + 1 :])

    def follow(self, axes: Sequence[Any], axis: int, loop: int) -> list[Any]:
        """What the axes of a view follow, the groups a loop."""
        return list(axes) if self.count == 1 else [*axes[:axis], loop, *axes[axis:]]

    def merged(self, block: Any, axis: int) -> Any:
        """A block with the groups as part of their axis again."""
        if self.count == 1:
            return block
        shape = shape_of(block)
        return reshape_p.bind(
            block, new_sizes=(*shape[:axis], shape[axis] * shape[axis + 1], *shape[axis + 2 :]), dimensions=None
        )


def _loops(types: Types, params: Params) -> Loops:
    """Batch, output features, space in units, input features, and groups where there are several."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    out = conv_general_dilated_p.typing(*types, **params)
    groups = _Groups.of(params)
    space = [cdiv(out.shape[a], s.unit) for a, (_, _, s) in zip(out_spec[2:], _spans(types, params), strict=True)]
    sizes = (out.shape[out_spec[0]], out.shape[out_spec[1]] // groups.count, *space, types[1].shape[rhs_spec[1]])
    return Loops(sizes if groups.count == 1 else (*sizes, groups.count), carry=(len(sizes) - 1,))


def _product(cut: Cut, params: Params, spans: Sequence[Any], zero: Any, shape: Sequence[int]) -> Callable[..., Any]:
    """The convolution of two blocks, as a block of the result."""
    space, groups = len(spans), _Groups.of(params)
    inner = params | {"padding": ((0, 0),) * space, "lhs_dilation": (1,) * space} | groups.counts(cut.tiles[-1])

    def product(x: Any, y: Any, dtype: Any) -> Any:
        block = spread_out(cut, groups.merged(x[...], groups.lhs_axis), spans, zero)
        kernel = groups.merged(y[...], groups.rhs_axis)
        found = conv_general_dilated_p.bind(block, kernel, **inner | {"preferred_element_type": dtype})
        return found if groups.count == 1 else reshape_p.bind(found, new_sizes=tuple(shape), dimensions=None)

    return product


def _blocks(types: Types, out: ArrayType, params: Params, cut: Cut) -> tuple[list[Any], Any]:
    """The blocks of the operands and of the result."""
    (lhs, rhs), groups = types, _Groups.of(params)
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    spans = _spans(types, params)
    features, last = 2 + len(spans), len(cut.tiles) - 1
    left: list[Any] = [0] * lhs.ndim
    left[lhs_spec[1]] = features
    right: list[Any] = [None] * rhs.ndim
    right[rhs_spec[0]], right[rhs_spec[1]] = 1, features
    result, scales = [0] * out.ndim, [1] * out.ndim
    result[out_spec[1]] = 1
    for a, (axis, loop, span) in zip(out_spec[2:], spans, strict=True):
        left[axis] = span.window(loop, cut.tiles[loop])
        result[a], scales[a] = loop, span.unit
    sources = [
        windows(cut, groups.follow(left, groups.lhs_axis, last), groups.view(lhs.shape, groups.lhs_axis), fill=0),
        cut.spec(groups.follow(right, groups.rhs_axis, last), groups.view(rhs.shape, groups.rhs_axis), fill=0),
    ]
    scales = groups.follow(scales, groups.out_axis, 1)
    axes = groups.follow(result, groups.out_axis, last)
    return sources, cut.spec(axes, groups.view(out.shape, groups.out_axis), scales)


def _cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (lhs, rhs), (out,), groups = types, outs, _Groups.of(params)
    spans = _spans(types, params)
    sources, target = _blocks(types, out, params, cut)
    shape = tuple(target.block_shape or ())
    views = {0: groups.view(lhs.shape, groups.lhs_axis), 1: groups.view(rhs.shape, groups.rhs_axis)}
    results = [ArrayType(groups.view(out.shape, groups.out_axis), out.dtype)]
    if 0 in lhs.shape or 0 in rhs.shape:

        def nothing(o: Any) -> None:
            o[...] = full(np.zeros((), out.dtype)[()], shape)

        return Parts(nothing, [], [target], args=(), outs=results)
    product = _product(cut, params, spans, np.zeros((), lhs.dtype)[()], shape)
    if not cut.split(2 + len(spans)):

        def once(x: Any, y: Any, o: Any) -> None:
            o[...] = product(x, y, params["preferred_element_type"])

        return Parts(once, sources, [target], views=views, outs=results)
    wide = accumulator(out.dtype)

    def body(x: Any, y: Any, o: Any, total: Any) -> None:
        @when(cut.first())
        def _() -> None:
            total[...] = full(np.zeros((), wide)[()], shape)

        total[...] += product(x, y, wide)

        @when(cut.last())
        def _() -> None:
            o[...] = convert_element_type(total[...], out.dtype)

    held = [RefType(ArrayType(shape, wide), MemorySpace.VMEM)]
    return Parts(body, sources, [target], held, views=views, outs=results)


def _work(types: Types, outs: Types, params: Params) -> tuple[int, int]:
    rhs, out_features = types[1], params["dimension_numbers"].rhs_spec[0]
    taps = math.prod(n for a, n in enumerate(rhs.shape) if a != out_features)
    return (8 if is_complex(outs[0].dtype) else 2) * math.prod(outs[0].shape) * taps, 0


TEMPLATES = {
    conv_general_dilated_p: Template(
        "conv", conv_general_dilated_p, _loops, whole_or(conv_general_dilated_p, _cut), _work
    )
}
