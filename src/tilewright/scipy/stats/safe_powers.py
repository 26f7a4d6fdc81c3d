"""Densities made of powers: by logarithms, but where a base is 0, at which a power itself has the right derivatives."""

from __future__ import annotations

from typing import Any

from ... import lax
from ...core.ir.array import Array
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...numpy.elementwise import where3
from .. import special
from .family import both


@custom_jvp
def _power(x: Array, power: Any) -> Any:
    return lax.pow(x, power)


def _power_by_base(t: Any, out: Any, x: Any, power: Array) -> Any:
    constant = lax.eq(power, 0)
    return t * where3(constant, 0.0, power * _power(x, where3(constant, 1.0, power - 1)))


def _power_by_power(t: Any, out: Array, x: Any, power: Any) -> Any:
    none = lax.eq(out, 0)
    return t * where3(none, 0.0, out * lax.log(where3(none, 1.0, x)))


_power.defjvps(_power_by_base, _power_by_power)


def split_power(x: Any, power: Any) -> tuple[Any, Any]:
    """`x ** power` as a logarithm, which is 0 for a base of 0, and a factor, which is 1 elsewhere."""
    end = lax.eq(x, 0)
    return special.xlogy(power, where3(end, 1.0, x)), _power(where3(end, x, 1.0), power)


def with_powers(log_rest: Any, x: Any, power: Any = None, of_rest: Any = None) -> Any:
    """`exp(log_rest)` times `x ** power` and `(1 - x) ** of_rest`, where these are given.

    At an end the power of 0 is a factor; where it is steep the other factors have no part in the derivative.
    """
    ends = [(lax.eq(x, 0), x, power)] if power is not None else []
    ends += [(lax.eq(x, 1), 1 - x, of_rest)] if of_rest is not None else []

    def rest(x: Array) -> Any:
        log = log_rest
        if power is not None:
            log = log + special.xlogy(power, where3(lax.eq(x, 0), 1.0, x))
        if of_rest is not None:
            log = log + special.xlog1py(of_rest, where3(lax.eq(x, 1), 0.0, -x))
        return lax.exp(log)

    out, fixed = rest(x), rest(lax.stop_gradient(x))
    steep = [both(here, lax.lt(p, 1), lax.ne(p, 0)) for here, _, p in ends]
    for (here, base, p), is_steep in zip(ends, steep, strict=True):
        out = out * _power(where3(both(here, lax.bitwise_not(is_steep)), base, 1.0), p)
    for (_, base, p), is_steep in zip(ends, steep, strict=True):
        out = where3(is_steep, fixed * _power(where3(is_steep, base, 1.0), p), out)
    return out
