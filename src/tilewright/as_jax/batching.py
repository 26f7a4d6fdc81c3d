"""Batching rules between jax's three conventions and ours.

    ours                rule(axis, args, dims, **params) -> out, dim
    primitive_batchers  rule(args, dims, **params) -> out, dim
    fancy               rule(axis, args, dims, **params) -> out, dim
    axis                rule(size, name, None, args, dims, **params) -> out, dim
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.ir.extension_types import mapped_types
from ..core.ir.primitive import AxisInfo, Primitive
from ..core.support import pytree
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


# ---------------------------------------------------------------------------- mapped types


class _Mapped(int):
    """An axis in the place of a leaf that is mapped."""


def _along(x: Any, axis: Any) -> Any:
    """A tree like `x` that says of each leaf that it is mapped over an axis."""
    return pytree.map(lambda _: None if axis is None else _Mapped(axis), x)


def _axes(tree: Any) -> Any:
    return pytree.map(lambda leaf: int(leaf) if type(leaf) is _Mapped else None, tree)


def register_vmappable(
    data_type: type, spec_type: type, axis_size_type: type, to_elt: Rule, from_elt: Rule, make_iota: Rule | None
) -> None:
    """Let values of a class of pytrees say which of their leaves `vmap` maps.

    `to_elt(cont, get_index, x, spec)` is one element of an argument, in which `cont(leaf, axis)` stands for each mapped
    part, and `from_elt(cont, axis_size, x, spec)` a result, with `cont(axis_size, leaf, axis)`. Sizes of axes are ints.
    """
    mapped_types[data_type] = (
        lambda x, spec: _axes(to_elt(_along, lambda: None, x, spec)),
        lambda x, spec: _axes(from_elt(lambda size, leaf, axis: _along(leaf, axis), None, x, spec)),
    )


def unregister_vmappable(data_type: type) -> None:
    """Undo `register_vmappable`: `vmap` maps each leaf of the class's values again."""
    mapped_types.pop(data_type, None)


def is_vmappable(x: Any) -> bool:
    """Whether the class of a value is registered by `register_vmappable`."""
    return type(x) in mapped_types
