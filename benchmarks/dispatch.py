"""Calls of jitted functions on small arrays, pytrees and NumPy arrays: time of the caller's thread, beside jax.

jax shares the memory of a NumPy argument whose address is a multiple of 64; later writes to it may change the result.
Tilewright copies. NumPy places small arrays at multiples of 16, so that the small ones here are copied on both sides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .harness import Api, Case, versus

SAMPLES, CALLS = 60, 200


def least(f: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    """The least CPU seconds that this thread spends on a call, over samples of calls that are waited for apart."""
    for _ in range(20):
        wait(f())
    times = []
    for _ in range(SAMPLES):
        start = time.thread_time()
        for _ in range(CALLS):
            result = f()
        times.append((time.thread_time() - start) / CALLS)
        wait(result)
    return min(times)


def on_arrays(count: int) -> Callable[[Api], float]:
    """The sum of small arrays on the device."""

    def measure(api: Api) -> float:
        operands = [api.np.ones(8) for _ in range(count)]
        f = api.jit(lambda *xs: sum(xs[1:], start=xs[0]))
        return least(lambda: f(*operands), api.block_until_ready)

    return measure


def on_numpy(count: int) -> Callable[[Api], float]:
    """The sum of small NumPy arrays."""

    def measure(api: Api) -> float:
        import numpy as np

        operands = [np.ones(8, np.float32) for _ in range(count)]
        f = api.jit(lambda *xs: sum(xs[1:], start=xs[0] + 1))
        return least(lambda: f(*operands), api.block_until_ready)

    return measure


def on_both(api: Api) -> float:
    """A small array on the device and a NumPy array."""
    import numpy as np

    x, y = api.np.ones(8), np.ones(8, np.float32)
    f = api.jit(lambda x, y: x + y)
    return least(lambda: f(x, y), api.block_until_ready)


def on_tree(count: int) -> Callable[[Api], float]:
    """A dictionary of small arrays, to such a dictionary."""

    def measure(api: Api) -> float:
        operand = {f"leaf {n}": api.np.ones(8) for n in range(count)}
        f = api.jit(lambda tree: {name: x + 1 for name, x in tree.items()})
        return least(lambda: f(operand), api.block_until_ready)

    return measure


CASES: list[Case] = [
    versus("2 arrays", on_arrays(2), 1.0),
    versus("8 arrays", on_arrays(8), 1.0),
    versus("1 NumPy array", on_numpy(1), 1.0),
    versus("2 NumPy arrays", on_numpy(2), 1.0),
    versus("an array and a NumPy array", on_both, 1.0),
    versus("a tree of 4 arrays", on_tree(4), 1.0),
    versus("a tree of 20 arrays", on_tree(20), 1.0),
]
