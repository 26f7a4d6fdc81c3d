"""Kernels as machine code of this CPU against XLA's form of the same kernels: CPU time on one core, alternating.

python -m benchmarks cpu --only softmax --seconds 3
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp

ROWS = COLUMNS = 4096
BLOCK = 8
Make = Callable[[str], Callable[..., Any]]  # from a route to a function of arrays


def over_rows(body: Callable[..., None], matrices: int, vectors: int = 0) -> Make:
    """A kernel over blocks of rows."""
    rows, row = tl.BlockSpec((BLOCK, COLUMNS), lambda i: (i, 0)), tl.BlockSpec((COLUMNS,), lambda i: (0,))

    def make(route: str) -> Callable[..., Any]:
        return tl.kernel_call(
            body, out_shape=tw.ShapeDtypeStruct((ROWS, COLUMNS), "float32"), grid=(ROWS // BLOCK,),
            in_specs=[rows] * matrices + [row] * vectors, out_specs=rows,
            compiler_params=tl.cpu.CompilerParams(route=route))  # fmt: skip

    return make


def gradient(make: Make) -> Make:
    """The cotangent of the first operand."""

    def made(route: str) -> Callable[..., Any]:
        call = make(route)
        return lambda bar, *xs: tw.grad(lambda x: tnp.sum(call(x, *xs[1:]) * bar))(xs[0])

    return made


def softmax(x_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    e = tnp.exp(x - tnp.max(x, axis=1, keepdims=True))
    o_ref[...] = e / tnp.sum(e, axis=1, keepdims=True)


def layer_norm(x_ref: Any, scale_ref: Any, shift_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    d = x - tnp.mean(x, axis=1, keepdims=True)
    o_ref[...] = d * tw.lax.rsqrt(tnp.mean(d * d, axis=1, keepdims=True) + 1e-5) * scale_ref[...] + shift_ref[...]


def rms_norm(x_ref: Any, residual_ref: Any, scale_ref: Any, o_ref: Any) -> None:
    x = x_ref[...] + residual_ref[...]
    o_ref[...] = x * tw.lax.rsqrt(tnp.mean(x * x, axis=1, keepdims=True) + 1e-5) * scale_ref[...]


def gelu(x_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    o_ref[...] = 0.5 * x * (1 + tnp.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def matmul(size: int, block: int) -> Make:
    """A product accumulated in scratch."""

    def body(x_ref: Any, y_ref: Any, o_ref: Any, sum_ref: Any) -> None:
        @tl.when(tl.program_id(2) == 0)
        def _() -> None:
            sum_ref[...] = tnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...] @ y_ref[...]

        @tl.when(tl.program_id(2) == size // block - 1)
        def _() -> None:
            o_ref[...] = sum_ref[...]

    def make(route: str) -> Callable[..., Any]:
        tile = (block, block)
        return tl.kernel_call(
            body, out_shape=tw.ShapeDtypeStruct((size, size), "float32"), grid=(size // block,) * 3,
            in_specs=[tl.BlockSpec(tile, lambda i, j, k: (i, k)), tl.BlockSpec(tile, lambda i, j, k: (k, j))],
            out_specs=tl.BlockSpec(tile, lambda i, j, k: (i, j)), scratch_shapes=[tl.VMEM(tile, "float32")],
            compiler_params=tl.cpu.CompilerParams(route=route))  # fmt: skip

    return make


_M, _V = (ROWS, COLUMNS), (COLUMNS,)
SUITE: dict[str, tuple[Make, tuple[tuple[int, ...], ...]]] = {
    "softmax": (over_rows(softmax, 1), (_M,)),
    "softmax, gradient": (gradient(over_rows(softmax, 1)), (_M, _M)),
    "layer norm": (over_rows(layer_norm, 1, 2), (_M, _V, _V)),
    "layer norm, gradient": (gradient(over_rows(layer_norm, 1, 2)), (_M, _M, _V, _V)),
    "RMS norm and residual": (over_rows(rms_norm, 2, 1), (_M, _M, _V)),
    "gelu": (over_rows(gelu, 1), (_M,)),
    "matmul 1024": (matmul(1024, 256), ((1024, 1024), (1024, 1024))),
}


def measure(make: Make, shapes: tuple[tuple[int, ...], ...], seconds: float) -> dict[str, float]:
    """The least CPU time of a call by each route, in milliseconds."""
    rng = np.random.default_rng(0)
    arrays = [tw.device_put(rng.standard_normal(s, np.float32)) for s in shapes]
    routes = {route: tw.jit(make(route)) for route in ("xla", "machine_code")}
    found = {route: np.asarray(f(*arrays)) for route, f in routes.items()}
    np.testing.assert_allclose(found["machine_code"], found["xla"], rtol=1e-3, atol=1e-3)
    best = dict.fromkeys(routes, float("inf"))
    end, turns = time.perf_counter() + seconds, 0
    while turns < 5 or time.perf_counter() < end:
        for route, f in routes.items():
            start = time.process_time()
            f(*arrays).block_until_ready()
            best[route] = min(best[route], (time.process_time() - start) * 1e3)
        turns += 1
    return best


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="rows whose names have this text")
    options.add_argument("--seconds", type=float, default=3.0, help="time for each row")
    given = options.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    print(f"{'':24}{'XLA ms':>10}{'ours ms':>10}{'ratio':>8}")
    for name, (make, shapes) in SUITE.items():
        if given.only in name:
            best = measure(make, shapes, given.seconds)
            print(f"{name:24}{best['xla']:10.2f}{best['machine_code']:10.2f}{best['machine_code'] / best['xla']:8.2f}")


if __name__ == "__main__":
    main()
