"""Deferred (unreduced) sums over devices: each device keeps its part (`core/sharding/unreduced_axes.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

from ..ir.types import ArrayType

# The mesh axes over which contractions in this scope return unreduced sums.
asked_open: ContextVar[frozenset[Any]] = ContextVar("tilewright_asked_open", default=frozenset())


def split_alike(lhs: ArrayType, rhs: ArrayType, contracted: tuple[Sequence[int], Sequence[int]]) -> frozenset[Any]:
    """The axes of a mesh that split what a contraction sums over, on both sides, as the types of the operands tell."""
    if lhs.placed is None or rhs.placed is None:
        return frozenset()
    left, right = (t.placed.spec.padded(t.ndim) for t in (lhs, rhs))
    pairs = [(left[a], right[b]) for a, b in zip(*contracted, strict=True)]
    return frozenset(name for a, b in pairs if a == b for name in a)


def split_within(operand: Any, axes: Sequence[int]) -> frozenset[Any]:
    """The mesh axes that split what a sum over `axes` adds up, as the type of the operand tells."""
    if operand.placed is None:
        return frozenset()
    dims = operand.placed.spec.padded(operand.ndim)
    return frozenset(name for a in axes for name in dims[a])
