"""What the rules of primitives share: constants, zeros, and makers of jvp rules."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.array import ArrayLike, Operand
from ..ir.extension_types import is_opaque
from ..ir.primitive import Primitive, Zero
from ..ir.types import FLOAT0, ArrayType, is_float, is_inexact
from ..tracing.trace import Scalar, typeof
from .structural_primitives import add_tangents, spread

Late = Primitive | Callable[[], Primitive]
"""A primitive, or a function that gives it: a rule is often written before the primitive it rides on."""


def _resolve(primitive: Late) -> Primitive:
    return primitive if isinstance(primitive, Primitive) else primitive()


# ---------------------------------------------------------------------------- constants and zeros


def weak_as_operands(typing: Callable[..., Any]) -> Callable[..., Any]:
    """A typing rule whose results are weakly typed where all operands are."""

    @functools.wraps(typing)
    def typed(*types: ArrayType, **params: Any) -> Any:
        found = typing(*types, **params)
        if not all(t.weak_type for t in types):
            return found
        weak = [ArrayType(t.shape, t.dtype, True) for t in (found if isinstance(found, list) else [found])]
        return weak if isinstance(found, list) else weak[0]

    return typed


def like(x: ArrayLike, value: ArrayLike) -> Any:
    """A scalar of the dtype of `x`; it stays a (weak) Python scalar where that means the same."""
    dtype = typeof(x).dtype
    if type(value) is int and is_float(dtype):
        value = float(value)
    if type(value) in Scalar and typeof(value).dtype == dtype:
        return value
    return np.asarray(value).astype(dtype)[()]


def zeros(type: ArrayType) -> Any:
    """An array of zeros of a type (of a `float0` one: NumPy's array without bytes); the zero of an opaque one."""
    if is_opaque(type):
        return type.zero_tangent()
    if type.dtype == FLOAT0:
        return np.zeros(type.shape, FLOAT0)
    zero = np.zeros((), type.dtype)[()]
    if type.placed is not None:
        return type.placed.constrain(spread(zero, type.shape))
    return zero if not type.shape else spread(zero, type.shape)


def instantiate(x: Operand | Zero) -> Any:
    """An array for a tangent or cotangent that may be a symbolic `Zero`."""
    return zeros(x.type) if isinstance(x, Zero) else x  # type: ignore[arg-type]


# ---------------------------------------------------------------------------- derivatives


def linear_jvp(primitive: Late) -> Callable[..., Any]:
    """The jvp rule of a primitive linear in all its (differentiable) arguments together."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        p = _resolve(primitive)
        out = p.bind(*primals, **params)
        if all(type(t) is Zero for t in tangents):
            return (out, [Zero(typeof(o).tangent()) for o in out]) if p.multiple else (out, Zero(typeof(out).tangent()))
        return out, p.bind(*map(instantiate, tangents), **params)

    return rule


def no_tangent(primitive: Late) -> Callable[..., Any]:
    """The jvp rule of a primitive whose derivative is zero wherever it exists (`floor`, comparisons, integers)."""

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        p = _resolve(primitive)
        out = p.bind(*primals, **params)
        if p.multiple:
            return out, [Zero(typeof(o).tangent()) for o in out]
        return out, Zero(typeof(out).tangent())

    return rule


def nary_jvp(primitive: Late, *partials: Callable[..., Any] | None) -> Callable[..., Any]:
    """The jvp rule of an elementwise primitive: `partials[i](t, out, *primals, **params)` is what tangent i adds.

    A partial that is None is of an argument the result does not depend on smoothly.
    """

    def rule(primals: Sequence[Any], tangents: Sequence[Any], **params: Any) -> Any:
        out = _resolve(primitive).bind(*primals, **params)
        out_type = typeof(out)
        total: Any = Zero(out_type.tangent())
        if is_inexact(out_type.dtype):
            for t, partial in zip(tangents, partials, strict=True):
                if type(t) is not Zero and partial is not None:
                    total = add_tangents(total, spread(partial(t, out, *primals, **params), out_type.shape))
        return out, total

    return rule
