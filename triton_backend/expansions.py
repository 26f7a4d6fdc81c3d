"""Primitives that Triton has nothing like, in terms of others.

Sources: DLMF (https://dlmf.nist.gov) by equation number.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.ir import Program
from ..core.primitive import AxisInfo, Primitive
from ..core.primitives.compare import eq_p, ge_p, gt_p, lt_p, ne_p, or_p, select_n_p
from ..core.primitives.contract import dot_general_p
from ..core.primitives.conv import ConvDimensionNumbers, conv_general_dilated_p
from ..core.primitives.convert import convert_element_type
from ..core.primitives.elementwise import add_p, ceil_p, exp_p, floor_p, log_p, max_p, min_p, neg_p, pow_p, tan_p
from ..core.primitives.loops import while_loop
from ..core.primitives.reduce import highest, lowest, reduce_or_p
from ..core.primitives.shape import broadcast_in_dim, pad, reshape, transpose
from ..core.primitives.shape import slice as slice_
from ..core.primitives.special import digamma_p, lgamma_p, polygamma_p, zeta_p
from ..core.primitives.special_numpy import BERNOULLI
from ..core.primitives.window import (
    dilated,
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_sum_p,
    select_and_scatter_add_p,
)
from ..core.rules import like, spread
from ..core.trace import eval_program, shape_of, trace_program, typeof
from ..core.types import ArrayType, is_float
from ..core.vmap import batch_program

FLOAT32 = np.dtype(np.float32)


def dtype_of(x: Any) -> Any:
    return typeof(x).dtype


def _wide(x: Any) -> Any:
    """A float that is computed with in float32 at least."""
    dtype = dtype_of(x)
    return convert_element_type(x, FLOAT32) if is_float(dtype) and dtype.itemsize < 4 else x


def vectorised(program: Program, shape: Sequence[int]) -> Program:
    """A Program of scalars as one of arrays of a shape."""
    size = math.prod(shape)
    batched, dims = batch_program(program, AxisInfo(size), (0,) * len(program.inputs))

    def fun(*xs: Any) -> list[Any]:
        outs = eval_program(batched, *(reshape(x, (size,)) for x in xs))
        return [
            broadcast_in_dim(o, shape, ()) if d is None else reshape(o, tuple(shape))
            for o, d in zip(outs, dims, strict=True)
        ]

    types: list[Any] = [ArrayType(tuple(shape), t.dtype) for t in program.in_types]
    return trace_program(fun, types, program.name)


# ---------------------------------------------------------------------------- windows


def _slices(x: Any, fill: Any, places: Sequence[int], window: Any, strides: Any, padding: Any, base: Any, holes: Any
            ) -> list[Any]:  # fmt: skip
    """For each position within a window: that element of every window."""
    ones = (1,) * len(shape_of(x))
    base, holes = base or ones, holes or ones
    config = [(low, high, b - 1) for (low, high), b in zip(padding, base, strict=True)]
    if any(any(c) for c in config):
        x = pad(x, fill, config)
    found = []
    for offset in itertools.product(*map(range, window)):
        starts = [o * h for o, h in zip(offset, holes, strict=True)]
        limits = [s + (n - 1) * k + 1 for s, n, k in zip(starts, places, strides, strict=True)]
        found.append(slice_(x, starts, limits, strides))
    return found


def _places(x: Any, window: Any, strides: Any, padding: Any, base: Any = None, holes: Any = None) -> tuple[int, ...]:
    from ..core.primitives.window import windows

    shape = shape_of(x)
    ones = (1,) * len(shape)
    return windows(shape, window, strides, padding, base or ones, holes or ones)


def _window(primitive: Primitive, identity: Callable[[Any], Any]) -> Callable[..., Any]:
    def expand(x: Any, *, window_dimensions: Any, window_strides: Any, padding: Any, base_dilation: Any = None,
               window_dilation: Any = None) -> Any:  # fmt: skip
        dtype = dtype_of(x)
        x = _wide(x)
        places = _places(x, window_dimensions, window_strides, padding, base_dilation, window_dilation)
        fill = np.asarray(identity(dtype_of(x))).astype(dtype_of(x))[()]
        if 0 in (*places, *window_dimensions):
            return convert_element_type(broadcast_in_dim(fill, places, ()), dtype)
        parts = _slices(x, fill, places, window_dimensions, window_strides, padding, base_dilation, window_dilation)
        total = parts[0]
        for part in parts[1:]:
            total = primitive.bind(total, part)
        return convert_element_type(total, dtype)

    return expand


def _select_and_scatter_add(source: Any, operand: Any, *, select_prim: Primitive, window_dimensions: Any,
                            window_strides: Any, padding: Any) -> Any:  # fmt: skip
    """Which place of each window wins, then each place's share of the source put back where the windows came from."""
    dtype, shape, places = dtype_of(source), shape_of(operand), shape_of(source)
    fill = (lowest if select_prim is ge_p else highest)(dtype_of(operand))
    fill = np.asarray(fill).astype(dtype_of(operand))[()]
    ones = (1,) * len(shape)
    zero = np.zeros((), FLOAT32 if dtype.itemsize < 4 and is_float(dtype) else dtype)[()]
    total = broadcast_in_dim(zero, shape, ())
    if 0 in (*shape, *places):
        return convert_element_type(total, dtype)
    parts = _slices(operand, fill, places, window_dimensions, window_strides, padding, ones, ones)
    best, which = parts[0], broadcast_in_dim(np.int32(0), places, ())
    for k, part in enumerate(parts[1:], 1):
        stays = or_p.bind(select_prim.bind(best, part), ne_p.bind(best, best))
        best = select_n_p.bind(stays, part, best)
        which = select_n_p.bind(stays, like(which, k), which)
    source = _wide(source)
    for k, offset in enumerate(itertools.product(*map(range, window_dimensions))):
        share = select_n_p.bind(eq_p.bind(which, like(which, k)), like(source, 0), source)
        config = []
        for o, (low, _), n, count, step in zip(offset, padding, shape, places, window_strides, strict=True):
            before = o - low
            config.append((before, n - before - dilated(count, step), step - 1))
        total = add_p.bind(total, pad(share, zero, config))
    return convert_element_type(total, dtype)


