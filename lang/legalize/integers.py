"""Powers by whole numbers: one square for each bit of the exponent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ...core.ir import Eqn
from ...core.linear import spread
from ...core.primitive import Primitive
from ...core.primitives.compare import and_p, eq_p, lt_p, ne_p, select_n_p, shift_right_logical_p
from ...core.primitives.convert import convert_element_type
from ...core.primitives.elementwise import div_p, integer_pow_p, mul_p, neg_p, pow_p
from ...core.primitives.scan import bind_scan
from ...core.rules import like
from ...core.trace import shape_of, trace_program, typeof
from ...core.types import is_integer, is_unsigned
from .floats import wide


def is_whole_power(eqn: Eqn) -> bool:
    """Whether an equation is a power of integers, which no target has."""
    return eqn.primitive is pow_p and is_integer(eqn.outputs[0].type.dtype)


def _integer_pow(x: Any, *, y: int) -> Any:
    base, n, result = wide(x), abs(y), None
    one = like(base, 1)
    while n:
        if n & 1:
            result = base if result is None else mul_p.bind(result, base)
        n >>= 1
        base = mul_p.bind(base, base) if n else base
    found = spread(one, shape_of(x)) if result is None else div_p.bind(one, result) if y < 0 else result
    return convert_element_type(found, typeof(x).dtype)


def _pow(x: Any, y: Any) -> Any:
    """Integers to the power of integers; a negative power is cut towards 0."""
    shape = np.broadcast_shapes(shape_of(x), shape_of(y))
    x, y = spread(x, shape), spread(y, shape)
    one, zero, nothing = like(x, 1), like(x, 0), like(y, 0)

    def odd(n: Any) -> Any:
        return ne_p.bind(and_p.bind(n, like(n, 1)), nothing)

    def step(result: Any, base: Any, left: Any) -> list[Any]:
        result = select_n_p.bind(odd(left), result, mul_p.bind(result, base))
        return [result, mul_p.bind(base, base), shift_right_logical_p.bind(left, like(left, 1))]

    state = [spread(one, shape), x, y]
    program = trace_program(step, [typeof(v) for v in state], "power")
    bits = ml_dtypes.iinfo(typeof(y).dtype).bits
    result = bind_scan(program, [], state, [], length=bits, reverse=False, unroll=1)[0]
    if is_unsigned(typeof(y).dtype):
        return result
    minus = neg_p.bind(one)
    small = select_n_p.bind(eq_p.bind(x, minus), zero, select_n_p.bind(odd(y), one, minus))
    small = select_n_p.bind(eq_p.bind(x, one), small, one)
    return select_n_p.bind(lt_p.bind(y, nothing), result, small)


REWRITES: dict[Primitive, Callable[..., Any]] = {integer_pow_p: _integer_pow, pow_p: _pow}
