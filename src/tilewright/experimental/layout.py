"""How arrays lie in memory, under the names of `jax.experimental.layout`: XLA chooses, so these are values only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..core.errors import UnsupportedError

__all__ = ["Format", "Layout", "with_layout_constraint"]


class _Auto:
    """The layout that the compiler chooses."""

    def __repr__(self) -> str:
        return "AutoLayout"


@dataclass(frozen=True)
class Layout:
    """The order of an array's axes in memory, the slowest first, and the tiles that it is cut into.

    >>> Layout((1, 0))
    Layout(major_to_minor=(1, 0), tiling=None)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None

    AUTO = _Auto()


@dataclass(frozen=True)
class Format:
    """A layout, where one is asked for, and a sharding.

    >>> Format().layout is None
    True
    """

    layout: Any = None
    sharding: Any = None


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
