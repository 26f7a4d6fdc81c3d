"""Convolution as an implicit contraction: a block of places and output features reads the span its windows cover.

The loop of the input features carries, in float32 for narrow floats. With groups, features (and the batch) are whole.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.primitives.conv import conv_general_dilated_p
from ..core.primitives.convert import convert_element_type
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


def _grouped(params: Params) -> bool:
    return max(params["feature_group_count"], params["batch_group_count"]) > 1


def _loops(types: Types, params: Params) -> Loops:
    """Batch, output features, space in units, input features."""
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    out = conv_general_dilated_p.typing(*types, **params)
    spans = _spans(types, params)
    space = [cdiv(out.shape[a], span.unit) for a, (_, _, span) in zip(out_spec[2:], spans, strict=True)]
    sizes = (out.shape[out_spec[0]], out.shape[out_spec[1]], *space, types[1].shape[rhs_spec[1]])
    last = len(sizes) - 1
    whole = (1, last) if _grouped(params) else ()
    if params["batch_group_count"] > 1:
        whole = (0, *whole)
    return Loops(sizes, carry=(last,), whole=whole)


def _cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (lhs, rhs), (out,) = types, outs
    lhs_spec, rhs_spec, out_spec = params["dimension_numbers"]
    spans, features = _spans(types, params), len(cut.tiles) - 1
    grouped = _grouped(params)
    follows: list[Any] = [0] * lhs.ndim
    follows[lhs_spec[0]] = None if params["batch_group_count"] > 1 else 0
    follows[lhs_spec[1]] = None if grouped else features
    for axis, loop, span in spans:
        follows[axis] = span.window(loop, cut.tiles[loop])
    kernel: list[Any] = [None] * rhs.ndim
    if not grouped:
        kernel[rhs_spec[0]], kernel[rhs_spec[1]] = 1, features
    result: list[Any] = [0] * out.ndim
    scales = [1] * out.ndim
    result[out_spec[0]] = None if params["batch_group_count"] > 1 else 0
    result[out_spec[1]] = None if grouped else 1
    for a, (_, loop, span) in zip(out_spec[2:], spans, strict=True):
        result[a], scales[a] = loop, span.unit
    target = cut.spec(result, out.shape, scales)
    shape = tuple(target.block_shape or ())
    if 0 in lhs.shape or 0 in rhs.shape:

        def nothing(o: Any) -> None:
            o[...] = full(np.zeros((), out.dtype)[()], shape)

        return Parts(nothing, [], [target], args=())
    zero = np.zeros((), lhs.dtype)[()]
    sources = [windows(cut, follows, lhs.shape, fill=0), cut.spec(kernel, rhs.shape, fill=0)]
    space = len(spans)
    inner = params | {"padding": ((0, 0),) * space, "lhs_dilation": (1,) * space}

    def product(x: Any, y: Any, dtype: Any) -> Any:
        block = spread_out(cut, x[...], spans, zero)
        return conv_general_dilated_p.bind(block, y[...], **inner | {"preferred_element_type": dtype})

    if not cut.split(features):

        def once(x: Any, y: Any, o: Any) -> None:
            o[...] = product(x, y, params["preferred_element_type"])

        return Parts(once, sources, [target])
    wide = accumulator(out.dtype)

    def body(x: Any, y: Any, o: Any, total: Any) -> None:
        @when(cut.first())
        def _() -> None:
            total[...] = full(np.zeros((), wide)[()], shape)

        total[...] += product(x, y, wide)

        @when(cut.last())
        def _() -> None:
            o[...] = convert_element_type(total[...], out.dtype)

    return Parts(body, sources, [target], [RefType(ArrayType(shape, wide), MemorySpace.VMEM)])


def _work(types: Types, outs: Types, params: Params) -> tuple[int, int]:
    rhs, out_features = types[1], params["dimension_numbers"].rhs_spec[0]
    taps = math.prod(n for a, n in enumerate(rhs.shape) if a != out_features)
    return (8 if is_complex(outs[0].dtype) else 2) * math.prod(outs[0].shape) * taps, 0


TEMPLATES = {
    conv_general_dilated_p: Template(
        "conv", conv_general_dilated_p, _loops, whole_or(conv_general_dilated_p, _cut), _work
    )
}
