"""`jax._src.util`, for the kernels that come with jax: a function with a hash, which they name in a type."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from ...missing import not_adapted


@dataclass(frozen=True)
class HashableFunction:
    """A function that equals another where what it closes over does."""

    f: Callable[..., Any] = field(compare=False)
    closure: Hashable

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.f(*args, **kwargs)


__all__ = ["HashableFunction"]
__getattr__ = not_adapted("jax._src.util")
