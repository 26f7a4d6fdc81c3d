"""How arrays lie in memory, under the names of `jax.experimental.layout`: XLA chooses, so these are values only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.ir.array_layout import Format, Layout
from ..core.support.errors import UnsupportedError

__all__ = ["Format", "Layout", "with_layout_constraint"]
__dir__: Callable[[], list[str]] = __all__.copy


def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """Refused: XLA chooses how arrays within a program lie.

    Raises:
      UnsupportedError: always.

    >>> with_layout_constraint(1.0, Layout((0,)))
    Traceback (most recent call last):
        ...
    tilewright.core.support.errors.UnsupportedError: with_layout_constraint(...): XLA chooses layouts...
    """
    raise UnsupportedError(f"with_layout_constraint({layout}): XLA chooses layouts", "leave it out")
