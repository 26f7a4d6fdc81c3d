"""Taylor mode: a trace whose values are truncated power series.

A value x(t) = x_0 + x_1 t + ... + x_K t^K is a primal x_0 and its terms x_1 .. x_K, all of one type; None stands for
terms that are all zero. Rules are in `core/jet/rules.py`. A. Griewank and A. Walther, "Evaluating Derivatives", 2nd
edition, chapter 13.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.array import Array, ArrayLike
from ..ir.binding import CustomCall, Trace, current_trace, under
from ..ir.primitive import Primitive
from ..ir.types import is_inexact
from ..primitives.elementwise.arithmetic import div_p, mul_p
from ..primitives.elementwise.conversion import convert_element_type
from ..support import pytree
from ..support.errors import ArgumentError, ArgumentTypeError, DifferentiationError, ShapeError
from ..tracing.trace import Tracer, typeof
from ..transforms.rule_helpers import like
from .rules import RULES, Series, zero_terms


class JetTracer(Tracer):
    """The primal of a power series, with its terms."""

    __slots__ = ("primal", "terms")
    primal: Any
    terms: Series

    def __init__(self, trace: JetTrace, primal: Array, terms: Series):
        self._trace, self.primal, self.terms = trace, primal, terms

    @property
    def aval(self) -> Any:
        return typeof(self.primal)

    def concrete(self) -> Any:
        return self.primal.concrete() if isinstance(self.primal, Tracer) else self.primal

    @property
    def differentiated(self) -> bool:
        return is_inexact(self.aval.dtype)

    def describe(self) -> str:
        return f"a differentiated value of type {self.aval.show()}"


class JetTrace(Trace):
    """Applies the rules of power series; what has no terms of this trace passes to the parent."""

    __slots__ = ("order",)

    def __init__(self, parent: Trace, order: int):
        super().__init__(parent)
        self.order: int = order

    def split(self, args: Sequence[Any]) -> tuple[list[Any], list[Series]]:
        mine = [isinstance(a, JetTracer) and a._trace is self for a in args]
        return ([a.primal if m else a for a, m in zip(args, mine, strict=True)],
                [a.terms if m else None for a, m in zip(args, mine, strict=True)])  # fmt: skip

    def wrap(self, primal: ArrayLike, terms: Series) -> Any:
        return primal if terms is None else JetTracer(self, primal, terms)

    def bind(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        parent = self.parent
        assert parent is not None
        primals, series = self.split(args)
        if all(terms is None for terms in series):
            return under(parent, parent.bind, primitive, primals, params)
        rule = RULES.get(primitive)
        if rule is None and primitive.expand is not None:  # the same in other primitives
            found = under(self, primitive.expand, *args, **params)
            return list(found) if primitive.multiple else found
        if rule is None:
            raise self.missing(primitive)
        outs, terms = under(parent, rule, self, primals, series, **params)
        if not primitive.multiple:
            return self.wrap(outs, terms)
        return [self.wrap(o, t) for o, t in zip(outs, terms, strict=True)]

    def missing(self, primitive: Primitive) -> DifferentiationError:
        return DifferentiationError(
            f"{primitive.name} has no rule for power series",
            "differentiate the function by nested `jvp`, or write it with operations that `jet` knows",
        )

    def flat(
        self, fun: Callable[..., Sequence[Any]], order: int, primals: Sequence[Any], series: Sequence[Series]
    ) -> tuple[list[Any], list[Series]]:
        """`jet_flat`, for rules."""
        return jet_flat(fun, order, primals, series)

    def custom_jvp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        return call.fun(*args)

    def custom_vjp(self, call: CustomCall, args: Sequence[Any]) -> Any:
        return call.fun(*args)


def jet_flat(
    fun: Callable[..., Sequence[Any]], order: int, primals: Sequence[Any], series: Sequence[Series]
) -> tuple[list[Any], list[Series]]:
    """Outputs and their terms (None where none) of a flat function under the current trace."""
    trace = JetTrace(current_trace(), order)
    try:
        outs = under(trace, fun, *map(trace.wrap, primals, series))
    finally:
        trace.done = True
    return trace.split(outs)


def _scaled(terms: Sequence[Any], up: bool) -> list[Any]:
    """Derivatives as coefficients, or back: the k-th of them divided, or multiplied, by k!."""
    primitive = mul_p if up else div_p
    return [primitive.bind(t, like(t, math.factorial(k))) if k > 1 else t for k, t in enumerate(terms, 1)]


def _term(t: Any, x: Array, place: str) -> Any:
    if not pytree.all_leaves([t]):
        raise ArgumentTypeError(f"{place} is a {type(t).__name__}", "pass arrays; call `jet` on a function of them")
    found, wanted = typeof(t), typeof(x)
    if found.shape != wanted.shape:
        raise ShapeError(f"{place} is {found.show()}, its primal {wanted.show()}", "give them equal shapes")
    return convert_element_type(t, wanted.dtype)


def jet(
    fun: Callable[..., Any], primals: Sequence[Any], series: Sequence[Sequence[Any]], factorial_scaled: bool = True,
    **_: Any,
) -> tuple[Any, Any]:  # fmt: skip
    """The value of a function along curves and its derivatives along them, of all orders at once.

    `primals` are arrays, one for each argument, and `series` for each the derivatives of its curve: the first, the
    second, and so on. Gives the outputs, and in place of each the list of its derivatives. With
    `factorial_scaled=False` both are coefficients of power series: the k-th derivative over k!. Raises `ArgumentError`
    where series differ in length, and `DifferentiationError` at an operation without a rule.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.experimental.jet import jet
    >>> y, (dy, ddy) = jet(lambda x: x**3, (2.0,), ((1.0, 0.0),))
    >>> print(y, dy, ddy)
    8.0 12.0 12.0
    """
    primals, series = list(primals), [list(terms) for terms in series]
    if len(primals) != len(series) or not primals:
        raise ArgumentError(f"jet of {len(primals)} primals and {len(series)} series", "one series for each argument")
    orders = {len(terms) for terms in series}
    if len(orders) > 1:
        raise ArgumentError(f"jet of series of lengths {sorted(orders)}", "give each argument as many terms")
    (order,) = orders
    for i, x in enumerate(primals):
        if not pytree.all_leaves([x]):
            raise ArgumentTypeError(f"argument {i} of jet is a {type(x).__name__}",
                                    "pass arrays; call `jet` on a function of them")  # fmt: skip
    primals = [convert_element_type(x, typeof(x).dtype) for x in primals]
    given: list[Series] = []
    for i, (x, terms) in enumerate(zip(primals, series, strict=True)):
        moves = is_inexact(typeof(x).dtype)
        checked = [_term(t, x, f"term {k} of argument {i}") for k, t in enumerate(terms, 1)] if moves else []
        given.append((_scaled(checked, False) if factorial_scaled else checked) if moves else None)
    structure: Any = None

    def flat(*args: Any) -> list[Any]:
        nonlocal structure
        outs, structure = pytree.flatten(fun(*args))
        return outs

    outs, out_series = jet_flat(flat, order, primals, given)
    results = []
    for out, terms in zip(outs, out_series, strict=True):
        terms = zero_terms(out, order) if terms is None else terms
        results.append(_scaled(terms, True) if factorial_scaled else terms)
    return structure.unflatten(outs), structure.unflatten(results)
