"""Integers where hardware does not say: division by 0 and of the least by -1, shifts by the width and more, powers.

A divisor or amount that is known to be inside needs no care. A power is one square for each bit of the exponent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...core.ir.array import Array
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Literal, Program, Var
from ...core.ir.types import is_integer, is_unsigned
from ...core.primitives.control_flow.scan import bind_scan
from ...core.primitives.elementwise import bitwise
from ...core.primitives.elementwise import comparison as cmp
from ...core.primitives.elementwise.arithmetic import div_p, integer_pow_p, mul_p, neg_p, pow_p, rem_p, sub_p
from ...core.primitives.elementwise.conversion import bitcast_convert_type_p, convert_element_type
from ...core.primitives.movement.shape import broadcast_in_dim_p
from ...core.tracing.trace import shape_of, trace_program, typeof
from ...core.transforms.rule_helpers import like
from ...core.transforms.structural_primitives import spread
from ..ops.machine_integers import bits_down_p, bits_up_p, quotient_p, remainder_p, sign_down_p
from .floats import wide

Rewrite = Callable[..., Any]


def known(program: Program) -> dict[Var, Any]:
    """The variables of a Program that are one known number."""
    return {
        e.outputs[0]: e.inputs[0].value for e in program.eqns
        if e.primitive is broadcast_in_dim_p and type(e.inputs[0]) is Literal
    }  # fmt: skip


def _filled(x: Array, value: int) -> Any:
    """The number in every element of something like `x`."""
    return spread(np.asarray(value).astype(typeof(x).dtype)[()], shape_of(x))


def _of_one_shape(x: Array, y: Array) -> tuple[Any, Any]:
    shape = np.broadcast_shapes(shape_of(x), shape_of(y))
    return spread(x, shape), spread(y, shape)


def _division(machine: Primitive, inside: bool) -> Rewrite:
    """By 0 a quotient has all bits set and the rest is the dividend; the least integer by -1 wraps."""

    def rewrite(x: Array, y: Array) -> Any:
        x, y = _of_one_shape(x, y)
        if inside:
            return machine.bind(x, y)
        signed, quotient = not is_unsigned(typeof(y).dtype), machine is quotient_p
        zero, one = cmp.eq_p.bind(y, _filled(y, 0)), _filled(y, 1)
        safe = cmp.select_n_p.bind(zero, y, one)
        minus = cmp.eq_p.bind(y, _filled(y, -1)) if signed else None
        safe = safe if minus is None else cmp.select_n_p.bind(minus, safe, one)
        found = machine.bind(x, safe)
        if quotient and minus is not None:
            found = cmp.select_n_p.bind(minus, found, sub_p.bind(_filled(x, 0), x))
        return cmp.select_n_p.bind(zero, found, _filled(x, -1) if quotient else x)

    return rewrite


def _shift(machine: Primitive, inside: bool) -> Rewrite:
    """From the number of bits on nothing is left, or the sign."""

    def rewrite(x: Array, y: Array) -> Any:
        x, y = _of_one_shape(x, y)
        if inside:
            return machine.bind(x, y)
        bits = bitwise.bits_of(typeof(x).dtype)
        fits = cmp.lt_p.bind(y, _filled(y, bits))
        if not is_unsigned(typeof(y).dtype):
            fits = bitwise.and_p.bind(fits, cmp.ge_p.bind(y, _filled(y, 0)))
        found = machine.bind(x, cmp.select_n_p.bind(fits, _filled(y, bits - 1), y))
        return found if machine is sign_down_p else cmp.select_n_p.bind(fits, _filled(x, 0), found)

    return rewrite


def total(eqn: Eqn, numbers: Mapping[Var, Any]) -> Rewrite | None:
    """What an operation of integers is rewritten by that is defined where hardware's is not; None for any other."""
    if eqn.primitive not in TOTAL or not is_integer(eqn.outputs[0].type.dtype):
        return None
    if eqn.primitive is pow_p:
        return _pow
    second: Any = eqn.inputs[1]
    number = second.value if type(second) is Literal else numbers.get(second)
    dtype = eqn.inputs[0].type.dtype
    if eqn.primitive in (div_p, rem_p):
        machine = quotient_p if eqn.primitive is div_p else remainder_p
        return _division(machine, number is not None and int(number) not in (0, -1))
    machine = _SHIFTS[eqn.primitive]
    shift = _shift(machine, number is not None and 0 <= int(number) < bitwise.bits_of(dtype))
    return _signed(shift, dtype) if machine is sign_down_p and is_unsigned(dtype) else shift


def _signed(shift: Rewrite, dtype: np.dtype[Any]) -> Rewrite:
    """A shift of unsigned integers whose highest bit is the sign."""

    def rewrite(x: Array, y: Array) -> Any:
        signed = np.dtype(f"int{bitwise.bits_of(dtype)}")
        x, y = (bitcast_convert_type_p.bind(a, new_dtype=signed) for a in _of_one_shape(x, y))
        return bitcast_convert_type_p.bind(shift(x, y), new_dtype=dtype)

    return rewrite


_SHIFTS = {
    bitwise.shift_left_p: bits_up_p, bitwise.shift_right_logical_p: bits_down_p,
    bitwise.shift_right_arithmetic_p: sign_down_p,
}  # fmt: skip
TOTAL = frozenset({div_p, rem_p, pow_p, *_SHIFTS})


def _integer_pow(x: Array, *, y: int) -> Any:
    base, n, result = wide(x), abs(y), None
    one = like(base, 1)
    while n:
        if n & 1:
            result = base if result is None else mul_p.bind(result, base)
        n >>= 1
        base = mul_p.bind(base, base) if n else base
    found = spread(one, shape_of(x)) if result is None else div_p.bind(one, result) if y < 0 else result
    return convert_element_type(found, typeof(x).dtype)


def _pow(x: Array, y: Array) -> Any:
    """Integers to the power of integers; a negative power is cut towards 0."""
    x, y = _of_one_shape(x, y)
    one, zero, nothing = like(x, 1), like(x, 0), like(y, 0)

    def odd(n: Array) -> Any:
        return cmp.ne_p.bind(bitwise.and_p.bind(n, like(n, 1)), nothing)

    def step(result: Array, base: Array, left: Array) -> list[Any]:
        result = cmp.select_n_p.bind(odd(left), result, mul_p.bind(result, base))
        return [result, mul_p.bind(base, base), bitwise.shift_right_logical_p.bind(left, like(left, 1))]

    state = [spread(one, shape_of(x)), x, y]
    program = trace_program(step, [typeof(v) for v in state], "power")
    result = bind_scan(program, [], state, [], length=bitwise.bits_of(typeof(y).dtype), reverse=False, unroll=1)[0]
    if is_unsigned(typeof(y).dtype):
        return result
    minus = neg_p.bind(one)
    small = cmp.select_n_p.bind(cmp.eq_p.bind(x, minus), zero, cmp.select_n_p.bind(odd(y), one, minus))
    small = cmp.select_n_p.bind(cmp.eq_p.bind(x, one), small, one)
    return cmp.select_n_p.bind(cmp.lt_p.bind(y, nothing), result, small)


REWRITES: dict[Primitive, Rewrite] = {integer_pow_p: _integer_pow}
REWRITES |= {p: _shift(machine, False) for p, machine in _SHIFTS.items()}
