"""Atomic updates of parts of Refs, without what was there before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..ops import atomics
from .parts import thread_cell


def _update(kind: str) -> Callable[[Any, Any], None]:
    name = f"atomic_{kind}"
    update = getattr(atomics, name)

    def apply(ref: Any, val: Any) -> None:
        thread_cell(name)
        update(ref, None, val)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"`lang.{name}` on a Ref or a part of one (`ref.at[...]`): blocks may update one place."
    return apply


atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor = map(
    _update, ("add", "max", "min", "and", "or", "xor")
)

__all__ = ["atomic_add", "atomic_and", "atomic_max", "atomic_min", "atomic_or", "atomic_xor"]
