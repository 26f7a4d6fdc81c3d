"""What a family of distributions has: its functions, made of closed forms of the standard variable.

A distribution is a module that names its parameters, their domain and the support, and gives each function's form for
`y = (x - loc) / scale` inside of the support. What holds for all is here: promotion, values outside of the support,
NaN for parameters outside of their domain, and derivatives that are finite there.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from ... import lax
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...numpy.elementwise import where3
from ...numpy.util import Array, as_weak_as, inline_jit, promote_inexact, strong, weak_of_numbers

INF = math.inf
Form = Callable[..., Any]


@dataclass(frozen=True)
class Kind:
    """A function that distributions have: its argument's name, and its values below and above the support."""

    text: str
    below: float
    above: float
    density: bool = False
    exp: bool = False  # the form is its logarithm
    variable: str = "x"


_KINDS = {
    "logpdf": Kind("The logarithm of the density.", -INF, -INF, density=True),
    "pdf": Kind("The density.", -INF, -INF, density=True, exp=True),
    "logpmf": Kind("The logarithm of the probability of a whole number.", -INF, -INF, density=True, variable="k"),
    "pmf": Kind("The probability of a whole number.", -INF, -INF, density=True, exp=True, variable="k"),
    "cdf": Kind("The probability of a value up to the given one.", 0.0, 1.0),
    "logcdf": Kind("The logarithm of `cdf`.", -INF, 0.0),
    "sf": Kind("The probability of a value above the given one.", 1.0, 0.0),
    "logsf": Kind("The logarithm of `sf`.", 0.0, -INF),
}
_INVERSES = {
    "ppf": "The value below which a share of the probability lies.",
    "isf": "The value above which a share of the probability lies.",
}

# A function of so many arguments; they get their names from the family.
_CALLS: dict[int, Callable[[Any], Any]] = {
    2: lambda run: lambda a, b: run(a, b),
    3: lambda run: lambda a, b, c: run(a, b, c),
    4: lambda run: lambda a, b, c, d: run(a, b, c, d),
    5: lambda run: lambda a, b, c, d, e: run(a, b, c, d, e),
}


