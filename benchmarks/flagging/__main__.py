"""How often `bench compare` finds a slowdown of a tenth put in on purpose, and how often one that is not there.

    python -m benchmarks.flagging --runs 20

Each run measures the same function twice, and a third time with a tenth more work.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import tilewright as tw
from tilewright import bench, lax
from tilewright import numpy as tnp

TURNS = 2000


def working(turns: int) -> Callable[[Any], Any]:
    """A function that takes as long as its turns are many."""

    def work(x: Any) -> Any:
        return lax.fori_loop(0, turns, lambda i, x: tnp.sin(x) + 0.5 * x, x)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    x = tnp.ones((64,))
    plain, slowed = tw.jit(working(TURNS)), tw.jit(working(TURNS + TURNS // 10))
    flagged = quiet = 0
    for _ in range(options.runs):
        before, again, slower = (tw.benchmark(f, x, name="work") for f in (plain, plain, slowed))
        quiet += bench.compare(before, again)[0].verdict == "same"
        found = bench.compare(before, slower)[0]
        flagged += found.verdict == "slower"
        print(found)
    print(f"slowdowns found: {flagged} of {options.runs}; nothing found where there is none: {quiet} of {options.runs}")


if __name__ == "__main__":
    main()
