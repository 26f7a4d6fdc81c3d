"""Products of a sparse matrix of 1% density with a dense one on the CPU, and their gradients, against jax's BCOO."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Api, Case, per_call, versus

SIZES = ((2048, 2048, 256), (4096, 1024, 256), (2048, 2048, 1))
WANTED = 1 / 3


def _operands(api: Api, size: tuple[int, int, int], ordered: bool) -> tuple[Any, Any]:
    """The sparse matrix with its elements row by row or in any order, and the dense one."""
    m, k, n = size
    random = np.random.default_rng(0)
    places = random.choice(m * k, m * k // 100, replace=False)
    places = np.sort(places) if ordered else places
    data = random.standard_normal(len(places), dtype=np.float32)
    indices = np.stack(np.divmod(places, k), 1).astype(np.int32)
    bcoo = importlib.import_module(f"{api.name}.experimental.sparse").BCOO
    sparse = bcoo((api.np.asarray(data), api.np.asarray(indices)), shape=(m, k))
    dense = api.np.asarray(random.standard_normal((k, n) if n > 1 else (k,), dtype=np.float32))
    return sparse, dense


def _product(api: Api) -> Callable[..., Any]:
    return lambda sparse, dense: sparse @ dense


def _gradient(api: Api) -> Callable[..., Any]:
    """Of the product's sum of squares by the dense operand: two products, one with the transpose."""
    return api.grad(lambda sparse, dense: ((sparse @ dense) ** 2).sum(), 1)


def measured(make: Callable[[Api], Callable[..., Any]], size: Any, ordered: bool) -> Callable[[Api], float]:
    def measure(api: Api) -> float:
        sparse, dense = _operands(api, size, ordered)
        f = api.jit(make(api))
        return per_call(lambda: f(sparse, dense), api.block_until_ready, calls=3)

    return measure


def _name(size: tuple[int, int, int]) -> str:
    m, k, n = size
    return f"{m} x {k} times {k} x {n}"


CASES: list[Case] = [
    *(versus(_name(s), measured(_product, s, True), WANTED if s[2] > 1 else 1.1) for s in SIZES),
    versus(f"{_name(SIZES[0])}, in any order", measured(_product, SIZES[0], False), WANTED),
    versus(f"{_name(SIZES[0])}, gradient", measured(_gradient, SIZES[0], True), WANTED),
]
