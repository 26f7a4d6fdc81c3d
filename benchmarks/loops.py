"""Reverse mode of loops with a computed number of iterations: time and memory, beside a `scan` that stores every state.

    python -m benchmarks.loops --iterations 10 1000 100000

The iteration is `c = tanh(w @ c)` with `w` of 64 x 64. Memory is what XLA allots for temporaries, time the least of
`--rounds` calls.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp


def loss(n: Any, x: Any, w: Any) -> Any:
    """A loop whose bound is traced, or static where `n` is an int."""
    return tnp.sum(lax.fori_loop(0, n, lambda _, c: tnp.tanh(w @ c), x))


def measured(function: Callable[..., Any], args: Sequence[Any], rounds: int) -> tuple[float, int]:
    """Milliseconds of a call, and the bytes of its temporaries."""
    compiled = tw.jit(function).lower(*args).compile()
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        tw.block_until_ready(compiled(*args))
        times.append(time.perf_counter() - start)
    return min(times[1:]) * 1e3, compiled.memory_analysis().temp_size_in_bytes


def rows(iterations: Sequence[int], rounds: int) -> list[str]:
    """The table, a line for each number of iterations."""
    rng = np.random.default_rng(0)
    x, w = np.ones(64, np.float32), (rng.normal(size=(64, 64)) / 8).astype(np.float32)
    lines = ["| iterations | loop | its gradient | gradient as a `scan` | memory of the gradient | as a `scan` |",
             "| --- | --- | --- | --- | --- | --- |"]  # fmt: skip
    for n in iterations:
        forward, _ = measured(loss, (np.int32(n), x, w), rounds)
        backward, memory = measured(tw.grad(loss, (1, 2)), (np.int32(n), x, w), rounds)
        stored, all_memory = measured(tw.grad(lambda x, w, n=n: loss(n, x, w), (0, 1)), (x, w), rounds)
        lines.append(f"| {n:,} | {forward:.2f} ms | {backward:.2f} ms | {stored:.2f} ms "
                     f"| {memory / 1024:,.0f} KiB | {all_memory / 1024:,.0f} KiB |")  # fmt: skip
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--iterations", type=int, nargs="+", default=[10, 1000, 100000])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("\n".join(rows(options.iterations, options.rounds)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
