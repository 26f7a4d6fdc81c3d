"""`jax.interpreters.ad`: derivatives of primitives. Rules for forward mode and transposes are ours as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ....core.ir.primitive import Linear as UndefinedPrimal
from ....core.ir.primitive import Zero
from ....core.tracing.trace import typeof
from ....core.transforms.jvp import DualTracer as JVPTracer
from ....core.transforms.jvp import JVPTrace, jvp_program
from ....core.transforms.rule_helpers import instantiate, linear_jvp, zeros
from ....core.transforms.structural_primitives import add_any_p as add_jaxvals_p
from ....core.transforms.structural_primitives import add_tangents
from ...missing import not_adapted
from ...primitive import Registry

primitive_jvps: Registry = Registry("jvp")
primitive_transposes: Registry = Registry("transpose")
instantiate_zeros = instantiate
zeros_like_aval = zeros
add_jaxvals: Callable[..., Any] = add_jaxvals_p.bind


def is_undefined_primal(x: Any) -> bool:
    """Whether a transpose is taken with respect to an operand."""
    return type(x) is UndefinedPrimal


def get_primitive_transpose(primitive: Any) -> Callable[..., Any]:
    """A primitive's transpose; NotImplementedError where it has none."""
    if primitive not in primitive_transposes:
        raise NotImplementedError(f"{primitive} has no transpose")
    return primitive_transposes[primitive]


def defjvp(primitive: Any, *partials: Callable[..., Any] | None) -> None:
    """Say what each tangent adds to that of the result: `partial(t, *primals, **params)`, or None for nothing."""
    taken = [p and (lambda t, out, *primals, _p=p, **params: _p(t, *primals, **params)) for p in partials]
    defjvp2(primitive, *taken)


def defjvp2(primitive: Any, *partials: Callable[..., Any] | None) -> None:
    """As `defjvp`, of partials that take the result too: `partial(t, out, *primals, **params)`."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = primitive.bind(*primals, **params)
        total: Any = Zero(typeof(out).tangent())
        for t, partial in zip(tangents, partials, strict=True):
            if type(t) is not Zero and partial is not None:
                total = add_tangents(total, partial(t, out, *primals, **params))
        return out, total

    primitive_jvps[primitive] = rule


def deflinear2(primitive: Any, transpose: Callable[..., Any]) -> None:
    """Say that a primitive is linear in all its operands, with its transpose `transpose(ct, *operands, **params)`."""
    primitive_jvps[primitive] = linear_jvp(primitive)
    primitive_transposes[primitive] = transpose


def deflinear(primitive: Any, transpose: Callable[..., Any]) -> None:
    """As `deflinear2`, of a transpose that takes the cotangent alone."""
    deflinear2(primitive, lambda ct, *_, **params: transpose(ct, **params))


def defbilinear(primitive: Any, left: Callable[..., Any], right: Callable[..., Any]) -> None:
    """Say that a primitive is linear in each of two operands: `left(ct, x, y)` and `right(ct, x, y)` are transposes."""

    def rule(ct: Any, x: Any, y: Any, **params: Any) -> list[Any]:
        first = is_undefined_primal(x)
        return [left(ct, x, y, **params), None] if first else [None, right(ct, x, y, **params)]

    defjvp(primitive, lambda t, x, y, **p: primitive.bind(t, y, **p), lambda t, x, y, **p: primitive.bind(x, t, **p))
    primitive_transposes[primitive] = rule


def jvp_jaxpr(jaxpr: Any, nonzeros: Sequence[bool], instantiate: Any) -> tuple[Any, list[bool]]:
    """The jaxpr from primals and tangents to results and their tangents, and which of these there are."""
    program, present = jvp_program(jaxpr, tuple(nonzeros), instantiate if isinstance(instantiate, bool)
                                   else tuple(instantiate))  # fmt: skip
    return program, list(present)


__all__ = [
    "JVPTrace", "JVPTracer", "UndefinedPrimal", "Zero", "add_jaxvals", "add_jaxvals_p", "add_tangents", "defbilinear",
    "defjvp", "defjvp2", "deflinear", "deflinear2", "get_primitive_transpose", "instantiate_zeros",
    "is_undefined_primal", "jvp_jaxpr", "primitive_jvps", "primitive_transposes", "zeros_like_aval",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.interpreters.ad")
