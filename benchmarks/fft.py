"""Fourier transforms on the CPU against jax: both run XLA's own, so that what differs is what is around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Api, Case, per_call, versus

SIZES = (16, 256, 2048)
WANTED = 1.05
LARGE = 1e6  # points: fewer samples of what takes long


def _signal(api: Api, *shape: int, complex_: bool) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(shape, dtype=np.float32)
    return api.np.asarray(x + 1j * rng.standard_normal(shape, dtype=np.float32) if complex_ else x)


# The function that is measured, its operand's shape at a size, and whether that is complex.
FUNCTIONS: dict[str, tuple[Callable[[Api], Callable[..., Any]], Callable[[int], tuple[int, ...]], bool]] = {
    "fft": (lambda api: api.np.fft.fft, lambda n: (n,), True),
    "fft of 64 rows": (lambda api: api.np.fft.fft, lambda n: (64, n), True),
    "fft of columns": (lambda api: lambda x: api.np.fft.fft(x, axis=0), lambda n: (n, 64), True),
    "rfft": (lambda api: api.np.fft.rfft, lambda n: (n,), False),
    "irfft": (lambda api: api.np.fft.irfft, lambda n: (n // 2 + 1,), True),
    "fft2": (lambda api: api.np.fft.fft2, lambda n: (n, n), True),
    "gradient of a spectrum's sum": (lambda api: api.grad(lambda x: _power(api, x)), lambda n: (64, n), False),
}


def _power(api: Api, x: Any) -> Any:
    spectrum = api.np.fft.rfft(x)
    return (spectrum.real**2 + spectrum.imag**2).sum()


def measured(name: str, n: int) -> Callable[[Api], float]:
    make, shape, complex_ = FUNCTIONS[name]

    def measure(api: Api) -> float:
        f, x = api.jit(make(api)), _signal(api, *shape(n), complex_=complex_)
        points = x.size
        calls = max(1, min(100, int(1e6 / points)))
        return per_call(lambda: f(x), lambda out: api.block_until_ready(out), calls, 5 if points > LARGE else 25)

    return measure


CASES: list[Case] = [versus(f"{name}, {n}", measured(name, n), WANTED) for name in FUNCTIONS for n in SIZES]
