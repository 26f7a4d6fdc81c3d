"""`jax.interpreters.xla`: single primitives, compiled."""

from __future__ import annotations

from typing import Any

from ...missing import not_adapted


def apply_primitive(primitive: Any, *args: Any, **params: Any) -> Any:
    """The results of a primitive on arrays."""
    return primitive.bind(*args, **params)


__all__ = ["apply_primitive"]
__getattr__ = not_adapted("jax.interpreters.xla")
