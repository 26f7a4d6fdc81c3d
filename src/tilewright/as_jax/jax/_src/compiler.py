"""`jax._src.compiler`, for chex: the function that it replaces to forbid a backend. Nothing here calls it."""

from __future__ import annotations

from typing import Any

from ....core.support.errors import UnsupportedError
from ...missing import not_adapted


def backend_compile_and_load(backend: Any, *args: Any, **kwargs: Any) -> Any:
    """Refused: programs are compiled elsewhere here."""
    raise UnsupportedError("jax._src.compiler has no adapter", "compile with `jit(f).lower(...).compile()`")


__all__ = ["backend_compile_and_load"]
__getattr__ = not_adapted("jax._src.compiler")
