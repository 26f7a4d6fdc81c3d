"""Batching rules between jax's three conventions and ours.

    ours                rule(axis, args, dims, **params) -> out, dim
    primitive_batchers  rule(args, dims, **params) -> out, dim
    fancy               rule(axis, args, dims, **params) -> out, dim
    axis                rule(size, name, None, args, dims, **params) -> out, dim
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.ir.primitive import AxisInfo, Primitive
from ..core.tracing.trace import shape_of
from ..core.transforms.batching import batched
from .primitive import Registry

Rule = Callable[..., Any]


def _plain(rule: Rule) -> Rule:
    return lambda axis, args, dims, **params: rule(args, dims, **params)


def _plain_of(rule: Rule) -> Rule:
    """Our rule without its axis, whose size the operands tell."""
    def theirs(args: Any, dims: Any, **params: Any) -> Any:
        size = next(shape_of(x)[d] for x, d in zip(args, dims, strict=True) if d is not None)
        return rule(AxisInfo(size), args, dims, **params)

    return theirs


class _Plain(Registry):
    """`primitive_batchers`: also for those of our primitives whose relation is their rule."""

    def __getitem__(self, primitive: Any) -> Any:
        if primitive not in self and isinstance(primitive, Primitive) and primitive.relation is not None:
            return _plain_of(lambda axis, args, dims, **params: batched(primitive, axis, args, dims, params))
        return super().__getitem__(primitive)


def _by_axis(rule: Rule) -> Rule:
    return lambda axis, args, dims, **params: rule(axis.size, axis.name, None, args, dims, **params)


primitive_batchers: _Plain = _Plain("batch", _plain, _plain_of)
fancy_primitive_batchers: Registry = Registry("batch")
axis_primitive_batchers: Registry = Registry("batch", _by_axis)
