"""Sums of segments, the largest elements and products by groups on the CPU, against jax."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Api, Case, per_call, versus

WANTED = 1.05


def _random(api: Api, *shape: int) -> Any:
    return api.np.asarray(np.random.default_rng(0).standard_normal(shape, dtype=np.float32))


def _ids(api: Api, rows: int, segments: int, ordered: bool) -> Any:
    ids = np.random.default_rng(1).integers(0, segments, rows).astype(np.int32)
    return api.np.asarray(np.sort(ids) if ordered else ids)


def _sizes(api: Api, rows: int, groups: int) -> Any:
    return api.np.asarray(np.random.default_rng(2).multinomial(rows, np.ones(groups) / groups).astype(np.int32))


def segments(rows: int, width: int, count: int, ordered: bool, backward: bool = False) -> Callable[[Api], Any]:
    def make(api: Api) -> Any:
        ops = importlib.import_module(f"{api.name}.ops")
        x, ids = _random(api, *([rows, width] if width else [rows])), _ids(api, rows, count, ordered)

        def f(x: Any, ids: Any) -> Any:
            return ops.segment_sum(x, ids, count, indices_are_sorted=ordered)

        return (api.grad(lambda x, ids: (f(x, ids) ** 2).sum()) if backward else f), (x, ids)

    return make


def largest(rows: int, width: int, k: int) -> Callable[[Api], Any]:
    return lambda api: (lambda x: importlib.import_module(f"{api.name}.lax").top_k(x, k), (_random(api, rows, width),))


def by_groups(rows: int, inner: int, columns: int, groups: int) -> Callable[[Api], Any]:
    def make(api: Api) -> Any:
        dot = importlib.import_module(f"{api.name}.lax").ragged_dot
        return dot, (_random(api, rows, inner), _random(api, groups, inner, columns), _sizes(api, rows, groups))

    return make


# What is measured, and calls in a sample.
MEASURED: dict[str, tuple[Callable[[Api], Any], int]] = {
    "segment_sum, 100 into 10": (segments(100, 0, 10, False), 100),
    "segment_sum, 100,000 into 1,000": (segments(100_000, 0, 1000, False), 5),
    "segment_sum, 100,000 into 1,000, sorted": (segments(100_000, 0, 1000, True), 5),
    "segment_sum, 10,000 x 64 into 500": (segments(10_000, 64, 500, False), 5),
    "gradient of segment_sum, 10,000 x 64 into 500": (segments(10_000, 64, 500, False, True), 3),
    "top_k, 8 of 1,000": (largest(1, 1000, 8), 20),
    "top_k, 8 of 64 x 1,000": (largest(64, 1000, 8), 3),
    "top_k, 100 of 100,000": (largest(1, 100_000, 100), 1),
    "ragged_dot, 64 x 32 x 32, 4 groups": (by_groups(64, 32, 32, 4), 20),
    "ragged_dot, 1,024 x 256 x 256, 8 groups": (by_groups(1024, 256, 256, 8), 1),
}


def measured(name: str) -> Callable[[Api], float]:
    make, count = MEASURED[name]

    def measure(api: Api) -> float:
        f, args = make(api)
        f = api.jit(f)
        return per_call(lambda: f(*args), lambda out: api.block_until_ready(out), count, 9)

    return measure


CASES: list[Case] = [versus(name, measured(name), WANTED) for name in MEASURED]
