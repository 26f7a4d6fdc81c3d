"""A space of 10,000 configurations, every one measured once, and how near the tuner's search comes to the best of it.

    python -m benchmarks.recorded                     searches in what is recorded, from several seeds
    python -m benchmarks.recorded --record            measures the space again (half an hour)

The space is that of a product of matrices by blocks, a loop of XLA's over small products: the sizes of the blocks, and
the order in which they are visited, which is a table that the program is given, so that ten orders share an executable.
Programs are compiled for one core of this processor. What counts is the least CPU time of a few calls, which other
programs on the machine disturb little. The record is `results/recorded.npz`, the table `results/recorded.md`.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.bench.machine import description
from tilewright.tuning.bayesian_optimization import Search

SIDE = 480
SIZES = (8, 16, 24, 32, 48, 80, 120, 160, 240, 480)
ORDERS = ("mnk", "mkn", "nmk", "nkm", "kmn", "knm", "m2nk", "m4nk", "n2mk", "n4mk")  # m2nk: by panels of two rows
SPACE: dict[str, Any] = {"m": SIZES, "n": SIZES, "k": SIZES, "order": ORDERS}
FILE = Path(__file__).parent / "results" / "recorded.npz"
CALLS = 5  # of each configuration, after one that warms up
SLOW = 8.0  # what takes so many times the best so far is called once
SHARE, WITHIN = 0.03, 1.05  # of the space that may be tried, and how near the best it is to come


def space() -> list[dict[str, Any]]:
    """The configurations, in the order of the recorded times."""
    return [dict(zip(SPACE, row, strict=True)) for row in itertools.product(*SPACE.values())]


def visits(m: int, n: int, k: int, order: str) -> np.ndarray:
    """The first row, column and depth of each block, in the order in which blocks are visited."""
    counts = {"m": SIDE // m, "n": SIDE // n, "k": SIDE // k}
    axes = [a for a in order if a.isalpha()]
    grid = np.stack(np.meshgrid(*(np.arange(counts[a]) for a in axes), indexing="ij"), -1).reshape(-1, 3)
    found = dict(zip(axes, grid.T, strict=True))
    if len(order) > 3:  # panels of the first axis, within them the second, then the panel's own
        width = int(order[1])
        rank = np.lexsort((found["k"], found[axes[0]], found[axes[1]], found[axes[0]] // width))
        found = {a: x[rank] for a, x in found.items()}
    return np.stack([found["m"] * m, found["n"] * n, found["k"] * k], 1).astype(np.int32)


def product(x: Any, w: Any, table: Any, *, m: int, n: int, k: int) -> Any:
    """`x @ w` by blocks in the order of a table."""
    def step(t: Any, out: Any) -> Any:
        row, column, depth = (table[t, i] for i in range(3))
        part = lax.dynamic_slice(x, (row, depth), (m, k)) @ lax.dynamic_slice(w, (depth, column), (k, n))
        known = lax.dynamic_slice(out, (row, column), (m, n))
        return lax.dynamic_update_slice(out, known + part, (row, column))

    return lax.fori_loop(0, table.shape[0], step, tnp.zeros((SIDE, SIDE)))


def recorded() -> Iterator[float]:
    """Seconds of each configuration."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    draw, best = np.random.default_rng(0), float("inf")
    x, w = (draw.standard_normal((SIDE, SIDE)).astype(np.float32) for _ in range(2))
    first, second, wanted = tw.jit(lambda a: a)(x), tw.jit(lambda a: a)(w), x @ w

    for m, n, k in itertools.product(SIZES, repeat=3):
        function = tw.jit(functools.partial(product, m=m, n=n, k=k))
        for order in ORDERS:
            table = tw.jit(lambda a: a)(visits(m, n, k, order))
            times = []
            for _ in range(1 + CALLS):
                start = time.process_time()
                found = function(first, second, table).block_until_ready()
                times.append(time.process_time() - start)
                if order != ORDERS[0] and times[-1] > SLOW * best:
                    break
            if order == ORDERS[0]:
                assert np.abs(np.asarray(found) - wanted).max() < 1e-2
            times = times[1:] or times
            best = min(best, *times)
            yield min(times)
        tw.clear_caches()


def record() -> None:
    """Measure everything, and write the times and what they were measured on."""
    times, start = [], time.perf_counter()
    for seconds in recorded():
        times.append(seconds)
        if len(times) % 500 == 0:
            took = time.perf_counter() - start
            print(f"{len(times)} of {len(space())} in {took:.0f} s, best {min(times) * 1e3:.2f} ms", flush=True)
    np.savez_compressed(FILE, seconds=np.asarray(times, np.float32), machine=json.dumps(description()))


def searched(times: np.ndarray, seed: int) -> tuple[int, float]:
    """Trials of one search in the record, and the best found over the best there is."""
    search = Search(space(), seed=seed)
    while not search.done and (asked := search.ask(2)):
        for number in asked:
            search.tell(number, float(times[number]))
    return len(search.times), float(min(times[i] for i in search.times) / times.min())


def drawn(times: np.ndarray, trials: int, seed: int) -> float:
    """The best of as many configurations drawn at random, over the best there is."""
    return float(np.random.default_rng(seed).choice(times, trials, replace=False).min() / times.min())


def report(seeds: int) -> str:
    """The table of some searches."""
    with np.load(FILE) as record:
        times, machine = record["seconds"].astype(float), json.loads(str(record["machine"]))
    limit = int(SHARE * len(times))
    rows = ["| seed | trials | best found / best | of as many at random |", "| --- | --- | --- | --- |"]
    met = 0
    for seed in range(seeds):
        trials, over = searched(times, seed)
        met += trials <= limit and over <= WITHIN
        rows.append(f"| {seed} | {trials} | {over:.3f} | {drawn(times, trials, seed):.3f} |")
        print(rows[-1], flush=True)
    best = space()[int(times.argmin())]
    where = ", ".join(f"{k} {v}" for k, v in machine.items())
    least, near = times.min(), int((times <= WITHIN * times.min()).sum())
    spread = f"from {least * 1e3:.2f} to {times.max() * 1e3:.0f} ms, the median {np.median(times) * 1e3:.2f} ms"
    return f"""# A recorded space

`python -m benchmarks.recorded`; recorded on {where}.

{len(times):,} configurations of a product of matrices of {SIDE} x {SIDE} by blocks, each measured once: {spread};
{near} are within {WITHIN - 1:.0%} of the best, {best}.
{met} of {seeds} searches came within {WITHIN - 1:.0%} with {limit} trials at most.

{chr(10).join(rows)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--record", action="store_true", help="measure the whole space")
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    if options.record:
        record()
    FILE.with_suffix(".md").write_text(report(options.seeds))


if __name__ == "__main__":
    main()
