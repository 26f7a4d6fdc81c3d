"""Linear algebra on the CPU against jax: both call the same LAPACK, so that what differs is what is around the call."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Api, Case, per_call, versus

SIZES = (16, 256, 2048)
WANTED = 1.05
SECOND = 1e9  # operations that take about a hundredth of a second: fewer samples of what takes long


def _matrices(api: Api, n: int) -> tuple[Any, Any, Any]:
    """A general, a positive definite and a lower triangular matrix."""
    x = np.random.default_rng(0).standard_normal((n, n), dtype=np.float32)
    positive = x @ x.T / n + np.eye(n, dtype=np.float32)
    return tuple(api.np.asarray(a) for a in (x + 2 * np.sqrt(n) * np.eye(n, dtype=np.float32), positive, np.tril(x)))


def _scipy(api: Api) -> Any:
    return importlib.import_module(f"{api.name}.scipy.linalg")


# Of an api, the function that is measured and which of the matrices it takes; and how many times n^3 it computes.
FUNCTIONS: dict[str, tuple[Callable[[Api], Callable[..., Any]], int, float]] = {
    "cholesky": (lambda api: api.np.linalg.cholesky, 1, 1 / 3),
    "solve": (lambda api: lambda a: api.np.linalg.solve(a, a[0]), 0, 2 / 3),
    "inv": (lambda api: api.np.linalg.inv, 0, 2),
    "slogdet": (lambda api: lambda a: api.np.linalg.slogdet(a)[1], 0, 2 / 3),
    "gradient of slogdet": (lambda api: api.grad(lambda a: api.np.linalg.slogdet(a)[1]), 0, 3),
    "gradient of a Gaussian's density": (lambda api: api.grad(lambda a: _density(api, a)), 1, 2),
    "qr": (lambda api: api.np.linalg.qr, 0, 8 / 3),
    "eigh": (lambda api: api.np.linalg.eigh, 1, 9),
    "eigvalsh": (lambda api: api.np.linalg.eigvalsh, 1, 2),
    "svd": (lambda api: api.np.linalg.svd, 0, 20),
    "expm": (lambda api: lambda a: _scipy(api).expm(a / 100), 0, 16),
}


def _density(api: Api, a: Any) -> Any:
    """The logarithm of a normal density at the first row, by Cholesky factors."""
    scipy = _scipy(api)
    factor = api.np.linalg.cholesky(a)
    y = scipy.solve_triangular(factor, a[0], lower=True)
    return -0.5 * (y * y).sum() - api.np.log(api.np.diagonal(factor)).sum()


def measured(name: str, n: int) -> Callable[[Api], float]:
    make, which, work = FUNCTIONS[name]

    def measure(api: Api) -> float:
        f, a = api.jit(make(api)), _matrices(api, n)[which]
        operations = work * n**3
        samples = 15 if operations < SECOND else 3
        return per_call(lambda: f(a), lambda out: api.block_until_ready(out), 1 if n > 16 else 50, samples)

    return measure


def cases(names: Any, sizes: tuple[int, ...]) -> list[Case]:
    return [versus(f"{name}, {n}", measured(name, n), WANTED) for name in names for n in sizes]


CASES = cases(FUNCTIONS, SIZES)
