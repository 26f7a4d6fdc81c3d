"""Densities made of powers: by logarithms, but where a base is 0, at which a power itself has the right derivatives."""

from __future__ import annotations

import math
from typing import Any

from ... import lax
from ...core.primitives.custom import custom_jvp
from ...numpy.elementwise import where3
from .. import special


@custom_jvp
def _power(x: Any, power: Any) -> Any:
    return lax.pow(x, power)


def _power_by_base(t: Any, out: Any, x: Any, power: Any) -> Any:
    constant = lax.eq(power, 0)
    return t * where3(constant, 0.0, power * _power(x, where3(constant, 1.0, power - 1)))


def _power_by_power(t: Any, out: Any, x: Any, power: Any) -> Any:
    none = lax.eq(out, 0)
    return t * where3(none, 0.0, out * lax.log(where3(none, 1.0, x)))


_power.defjvps(_power_by_base, _power_by_power)


def split_power(x: Any, power: Any, of_rest: bool = False) -> tuple[Any, Any]:
    """`x ** power`, or `(1 - x) ** power`, as a logarithm, which is 0 for a base of 0, and a factor, 1 elsewhere."""
    end = lax.eq(x, int(of_rest))
    base = 1 - x if of_rest else x
    log = special.xlog1py(power, where3(end, 0.0, -x)) if of_rest else special.xlogy(power, where3(end, 1.0, x))
    return log, _power(where3(end, base, 1.0), power)


def with_powers(log_rest: Any, *powers: tuple[Any, Any], of_rest: tuple[Any, Any] | None = None) -> Any:
    """`exp(log_rest)` times `x ** power` for each pair `(x, power)`, and `(1 - x) ** power` for the pair `of_rest`."""
    parts = [split_power(*pair) for pair in powers]
    if of_rest is not None:
        parts.append(split_power(*of_rest, of_rest=True))
    logs, factors = zip(*parts, strict=True)
    return math.prod(factors, start=lax.exp(sum(logs, log_rest)))
