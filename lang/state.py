"""What the memory of a kernel holds between two cells, as levels: those of values, and two for what is not written.

UNWRITTEN    nothing has written it: read, it is RAW
PERHAPS      clean, or unwritten
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .levels import CLEAN, MAYBE, RAW, SPOILED, Level, tidy

UNWRITTEN, PERHAPS = 4, 5
_READ = np.array([CLEAN, MAYBE, RAW, SPOILED, RAW, MAYBE], np.uint8)
_OUT = np.array([CLEAN, MAYBE, RAW, SPOILED, CLEAN, CLEAN], np.uint8)  # that all is written is another check
_BARE = np.array([True, False, False, False, True, True])  # clean where it is written


def seen(held: Level) -> Level:
    """The level of what is read from memory."""
    return None if held is None else tidy(_READ[held])


def stored(held: Level) -> Level:
    """The level of what memory lets out."""
    return None if held is None else tidy(_OUT[held])


def joined(one: Level, two: Level) -> Level:
    """What memory holds that holds one of two."""
    if one is two:
        return one
    a, b = (np.uint8(CLEAN) if x is None else x for x in (one, two))
    return tidy(np.where(a == b, a, np.where(_BARE[a] & _BARE[b], PERHAPS, MAYBE)).astype(np.uint8))


class Copy(NamedTuple):
    """A copy that was started: what it brings, where to, and how many bytes it announces."""

    nbytes: int
    level: Any  # of levels, as bytes and shape, or None
    ref: int
    index: Any
    dynamic: tuple[int, ...]
    add: bool


Copies = dict[Any, tuple[tuple[Copy, ...], int]]  # by semaphore: copies under way, bytes that came and were not spent


@dataclass(frozen=True, eq=False)
class State:
    """Levels by position among the inputs of the body; `dirty`: the worst that each output block would let out."""

    levels: dict[int, Level]
    dirty: tuple[int, ...]
    copies: Copies

    @cached_property
    def key(self) -> Any:
        held = tuple(None if x is None else (x.shape, x.tobytes()) for x in self.levels.values())
        return held, self.dirty, tuple(self.copies.items())
