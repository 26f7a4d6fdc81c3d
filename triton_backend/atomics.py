"""Atomic operations on tensors of pointers.

Triton has them on 32 and 64 bit integers, and additions of floats. Extrema of floats are those of their bits: signed
ones for what is not negative, unsigned ones (reversed) for the rest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.ir.types import BOOL, INT64, is_float, is_unsigned
from ..core.support.errors import UnsupportedError
from ..lang.gpu.normalize import GPU_LIMITS
from ..lang.ops.atomics import Sync
from .builders import bitcast, both, compare, lanes, regroup, relabel, select, spread, take
from .text import Printer, Value, power, spell, stored

STRICT: Sync = ("acq_rel", "gpu")
_INTEGER = {"add": "add", "and": "and", "or": "or", "xor": "xor", "xchg": "exch"}


def _narrow(kind: str, dtype: np.dtype[Any]) -> UnsupportedError:
    return UnsupportedError(
        f"atomic_{kind} of {dtype}: a GPU's atomic operations are on 32 or 64 bits (additions also on float16)",
        "keep the Ref in int32, uint32 or float32, and convert after the kernel")  # fmt: skip


def _rmw(p: Printer, name: str, pointers: Value, value: Value, mask: Value | None, sync: Sync) -> Value:
    order, scope = sync
    mask = p.constant(True, BOOL) if mask is None else mask
    mask = spread(p, mask, pointers.shape)
    operands = f"{pointers.name}, {value.name}, {mask.name}"
    types = f"({pointers.type}, {value.type}, {mask.type}) -> {value.type}"
    return p.op(f"tt.atomic_rmw {name}, {order}, {scope}, {operands} : {types}", value.shape, value.dtype)


def _cast(p: Printer, pointers: Value, dtype: np.dtype[Any]) -> Value:
    out = spell(pointers.shape, dtype, True)
    return p.op(f"tt.bitcast {pointers.name} : {pointers.type} -> {out}", pointers.shape, dtype, True)


def atomic_rmw(p: Printer, kind: str, pointers: Value, value: Value, mask: Value | None, sync: Sync) -> Value:
    """Combine memory with a value; gives what was there before. `sync`: the order and the scope."""
    dtype = value.dtype
    if kind == "add" and is_float(dtype):
        if not GPU_LIMITS.adds(dtype):
            raise _narrow(kind, dtype)
        return _rmw(p, "fadd", pointers, value, mask, sync)
    if dtype.itemsize < 4:
        raise _narrow(kind, dtype)
    if kind in ("max", "min"):
        if is_float(dtype):
            return _float_extremum(p, kind, pointers, value, mask, sync)
        return _rmw(p, f"u{kind}" if is_unsigned(dtype) else kind, pointers, value, mask, sync)
    if is_float(dtype):
        bits = np.dtype(f"int{8 * dtype.itemsize}")
        found = _rmw(p, _INTEGER[kind], _cast(p, pointers, bits), bitcast(p, value, bits), mask, sync)
        return bitcast(p, found, dtype)
    return _rmw(p, _INTEGER[kind], pointers, value, mask, sync)


def _float_extremum(p: Printer, kind: str, pointers: Value, value: Value, mask: Value | None, sync: Sync) -> Value:
    bits = np.dtype(f"int{8 * value.dtype.itemsize}")
    pointers, number = _cast(p, pointers, bits), bitcast(p, value, bits)
    negative = compare(p, "lt", number, p.constant(0, bits))
    positive = p.same("arith.xori", negative, spread(p, p.constant(True, BOOL), negative.shape))
    other = "min" if kind == "max" else "max"
    above = _rmw(p, kind, pointers, number, both(p, mask, positive), sync)
    below = _rmw(p, f"u{other}", pointers, number, both(p, mask, negative), sync)
    return bitcast(p, select(p, negative, below, above), value.dtype)


def atomic_cas(
    p: Printer, pointers: Value, expected: Value, value: Value, mask: Value | None, sync: Sync = STRICT
) -> Value:
    """Store a value where memory holds `expected`; gives what was there (0 where masked out).

    Triton's operation has no mask: where there is one, elements are exchanged one by one.
    """
    if value.dtype.itemsize < 4:
        raise _narrow("cas", value.dtype)
    if mask is None:
        return _cas(p, pointers, spread(p, expected, pointers.shape), spread(p, value, pointers.shape), sync)
    shape = tuple(map(power, pointers.shape))
    count = math.prod(shape)
    address = p.op(f"tt.ptr_to_int {pointers.name} : {pointers.type} -> {spell(pointers.shape, INT64)}",
                   pointers.shape, INT64)  # fmt: skip
    parts = [regroup(p, spread(p, x, shape), (count,)) for x in (relabel(address, shape), expected, value, mask)]

    def body(i: Value, found: Value) -> list[Value]:
        where, old, new, live = (take(p, x, (), [i]) for x in parts)
        at = p.op(f"tt.int_to_ptr {where.name} : i64 -> !tt.ptr<{stored(value.dtype)}>", (), value.dtype, True)
        zero = p.constant(0, value.dtype)
        (one,) = p.branch(live, lambda: [_cas(p, at, old, new, sync)], lambda: [zero])
        here = compare(p, "eq", lanes(p, count, 0, 1), i)
        return [select(p, here, one, found)]

    (found,) = p.loop(count, [p.constant(0, value.dtype, (count,))], body)
    return relabel(regroup(p, found, shape), pointers.shape)


def _cas(p: Printer, pointers: Value, expected: Value, value: Value, sync: Sync) -> Value:
    types = f"({pointers.type}, {expected.type}, {value.type}) -> {value.type}"
    operands = f"{pointers.name}, {expected.name}, {value.name}"
    return p.op(f"tt.atomic_cas {', '.join(sync)}, {operands} : {types}", value.shape, value.dtype)
