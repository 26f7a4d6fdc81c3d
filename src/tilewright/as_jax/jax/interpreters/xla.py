"""`jax.interpreters.xla`: single primitives, compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.ir.types import canonical_dtype
from ....core.support.runtime import runtime
from ...missing import not_adapted

# What tensorflow_probability adds a subclass of NumPy's arrays to; these are taken as they are.
canonicalize_dtype_handlers: dict[type, Any] = runtime.part(
    "as_jax.canonicalize", {np.ndarray: lambda x: np.asarray(x, canonical_dtype(x.dtype))}
)


def apply_primitive(primitive: Any, *args: Any, **params: Any) -> Any:
    """The results of a primitive on arrays."""
    return primitive.bind(*args, **params)


__all__ = ["apply_primitive", "canonicalize_dtype_handlers"]
__getattr__: Callable[..., Any] = not_adapted("jax.interpreters.xla")
