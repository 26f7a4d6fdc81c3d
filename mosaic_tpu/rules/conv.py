"""Convolutions: a sum over the taps of the kernel, each a matrix product of the shifted input with that tap."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from ...core.primitive import Primitive
from ...core.primitives.contract import dot_general
from ...core.primitives.conv import conv_general_dilated_p
from ...core.primitives.convert import convert_element_type
from ...core.primitives.elementwise import add_p
from ...core.primitives.shape import broadcast_in_dim_p, concatenate, pad, reshape_to, slice_in_dim, transpose
from ...core.primitives.shape import slice as slice_
from ...core.types import ArrayType, is_float
from ..body import Body, Rule
from ..values import Value


def _convolution(x: Any, y: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
                 dimension_numbers: Any, feature_group_count: int, batch_group_count: int, precision: Any,
                 dtype: Any, out_shape: Any) -> Any:  # fmt: skip
    space = len(window_strides)
    x, y = transpose(x, dimension_numbers.lhs_spec), transpose(y, dimension_numbers.rhs_spec)
    pads = [(low, high, d - 1) for (low, high), d in zip(padding, lhs_dilation, strict=True)]
    x = pad(x, np.zeros((), x.dtype)[()], [(0, 0, 0), (0, 0, 0), *pads])
    spec = dimension_numbers.out_spec
    outs = tuple(out_shape[a] for a in spec[2:])
    groups = feature_group_count * batch_group_count
    axis = 1 if feature_group_count > 1 else 0
    parts = []
    for g in range(groups):
        part = _group(x, axis, g, groups)
        kernel = _group(y, 0, g, groups)
        parts.append(_taps(part, kernel, outs, space, window_strides, rhs_dilation, precision, dtype))
    whole = parts[0] if groups == 1 else concatenate(parts, 1)
    inverse = tuple(sorted(range(len(spec)), key=lambda a: spec[a]))
    return transpose(whole, inverse)


def _group(x: Any, axis: int, g: int, groups: int) -> Any:
    size = x.shape[axis] // groups
    return x if groups == 1 else slice_in_dim(x, g * size, (g + 1) * size, 1, axis)


def _taps(x: Any, y: Any, outs: Any, space: int, strides: Any, dilation: Any, precision: Any, dtype: Any) -> Any:
    """(n, c, space...) with (o, c, taps...): (n, o, outs...)."""
    total: Any = broadcast_in_dim_p.bind(np.zeros((), dtype)[()], shape=(x.shape[0], y.shape[0], *outs),
                                         broadcast_dimensions=())  # fmt: skip
    for tap in itertools.product(*(range(n) for n in y.shape[2:])):
        starts = [t * d for t, d in zip(tap, dilation, strict=True)]
        ends = [s + (n - 1) * step + 1 for s, n, step in zip(starts, outs, strides, strict=True)]
        shifted = slice_(x, (0, 0, *starts), (*x.shape[:2], *ends), (1, 1, *strides))
        weights = slice_(y, (0, 0, *tap), (*y.shape[:2], *(t + 1 for t in tap)))
        weights = reshape_to(weights, y.shape[:2])
        made = dot_general(shifted, weights, (((1,), (1,)), ((), ())), precision, preferred_element_type=dtype)
        total = add_p.bind(total, transpose(made, (0, space + 1, *range(1, space + 1))))
    return total


def _rule(b: Body, xs: list[Value], out: ArrayType, preferred_element_type: Any, **params: Any) -> Value:
    wide = np.dtype(np.float32) if is_float(out.dtype) else out.dtype

    def convolved(x: Any, y: Any) -> Any:
        return convert_element_type(_convolution(x, y, **params, dtype=wide, out_shape=out.shape), out.dtype)

    return b.traced(convolved, xs)[0]


RULES: dict[Primitive, Rule] = {conv_general_dilated_p: _rule}