@dataclass(frozen=True)
class Family:
    """A family of distributions. `parameters`: the names of those that give its shape; `valid`: their domain, in which
    `legal` lie, which stand for parameters that do not.

    The support is closed; `inside` is a point of it at which every form and its derivatives are finite. `moves`: there
    are `loc` and `scale`, or for whole numbers `loc` alone. `tails` says whether the logarithm of the density has a
    derivative at infinity that is not 0 ("light") or has not ("heavy"); "none" is a circle's.
    """

    module: str
    parameters: str = ""
    valid: Form | None = None
    legal: tuple[float, ...] = ()
    support: tuple[float, float] | Callable[..., tuple[Any, Any]] = (-INF, INF)
    inside: float | Form = 0.0
    moves: bool = True
    whole: bool = False
    weak: str = ""  # the functions whose results are weak of weakly typed arrays, as JAX's are; of numbers all are
    strong: str = ""  # but these
    tails: str = "light"

    def function(
        self, name: str, form: Form, variable: str = "", moves: bool | None = None, powers: bool = False
    ) -> Callable[..., Array]:
        """A function of the family; with another name for its argument, or without `loc`, where JAX has it so.

        `powers`: the form is the density itself, made by `with_powers`, and not its logarithm.
        """
        inverse = name in _INVERSES
        kind: Any = _KINDS.get(name)  # None of inverses
        if powers:
            kind = replace(_KINDS[name], exp=False, below=0.0, above=0.0)
        moves = self.moves if moves is None else moves
        places = (("loc",) if self.whole else ("loc", "scale")) if moves else ()
        first = variable or ("q" if inverse else "k" if self.whole else kind.variable)
        names = (first, *self.parameters.split(), *places)

        def run(*args: Any) -> Array:
            found = strong(self._inverse(form, args) if inverse else self._value(kind, form, args))
            if name in self.strong.split():
                return found
            return as_weak_as(found, *args) if name in self.weak.split() else weak_of_numbers(found, *args)

        template = _CALLS[len(names)](run)
        code = template.__code__.replace(co_varnames=names, co_name=name, co_qualname=name)
        space = sys.modules[self.module].__dict__
        made = FunctionType(code, space, name, (0, 1)[: len(places)], template.__closure__)
        function = inline_jit()(made)
        function.__doc__ = _INVERSES[name] if inverse else kind.text
        return function

    def _split(self, args: Any) -> tuple[Any, list[Any], Any, Any, Any]:
        """The argument, the shape's parameters, `loc` and `scale` (or None), and where the parameters are valid.

        Parameters that are not are replaced by those that are, so that no derivative is NaN.
        """
        x, *rest = promote_inexact(*args)
        count = len(self.parameters.split())
        shapes, (loc, scale) = rest[:count], (*rest[count:], None, None)[:2]
        valid = None
        if self.valid is not None:
            valid = self.valid(*shapes)
            shapes = [where3(valid, given, other) for given, other in zip(shapes, self.legal, strict=True)]
        if scale is not None:
            positive = lax.gt(scale, 0)
            valid = positive if valid is None else both(valid, positive)
            scale = where3(positive, scale, 1.0)
        return x, shapes, loc, scale, valid

    def _value(self, kind: Kind, form: Form, args: Any) -> Array:
        x, shapes, loc, scale, valid = self._split(args)
        inside = self.inside(*shapes) if callable(self.inside) else self.inside
        y, ends = x, self._constant_ends(kind, x)
        for at, _ in ends:
            y = where3(at, 0.0, y)
        y = y if loc is None else y - loc
        y = y if scale is None else y / scale
        ends = [(both(at, lax.eq(y, y)), limit) for at, limit in ends]  # NaN stays NaN
        for at, _ in ends:
            y = where3(at, inside, y)
        y = y if valid is None else where3(valid, y, inside)
        by_scale = kind.density and scale is not None
        width: Any = scale
        scaled = (lambda *args: form(*args) - lax.log(width)) if by_scale and kind.below else form
        out = self._on_support(kind, scaled, y, shapes, inside)
        out = out / width if by_scale and not kind.below else out
        out = lax.exp(out) if kind.exp else out
        for at, limit in ends:
            out = where3(at, limit, out)
        return out if valid is None else where3(valid, out, math.nan)

    def _constant_ends(self, kind: Kind, x: Array) -> list[tuple[Any, float]]:
        """Where the argument is an infinity at which all derivatives are 0, and the value there."""
        ends = [] if self.tails == "none" else [(-INF, kind.below), (INF, kind.above)]
        values = [(end, math.exp(v) if kind.exp else v) for end, v in ends]
        return [(lax.eq(x, end), v) for end, v in values if math.isfinite(v) or self.tails == "heavy"]

    def _on_support(self, kind: Kind, form: Form, y: Array, shapes: list[Any], inside: Any) -> Array:
        """The form inside of the support, a constant on each side of it, NaN for NaN."""
        low, high = self.support(*shapes) if callable(self.support) else self.support
        if self.whole and not kind.density:
            y = lax.floor(y)
        tests = []
        if not (isinstance(low, float) and low == -INF):
            tests.append(y >= low)
        if not (isinstance(high, float) and high == INF):
            tests.append(y <= high)
        if self.whole:
            tests.append(lax.eq(y, lax.floor(y)))
        if not tests:
            return form(y, *shapes)
        within = both(*tests)
        safe = where3(within, y, inside)
        outside = where3(y <= low, kind.below, where3(lax.eq(y, y), kind.above, math.nan))
        return where3(within, form(safe, *shapes), outside)

    def _inverse(self, form: Form, args: Any) -> Array:
        q, shapes, loc, scale, valid = self._split(args)
        legal = both(lax.ge(q, 0), lax.le(q, 1), *([] if valid is None else [valid]))
        out = form(where3(legal, abs(q), 0.5), *shapes)  # -0 is 0
        out = out if scale is None else out * scale
        out = out if loc is None else out + loc
        return where3(legal, out, math.nan)


def both(*conditions: Any) -> Any:
    """Where all of some conditions hold, scalars beside arrays."""
    first, *rest = conditions
    for other in rest:
        first = first & other
    return first


def positive(*parameters: Any) -> Any:
    """Where all of some parameters are above 0."""
    return both(*[lax.gt(p, 0) for p in parameters])


@custom_jvp
def _log_gap(x: Array) -> Any:
    return lax.log(-lax.expm1(x))


_log_gap.defjvps(lambda t, out, x: -t / abs(lax.expm1(-x)))  # at 0 of either sign that from below


def log1mexp(x: Array) -> Any:
    """`log(1 - exp(x))` for `x` up to 0, exact near both ends."""
    near = lax.gt(x, -math.log(2))
    return where3(
        near,
        _log_gap(where3(near, x, -1.0)),
        lax.log1p(-lax.exp(where3(near, -1.0, x))),
    )
