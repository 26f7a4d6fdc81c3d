"""How exactly to compute elementwise functions: what `accuracy` may be. The best result that there is meets any."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import ClassVar

from ...support.errors import ArgumentError


class AccuracyMode(enum.Enum):
    """How exact an elementwise function is to be."""

    says_accuracy = enum.nonmember(True)

    HIGHEST = 1
    DEFAULT = 2


@dataclass(frozen=True)
class Tolerance:
    """How far an elementwise function may be off: absolutely, relatively, or in units in the last place."""

    says_accuracy: ClassVar[bool] = True  # what functions know it by, which do not load this module
    atol: float = 0.0
    rtol: float = 0.0
    ulps: int = 0

    def __post_init__(self) -> None:
        if min(self.atol, self.rtol, self.ulps) < 0:
            raise ArgumentError(f"a tolerance is below 0: {self}", "numbers of zero or more")
