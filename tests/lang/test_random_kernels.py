"""The law of random kernels: each verdict is right by brute force, and all forms of a kernel compute the same.

`TILEWRIGHT_RANDOM_KERNELS=5000` draws as many; seeds are numbers from 0 on, and a failure names its own.
"""

import os
from collections import Counter

import pytest

import tilewright as tw
from tests.support.random_kernels import Draw, check

COUNT, CHUNK = int(os.environ.get("TILEWRIGHT_RANDOM_KERNELS", "12")), 4


@pytest.mark.parametrize("start", range(0, COUNT, CHUNK))
def test_verdicts_are_right_and_all_forms_agree(start):
    for seed in range(start, min(start + CHUNK, COUNT)):
        with tw.config(debug_checks=False):
            drawn = Draw(seed).kernel()
        try:
            check(drawn)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}; drawn: {', '.join(drawn.words)}") from error
    if COUNT > 1000:
        tw.clear_caches()


def test_most_that_is_drawn_is_right_and_every_verdict_comes_up():
    """The verdicts alone, of more kernels: what the law speaks of."""
    with tw.config(debug_checks=False):
        found = Counter(check(Draw(seed).kernel(), forms=False) for seed in range(1000, 1060))
    assert found["proved, and right"] >= 20
    assert {"OutOfBoundsError", "RaceError", "UncoveredOutputError", "unknown, and right"} <= found.keys()
