"""Memory layouts of arrays, as the compiler chose them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any


class _Auto:
    """The layout that the compiler chooses."""

    def __repr__(self) -> str:
        return "AutoLayout"


@dataclass(frozen=True)
class Layout:
    """The order of an array's axes in memory, the slowest first, and the tiles that it is cut into.

    `sub_byte_element_size_in_bits` is that of elements smaller than a byte, of which several share one; else 0.

    >>> Layout((1, 0)).update(tiling=((8, 128),)).tiling
    ((8, 128),)
    """

    major_to_minor: tuple[int, ...]
    tiling: tuple[tuple[int, ...], ...] | None = None
    sub_byte_element_size_in_bits: int = 0

    AUTO = _Auto()

    @staticmethod
    def from_pjrt_layout(pjrt_layout: Any) -> Layout:
        """The layout of one of jaxlib's objects."""
        found = pjrt_layout._xla_layout()
        tiles = tuple(map(tuple, found.tiling()))
        return Layout(tuple(found.minor_to_major()[::-1]), tiles, found.element_size_in_bits())

    def update(self, **changes: Any) -> Layout:
        """It with another order of axes, other tiles or another size of elements."""
        return replace(self, **changes)


@dataclass(frozen=True)
class Format:
    """A layout, where one is known or asked for, and a sharding.

    >>> Format().layout is None
    True
    """

    layout: Any = None
    sharding: Any = None
