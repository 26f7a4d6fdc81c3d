"""`jax.interpreters.batching`: rules of primitives for `vmap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.ir.primitive import AxisInfo
from ....core.transforms.batching import BatchTrace, BatchTracer
from ....core.transforms.structural_primitives import align, moveaxis, moved
from ....core.transforms.structural_primitives import broadcast_batch as broadcast
from ...batching import (
    axis_primitive_batchers,
    fancy_primitive_batchers,
    primitive_batchers,
    register_vmappable,
    unregister_vmappable,
)
from ...missing import not_adapted

not_mapped = None


def bdim_at_front(x: Any, bdim: int | None, size: int) -> Any:
    """A value with its batch axis first, repeated along it where it has none."""
    return moved(AxisInfo(size), x, bdim, 0)


def matchaxis(size: int, src: int | None, dst: int | None, x: Any, *_: Any) -> Any:
    """A value with its batch axis moved from one place to another, repeated where it had none."""
    return x if dst is None else moved(AxisInfo(size), x, src, dst)


def defvectorized(primitive: Any) -> None:
    """Say that a primitive of one operand is elementwise."""
    primitive_batchers[primitive] = lambda args, dims, **params: (primitive.bind(*args, **params), dims[0])


def defbroadcasting(primitive: Any) -> None:
    """Say that a primitive is elementwise in operands of one shape."""

    def rule(axis: AxisInfo, args: Any, dims: Any, **params: Any) -> Any:
        operands, at = align(axis, args, dims)
        return primitive.bind(*operands, **params), at

    fancy_primitive_batchers[primitive] = rule


__all__ = [
    "BatchTrace", "BatchTracer", "axis_primitive_batchers", "bdim_at_front", "broadcast", "defbroadcasting",
    "defvectorized", "fancy_primitive_batchers", "matchaxis", "moveaxis", "not_mapped",
    "primitive_batchers", "register_vmappable", "unregister_vmappable",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.interpreters.batching")
