"""Equations made by passes over bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.ir import NO_EFFECTS, Eqn, Var
from ..core.primitive import Primitive


def equation(primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any], like: Eqn | None = None) -> Eqn:
    """An equation, at the user's line of another."""
    types = [a.type for a in inputs]
    out = primitive.typing(*types, **params)
    outs = [Var(t) for t in (out if primitive.multiple else [out])]
    effects = primitive.effects(*types, **params) if primitive.effects else NO_EFFECTS
    return Eqn(primitive, inputs, outs, params, effects, like and like.source)
