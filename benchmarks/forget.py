"""Whether memory comes back: 2,000 fresh functions are jitted, called, and forgotten by `clear_caches()`.

    python -m benchmarks.forget --functions 2000

Prints the resident memory at the start (once some functions have been made and forgotten, so that what a process
takes once is not counted), with everything in memory, and after `clear_caches()`, garbage collection and
`malloc_trim`; fails if more than `--share` of the start stays.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.runtime import runtime
from tilewright.xla_backend.host import malloc_tuning


def resident() -> float:
    """MiB of memory that this process has."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def settled() -> float:
    """MiB of memory once everything that can be forgotten is."""
    tw.clear_caches()
    for _ in range(3):
        gc.collect()
    malloc_tuning.trim()
    return resident()


def fresh(number: int) -> Callable[[Any], Any]:
    """A function that no other is like: every tenth is a gradient, every tenth a kernel."""
    if number % 10 == 3:
        return tw.grad(lambda x: (tnp.tanh(x * (number + 0.5)) @ x).sum())
    if number % 10 == 7:

        def body(x: Any, out: Any) -> None:
            out[...] = x[...] * (number + 0.5)

        return tl.kernel_call(body, tw.ShapeDtypeStruct((4, 4), "float32"))
    return lambda x: tnp.sin(x + number) * x


def use(functions: int, first: int) -> None:
    x = tnp.asarray(np.arange(16, dtype=np.float32).reshape(4, 4))
    for number in range(first, first + functions):
        tw.jit(fresh(number))(x).block_until_ready()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", type=int, default=2000)
    parser.add_argument("--warm", type=int, default=200, help="functions made and forgotten before the start")
    parser.add_argument("--share", type=float, default=0.1, help="of the start that may stay")
    asked = parser.parse_args(argv)
    with tw.config(cache_dir=""):
        use(asked.warm, -asked.warm)
        start = settled()
        use(asked.functions, 0)
        full = resident()
        entries = sum(size.entries for size in runtime.cache_sizes().values())
        end = settled()
    print(f"start {start:.0f} MiB; {asked.functions} functions: {full:.0f} MiB, {entries} entries in caches; "
          f"forgotten: {end:.0f} MiB, {end / start - 1:+.1%}")  # fmt: skip
    return int(end > start * (1 + asked.share))


if __name__ == "__main__":
    sys.exit(main())
