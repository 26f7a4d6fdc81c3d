"""`compare`: what got slower between two results, beyond the noise of their rounds.

What counts is the fastest batch of each round: other programs only add to times, and some batches are so short that
nothing interrupts them, so that the least hardly depends on what else runs. It is taken in units of the machine's
yardstick, the fastest of the run, so that a processor whose clock is slower today matters less. Rows without such times
are compared by their means, in units of the yardstick in the same round. A row has changed where a Mann-Whitney test
(Mann and Whitney, 1947) finds the new ones larger, or smaller, with p below 0.01, of means below 0.001, and the medians
differ by more than five percent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import mannwhitneyu

from ..core.support.errors import BenchmarkError
from .result import Result, Row

P, P_LEAST, LEAST = 1e-3, 1e-2, 0.05
HARDWARE = ("machine", "processor", "processors", "device")  # times of different ones say nothing of the code


@dataclass(frozen=True)
class Change:
    """One row of two results: the new time over the old one, the test's p, and `slower`, `faster` or `same`."""

    name: str
    ratio: float
    p: float
    verdict: str

    def __str__(self) -> str:
        return f"{self.name}: {self.ratio:.3f} times the old time (p = {self.p:.2g}): {self.verdict}"


def compare(old: Result, new: Result) -> list[Change]:
    """What became of each row that both results have.

    Raises:
      BenchmarkError: they are results of different functions.

    >>> import tilewright as tw
    >>> x = tw.numpy.ones(8)
    >>> result = tw.benchmark(lambda x: x.sum(), x, rounds=2, name='sum')
    >>> [change.verdict for change in tw.bench.compare(result, result)]
    ['same']
    """
    if old.name and new.name and old.name != new.name:
        raise BenchmarkError(f"one result is of {old.name}, the other of {new.name}", "compare results of one function")
    names = [(row.name, row.size) for row in old.rows]
    return [
        _change(old.rows[names.index((row.name, row.size))], row, old, new)
        for row in new.rows if (row.name, row.size) in names
    ]  # fmt: skip


def other_machine(old: Result, new: Result) -> list[tuple[str, str, str]]:
    """What differs between the machines that two results were measured on: what, then, and now."""
    before, after = old.machine or {}, new.machine or {}
    return [(k, before[k], after[k]) for k in HARDWARE if k in before and k in after and before[k] != after[k]]


def _change(before: Row, after: Row, old: Result, new: Result) -> Change:
    of, most = (_least, P_LEAST) if before.least and after.least else (_means, P)
    a, b = of(before, old, after), of(after, new, before)
    ratio = float(np.median(b) / np.median(a))
    p = float(mannwhitneyu(a, b).pvalue)
    changed = p < most and abs(np.log(ratio)) > np.log(1 + LEAST)
    name = before.name if before.size is None else f"{before.name} {before.size:g}"
    return Change(name, ratio, p, "same" if not changed else "slower" if ratio > 1 else "faster")


def _least(row: Row, result: Result, other: Row) -> np.ndarray:
    """The fastest batches in units of the yardstick's fastest."""
    return np.asarray(row.least) / (min(result.yardstick) if result.yardstick else 1.0)


def _means(row: Row, result: Result, other: Row) -> np.ndarray:
    """The means in units of the yardstick in the same round, where there is one of the same kind for both."""
    times = np.asarray(row.seconds)
    alike = len(result.yardstick) == len(times) and not (row.least or other.least)
    return times / np.asarray(result.yardstick) if alike else times
