"""`compare`: what got slower between two results, beyond the noise of their rounds.

The times of each row are divided by those of the machine's yardstick in the same rounds. A row has changed where a
Mann-Whitney test (Mann and Whitney, 1947) finds the new ones larger, or smaller, with p below 0.001, and the medians
differ by more than five percent.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import mannwhitneyu

from .result import Result, Row

P, LEAST = 1e-3, 0.05


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
    """What became of each row that both results have."""
    names = [(row.name, row.size) for row in old.rows]
    return [
        _change(old.rows[names.index((row.name, row.size))], row, old, new)
        for row in new.rows if (row.name, row.size) in names
    ]  # fmt: skip


def _change(before: Row, after: Row, old: Result, new: Result) -> Change:
    a, b = _relative(before, old), _relative(after, new)
    ratio = float(np.median(b) / np.median(a))
    p = float(mannwhitneyu(a, b).pvalue)
    changed = p < P and abs(np.log(ratio)) > np.log(1 + LEAST)
    name = before.name if before.size is None else f"{before.name} {before.size:g}"
    return Change(name, ratio, p, "same" if not changed else "slower" if ratio > 1 else "faster")


def _relative(row: Row, result: Result) -> np.ndarray:
    """Times in units of the yardstick, where there is one for each round."""
    times = np.asarray(row.seconds)
    return times / np.asarray(result.yardstick) if len(result.yardstick) == len(times) else times
