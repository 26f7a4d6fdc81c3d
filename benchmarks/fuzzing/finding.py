"""A finding of a suite, and how a drawn value is made as small as it can be while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

TRIALS = 400


@dataclass(frozen=True)
class Finding:
    """What is wrong, for a seed, and a script that shows it."""

    seed: int
    what: str
    script: str


def minimized[T](value: T, smaller: Callable[[T], Iterable[T]], fails: Callable[[T], bool], trials: int = TRIALS) -> T:
    """The value after greedy steps to smaller ones that still fail.

    >>> minimized(60, lambda n: [n // 2, n - 1], lambda n: n % 3 == 0 and n > 0)
    15
    """
    while True:
        for candidate in smaller(value):
            trials -= 1
            if trials < 0:
                return value
            if fails(candidate):
                value = candidate
                break
        else:
            return value
