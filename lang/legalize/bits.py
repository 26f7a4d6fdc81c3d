"""Bit counts, rounding to fewer bits, and neighbouring floats, by arithmetic of integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ...core.ir.array import Array
from ...core.ir.primitive import Primitive
from ...core.primitives.elementwise import arithmetic as ew
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise.bitwise import or_p
from ...core.primitives.elementwise.comparison import eq_p, ne_p, select_n_p
from ...core.primitives.elementwise.conversion import bitcast_convert_type_p, convert_element_type, reduce_precision_p
from ...core.tracing.trace import shape_of
from ...core.transforms.rule_helpers import like
from ...core.transforms.structural_primitives import spread
from ..ops.machine_integers import bits_down_p
from .floats import dtype_of, where, wide


def _shifted(x: Array, by: int) -> Any:
    return bits_down_p.bind(x, like(x, by))


def _population_count(x: Array) -> Any:
    """Counts of 1, 2, 4, ... bits side by side, added in pairs."""
    bits, width = bitwise.bits_of(dtype_of(x)), 1
    while width < bits:
        pattern = sum(((1 << width) - 1) << at for at in range(0, bits, 2 * width))
        mask = spread(np.array(pattern, f"uint{bits}").view(f"int{bits}").astype(dtype_of(x))[()], shape_of(x))
        x = (x & mask) + (_shifted(x, width) & mask)
        width *= 2
    return x


def _leading_zeros(x: Array) -> Any:
    """The zeros among the bits, after the highest one has been copied to all below it."""
    reach = 1
    while reach < bitwise.bits_of(dtype_of(x)):
        x = x | _shifted(x, reach)
        reach *= 2
    return _population_count(~x)


def _reduce_precision(x: Array, *, exponent_bits: int, mantissa_bits: int) -> Any:
    """Rounding to nearest even in the integers: half a unit is added and the bits below are cleared."""
    dtype, x = dtype_of(x), wide(x)
    size, (mantissa, bias) = bitwise.bits_of(dtype_of(x)), (23, 127) if dtype_of(x).itemsize == 4 else (52, 1023)
    integer = np.dtype(f"int{size}")
    n, drop = bitcast_convert_type_p.bind(x, new_dtype=integer), mantissa - mantissa_bits
    sign = n & like(n, np.iinfo(integer).min)
    if drop > 0:
        odd = _shifted(n, drop) & like(n, 1)
        n = (n + (odd + like(n, (1 << (drop - 1)) - 1))) & like(n, -(1 << drop))

    def number(bits: Array) -> Any:
        return bitcast_convert_type_p.bind(bits, new_dtype=dtype_of(x))

    found, top = number(n), 2 ** (exponent_bits - 1) - 1
    if top < bias:
        size, infinity = ew.abs_p.bind(found), np.array(math.inf, dtype_of(x)).view(integer)[()]
        found = where(size >= 2.0 ** (top + 1), number(sign | like(n, infinity)), found)
        found = where(size < 2.0 ** (1 - top), number(sign), found)
    return convert_element_type(where(ew.abs_p.bind(x) < math.inf, found, x), dtype)


_DROPPED = {"float16": 13, "bfloat16": 16, "float8_e4m3fn": 20, "float8_e5m2": 21}  # bits of a float32's mantissa


def _nextafter(x: Array, y: Array) -> Any:
    """The neighbour of `x` towards `y`: neighbours of float32 are 1 apart as integers, of narrower floats more.

    Where float32 has more exponents, its steps near 0 are too small, and there is a largest number before infinity.
    """
    dtype, x, y = dtype_of(x), wide(x), wide(y)
    shape = np.broadcast_shapes(shape_of(x), shape_of(y))
    x, y = spread(x, shape), spread(y, shape)
    integer = np.dtype(f"int{8 * dtype_of(x).itemsize}")
    unit = np.asarray(1 << _DROPPED.get(str(dtype), 0), integer)
    bits = bitcast_convert_type_p.bind(x, new_dtype=integer)
    away = (y > x) == (x > 0.0)
    step = select_n_p.bind(away, spread((-unit)[()], shape), spread(unit[()], shape))
    moved = bitcast_convert_type_p.bind(bits + step, new_dtype=dtype_of(x))
    limits = ml_dtypes.finfo(dtype)
    if limits.minexp > ml_dtypes.finfo(np.float32).minexp:
        least, size = float(limits.smallest_subnormal), ew.abs_p.bind(x)
        moved = where(size <= float(limits.tiny), x + where(y > x, least, -least), moved)
        moved = where(size == math.inf, ew.sign_p.bind(x) * float(limits.max), moved)
    else:
        smallest = spread(unit.view(dtype_of(x))[()], shape)
        moved = where(x == 0.0, where(y > 0.0, smallest, -smallest), moved)
    found = where(eq_p.bind(x, y), y, moved)
    return convert_element_type(where(or_p.bind(ne_p.bind(x, x), ne_p.bind(y, y)), math.nan, found), dtype)


REWRITES: dict[Primitive, Callable[..., Any]] = {
    bitwise.population_count_p: _population_count, bitwise.clz_p: _leading_zeros, reduce_precision_p: _reduce_precision,
    ew.nextafter_p: _nextafter,
}  # fmt: skip
