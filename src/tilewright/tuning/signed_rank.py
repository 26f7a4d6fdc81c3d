"""Whether one of two programs is faster than the other, from alternating timings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

P = 0.01  # below which a difference is no accident


def signed_rank(x: Sequence[float]) -> float:
    """How likely differences that are symmetric about zero have as great a sum of positive ranks as these have.

    Wilcoxon, 1945, "Individual comparisons by ranking methods", Biometrics Bulletin 1; exact, without ties.

    >>> round(signed_rank([1.0, 2.0, 3.0, -0.5]), 4)
    0.125
    """
    order = np.argsort(np.abs(x), kind="stable")
    total = sum(rank for rank, i in enumerate(order, 1) if x[i] > 0)
    ways = np.ones(1)  # by the sum of the positive ranks
    for rank in range(1, len(x) + 1):
        ways = np.concatenate([ways, np.zeros(rank)]) + np.concatenate([np.zeros(rank), ways])
    return float(ways[total:].sum() / ways.sum())


def gain_of(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """How many times faster `after` is, by the median of pairs, and how likely that is by chance; 1 and 1 of nothing.

    >>> gain_of([2.0, 2.2, 2.1], [1.0, 1.0, 1.0])
    (2.1, 0.125)
    """
    if not before or not after:
        return 1.0, 1.0
    ratios = np.asarray(before) / np.asarray(after)
    return float(np.median(ratios)), signed_rank(np.log(ratios).tolist())
