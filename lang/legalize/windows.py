"""Windows and convolutions: one strided slice for each place of a window, combined."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.array import Array
from ...core.ir.primitive import Primitive
from ...core.primitives.contraction.conv import ConvDimensionNumbers, conv_general_dilated_p
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.elementwise.arithmetic import add_p, max_p, min_p
from ...core.primitives.elementwise.bitwise import or_p
from ...core.primitives.elementwise.comparison import eq_p, ge_p, ne_p, select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.shape import broadcast_in_dim, pad, reshape, transpose
from ...core.primitives.movement.shape import slice as slice_
from ...core.primitives.reduction.reduce import highest, lowest
from ...core.primitives.reduction.reduce_window import (
    dilated,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_scatter_add_p,
    windows,
)
from ...core.tracing.trace import shape_of
from ...core.transforms.rule_helpers import like
from .floats import dtype_of, wide, wide_dtype


class _Windows:
    """The windows of an array: as many as `places` says along each axis."""

    def __init__(
        self, x: Array, window: Sequence[int], strides: Sequence[int], padding: str | Sequence[Any],
        base: Sequence[int] | None = None, holes: Sequence[int] | None = None,
    ):  # fmt: skip
        ones = (1,) * len(shape_of(x))
        self.x, self.window, self.strides, self.padding = x, window, strides, padding
        self.base, self.holes = base or ones, holes or ones
        self.places = windows(shape_of(x), window, strides, padding, self.base, self.holes)

    def slices(self, fill: Any) -> list[Any]:
        """For each position within a window: that element of every window."""
        config = [(low, high, b - 1) for (low, high), b in zip(self.padding, self.base, strict=True)]
        x = pad(self.x, fill, config) if any(any(c) for c in config) else self.x
        found = []
        for offset in itertools.product(*map(range, self.window)):
            starts = [o * h for o, h in zip(offset, self.holes, strict=True)]
            limits = [s + (n - 1) * k + 1 for s, n, k in zip(starts, self.places, self.strides, strict=True)]
            found.append(slice_(x, starts, limits, self.strides))
        return found


def _window(primitive: Primitive, identity: Callable[[Any], Any]) -> Callable[..., Any]:
    def expand(
        x: Array, *, window_dimensions: Sequence[int], window_strides: Sequence[int], padding: str | Sequence[Any],
        base_dilation: Sequence[int] | None = None, window_dilation: Sequence[int] | None = None,
    ) -> Any:  # fmt: skip
        dtype = dtype_of(x)
        x = wide(x)
        found = _Windows(x, window_dimensions, window_strides, padding, base_dilation, window_dilation)
        fill = np.asarray(identity(dtype_of(x))).astype(dtype_of(x))[()]
        if 0 in (*found.places, *window_dimensions):
            return convert_element_type(broadcast_in_dim(fill, found.places, ()), dtype)
        return convert_element_type(functools.reduce(primitive.bind, found.slices(fill)), dtype)

    return expand


def _select_and_scatter_add(source: Array, operand: Array, *, select_prim: Primitive, window_dimensions: Sequence[int],
                            window_strides: Sequence[int], padding: str | Sequence[Any]) -> Any:  # fmt: skip
    """Which place of each window wins, then each place's share of the source put back where the windows came from."""
    dtype, shape, places = dtype_of(source), shape_of(operand), shape_of(source)
    fill = (lowest if select_prim is ge_p else highest)(dtype_of(operand))
    fill = np.asarray(fill).astype(dtype_of(operand))[()]
    zero = np.zeros((), wide_dtype(dtype))[()]
    total = broadcast_in_dim(zero, shape, ())
    if 0 in (*shape, *places):
        return convert_element_type(total, dtype)
    parts = _Windows(operand, window_dimensions, window_strides, padding).slices(fill)
    best, which = parts[0], broadcast_in_dim(np.int32(0), places, ())
    for k, part in enumerate(parts[1:], 1):
        stays = or_p.bind(select_prim.bind(best, part), ne_p.bind(best, best))
        best = select_n_p.bind(stays, part, best)
        which = select_n_p.bind(stays, like(which, k), which)
    source = wide(source)
    for k, offset in enumerate(itertools.product(*map(range, window_dimensions))):
        share = select_n_p.bind(eq_p.bind(which, like(which, k)), like(source, 0), source)
        config = []
        for o, (low, _), n, count, step in zip(offset, padding, shape, places, window_strides, strict=True):
            before = o - low
            config.append((before, n - before - dilated(count, step), step - 1))
        total = add_p.bind(total, pad(share, zero, config))
    return convert_element_type(total, dtype)


