"""How arrays lie in memory, under the names of `jax.experimental.layout`: XLA chooses, so these are values only."""

from __future__ import annotations

from typing import Any

from ..core.errors import UnsupportedError
from ..core.layout import Format, Layout

__all__ = ["Format", "Layout", "with_layout_constraint"]


def with_layout_constraint(x: Any, layout: Layout) -> Any:
    """Refused: XLA chooses how arrays within a program lie.

    Raises:
      UnsupportedError: always.

    >>> with_layout_constraint(1.0, Layout((0,)))
    Traceback (most recent call last):
        ...
    tilewright.core.errors.UnsupportedError: with_layout_constraint(...): XLA chooses layouts...
    """
    raise UnsupportedError(f"with_layout_constraint({layout}): XLA chooses layouts", "leave it out")