def _conv(lhs: Any, rhs: Any, *, window_strides: Any, padding: Any, lhs_dilation: Any, rhs_dilation: Any,
          dimension_numbers: ConvDimensionNumbers, feature_group_count: int, batch_group_count: int, precision: Any,
          preferred_element_type: Any) -> Any:  # fmt: skip
    """For each place in the window one product of matrices, over the input features."""
    out_dtype = preferred_element_type or dtype_of(lhs)
    lhs, rhs = transpose(lhs, dimension_numbers.lhs_spec), transpose(rhs, dimension_numbers.rhs_spec)
    (batch, features, *_), (outs, ins, *kernel) = shape_of(lhs), shape_of(rhs)
    groups, space = max(feature_group_count, batch_group_count), len(kernel)
    places = _places(
        lhs, (1, 1, *kernel), (1, 1, *window_strides), ((0, 0), (0, 0), *padding), (1, 1, *lhs_dilation),
        (1, 1, *rhs_dilation))[2:]  # fmt: skip
    inner = FLOAT32 if is_float(out_dtype) and out_dtype.itemsize < 4 else out_dtype
    rows = batch // batch_group_count
    total = broadcast_in_dim(np.zeros((), inner)[()], (groups, outs // groups, rows, *places), ())
    if 0 not in (*shape_of(total), *shape_of(lhs), *shape_of(rhs)):
        zero = np.zeros((), dtype_of(lhs))[()]
        parts = _slices(
            lhs, zero, (batch, features, *places), (1, 1, *kernel), (1, 1, *window_strides), ((0, 0), (0, 0), *padding),
            (1, 1, *lhs_dilation), (1, 1, *rhs_dilation))  # fmt: skip
        for offset, part in zip(itertools.product(*map(range, kernel)), parts, strict=True):
            point = slice_(rhs, (0, 0, *offset), (outs, ins, *(o + 1 for o in offset)), None)
            point = reshape(point, (groups, outs // groups, ins))
            if batch_group_count > 1:
                part = reshape(part, (groups, rows, ins, *places))
                numbers = (((2,), (2,)), ((0,), (0,)))
            else:
                part = reshape(part, (batch, groups, ins, *places))
                numbers = (((2,), (2,)), ((0,), (1,)))
            found = dot_general_p.bind(
                point, part, dimension_numbers=numbers, precision=precision, preferred_element_type=inner
            )
            total = add_p.bind(total, found)
    total = transpose(total, (2, 0, 1, *range(3, 3 + space)))
    total = reshape(total, (rows, outs, *places))
    order = dimension_numbers.out_spec
    total = transpose(total, [order.index(d) for d in range(len(order))])
    return convert_element_type(total, out_dtype)


# ---------------------------------------------------------------------------- special functions


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    def expand(*xs: Any) -> Any:
        shape = np.broadcast_shapes(*map(shape_of, xs))
        return convert_element_type(function(*(spread(_wide(x), shape) for x in xs)), dtype_of(xs[0]))

    return expand


def _where(condition: Any, yes: Any, no: Any) -> Any:
    shape = shape_of(condition)
    dtype = next(dtype_of(x) for x in (yes, no) if not isinstance(x, float))
    yes, no = (spread(np.asarray(x, dtype)[()] if isinstance(x, float) else x, shape) for x in (yes, no))
    return select_n_p.bind(condition, no, yes)


def _digamma(x: Any) -> Any:
    """Reflection (DLMF 5.5.4), recurrence (5.5.2) up to 10, and the asymptotic series (5.11.2)."""
    pole = (x <= 0) & eq_p.bind(x, floor_p.bind(x))
    negative = lt_p.bind(x, like(x, 0.5))
    y = _where(negative, 1.0 - x, x)
    total = x * 0.0
    y = _where(lt_p.bind(y, like(y, math.inf)), y, 10.0)
    for _ in range(10):
        low = lt_p.bind(y, like(y, 10.0))
        total = _where(low, total - 1.0 / y, total)
        y = _where(low, y + 1.0, y)
    square = 1.0 / (y * y)
    series, power = log_p.bind(y) - 0.5 / y, square
    for k, b in enumerate(BERNOULLI[:6], 1):
        series, power = series - power * (b / (2 * k)), power * square
    total = total + series
    reduced = _where(negative, x - floor_p.bind(x), 0.25)
    total = _where(negative, total - math.pi / tan_p.bind(reduced * math.pi), total)
    total = _where(eq_p.bind(x, like(x, math.inf)), math.inf, total)
    return _where(pole | eq_p.bind(x, like(x, -math.inf)) | ne_p.bind(x, x), math.nan, total)


def _zeta(s: Any, q: Any) -> Any:
    """Hurwitz's zeta function by the Euler-Maclaurin formula (DLMF 25.11.5), after 10 leading terms.

    At negative q (not an integer) and whole s, terms are taken off until q is positive.
    """
    whole = eq_p.bind(s, floor_p.bind(s))
    above = gt_p.bind(s, like(s, 1.0))
    at_pole = (q <= 0.0) & eq_p.bind(q, floor_p.bind(q))
    below = above & lt_p.bind(q, like(q, 0.0)) & ~at_pole & whole
    good = above & gt_p.bind(q, like(q, 0.0))
    s1 = _where(good | below, s, 2.0)
    start, head = _where(below, q, 1.0), s * 0.0

    def going(state: Any) -> Any:
        left = lt_p.bind(state[0], like(state[0], 0.0))
        return left if not shape_of(left) else reduce_or_p.bind(left, axes=tuple(range(len(shape_of(left)))))

    def step(state: Any) -> Any:
        at, total = state
        left = lt_p.bind(at, like(at, 0.0))
        return _where(left, at + 1.0, at), _where(left, total + pow_p.bind(at, neg_p.bind(s1)), total)

    at, head = while_loop(going, step, (start, head))
    q1 = _where(good, q, at)
    total = head
    for k in range(10):
        total = total + pow_p.bind(q1 + float(k), neg_p.bind(s1))
    a = q1 + 10.0
    power = pow_p.bind(a, neg_p.bind(s1))
    total = total + power * a / (s1 - 1.0) + power * 0.5
    factor = s1 * power / a
    for k, b in enumerate(BERNOULLI[:6], 1):
        total = total + factor * (b / math.factorial(2 * k))
        factor = factor * (s1 + float(2 * k - 1)) * (s1 + float(2 * k)) / (a * a)
    total = _where(eq_p.bind(q1, like(q1, math.inf)), 0.0, total)
    infinite = eq_p.bind(s, like(s, 1.0)) | (above & at_pole)
    return _where(good | below, total, _where(infinite, spread(like(s, math.inf), shape_of(s)), math.nan))


def _polygamma(m: Any, x: Any) -> Any:
    """(-1)^(m+1) m! zeta(m + 1, x) (DLMF 5.15.1, 25.11.12); digamma for m = 0, NaN for m not a whole number >= 0."""
    half = m * 0.5
    odd = ne_p.bind(half, floor_p.bind(half))
    size = exp_p.bind(lgamma_p.bind(m + 1.0)) * _zeta(m + 1.0, x)
    out = _where(eq_p.bind(m, like(m, 0.0)), _digamma(x), _where(odd, size, neg_p.bind(size)))
    whole = (m >= 0.0) & eq_p.bind(m, ceil_p.bind(m))
    return _where(whole, out, math.nan)


EXPANSIONS: dict[Primitive, Callable[..., Any]] = {
    reduce_window_sum_p: _window(add_p, lambda dtype: 0), reduce_window_max_p: _window(max_p, lowest),
    reduce_window_min_p: _window(min_p, highest), select_and_scatter_add_p: _select_and_scatter_add,
    conv_general_dilated_p: _conv, digamma_p: _in_float32(_digamma), zeta_p: _in_float32(_zeta),
    polygamma_p: _in_float32(_polygamma),
}  # fmt: skip