def _products(point: Array, part: Array, batch_groups: int, how: dict[str, Any]) -> Any:
    """(groups, outs, ins) times (batch, features, places...): (groups, outs, batch, places...).

    Of one group it is a plain product of matrices: (batch, places..., outs).
    """
    (groups, outs, ins), (batch, _, *places) = shape_of(point), shape_of(part)
    if groups == 1:
        numbers = (((1,), (1,)), ((), ()))
        return dot_general_p.bind(part, reshape(point, (outs, ins)), dimension_numbers=numbers, **how)
    if batch_groups > 1:
        part, numbers = reshape(part, (groups, batch // groups, ins, *places)), (((2,), (2,)), ((0,), (0,)))
    else:
        part, numbers = reshape(part, (batch, groups, ins, *places)), (((2,), (2,)), ((0,), (1,)))
    return dot_general_p.bind(point, part, dimension_numbers=numbers, **how)


def _conv(
    lhs: Array, rhs: Array, *, window_strides: Sequence[int], padding: str | Sequence[Any], lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int], dimension_numbers: ConvDimensionNumbers, feature_group_count: int,
    batch_group_count: int, precision: Any, preferred_element_type: np.dtype[Any],
) -> Any:  # fmt: skip
    """For each place in the window one product of matrices, over the input features."""
    out_dtype = preferred_element_type or dtype_of(lhs)
    lhs, rhs = transpose(lhs, dimension_numbers.lhs_spec), transpose(rhs, dimension_numbers.rhs_spec)
    (batch, *_), (outs, ins, *kernel) = shape_of(lhs), shape_of(rhs)
    groups, space = max(feature_group_count, batch_group_count), len(kernel)
    found = _Windows(lhs, (1, 1, *kernel), (1, 1, *window_strides), ((0, 0), (0, 0), *padding), (1, 1, *lhs_dilation),
                     (1, 1, *rhs_dilation))  # fmt: skip
    places = found.places[2:]
    inner = wide_dtype(out_dtype)
    rows = batch // batch_group_count
    shape = (rows, *places, outs) if groups == 1 else (groups, outs // groups, rows, *places)
    total = broadcast_in_dim(np.zeros((), inner)[()], shape, ())
    if 0 not in (*shape_of(total), *shape_of(lhs), *shape_of(rhs)):
        parts = found.slices(np.zeros((), dtype_of(lhs))[()])
        how = {"precision": precision, "preferred_element_type": inner}
        for offset, part in zip(itertools.product(*map(range, kernel)), parts, strict=True):
            point = slice_(rhs, (0, 0, *offset), (outs, ins, *(o + 1 for o in offset)), None)
            point = reshape(point, (groups, outs // groups, ins))
            total = add_p.bind(total, _products(point, part, batch_group_count, how))
    if groups == 1:
        total = transpose(total, (0, space + 1, *range(1, space + 1)))
    else:
        total = reshape(transpose(total, (2, 0, 1, *range(3, 3 + space))), (rows, outs, *places))
    order = dimension_numbers.out_spec
    total = transpose(total, [order.index(d) for d in range(len(order))])
    return convert_element_type(total, out_dtype)


REWRITES: dict[Primitive, Callable[..., Any]] = {
    reduce_window_sum_p: _window(add_p, lambda dtype: 0), reduce_window_max_p: _window(max_p, lowest),
    reduce_window_min_p: _window(min_p, highest), select_and_scatter_add_p: _select_and_scatter_add,
    conv_general_dilated_p: _conv,
}  # fmt: skip
