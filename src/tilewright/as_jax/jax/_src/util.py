"""`jax._src.util`: a function with a hash, which the kernels that come with jax name in a type; and `map` and `zip` of
sequences of one length, for jax's page on interpreters."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
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


def safe_zip(*args: Sequence[Any]) -> list[tuple[Any, ...]]:
    """`zip` as a list; of sequences of one length."""
    return list(zip(*args, strict=True))


def safe_map(f: Callable[..., Any], *args: Sequence[Any]) -> list[Any]:
    """`map` as a list; of sequences of one length."""
    return [f(*xs) for xs in zip(*args, strict=True)]


__all__ = ["HashableFunction", "safe_map", "safe_zip"]
__getattr__ = not_adapted("jax._src.util")
