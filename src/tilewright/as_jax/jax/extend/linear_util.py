"""`jax.extend.linear_util`: functions that are wrapped step by step."""

from collections.abc import Callable as Callable
from typing import Any

from ...linear_util import (
    Store,
    StoreException,
    WrappedFun,
    cache,
    merge_linear_aux,
    transformation,
    transformation2,
    transformation_with_aux,
    transformation_with_aux2,
    wrap_init,
)
from ...missing import not_adapted

__all__ = [
    "Callable", "Store", "StoreException", "WrappedFun", "cache", "merge_linear_aux", "transformation",
    "transformation2", "transformation_with_aux", "transformation_with_aux2", "wrap_init",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.extend.linear_util")
