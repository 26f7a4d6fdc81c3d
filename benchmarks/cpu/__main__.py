"""Kernels by the estimated faster route against XLA's form of the same: CPU time on one core, alternating.

    python -m benchmarks cpu --only softmax --seconds 3 --route machine_code
    python -m benchmarks cpu --json OUT.json            the figures and the description of the machine
    python -m benchmarks cpu --compile                  the time to compile kernels, to benchmarks/results

The least of the calls counts: other programs only make one slower. `ratio` is ours over XLA's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from tilewright import lang as tl
from tilewright import nn
from tilewright import numpy as tnp
from tilewright.bench.machine import description

from .compiling import write

ROWS = COLUMNS = 4096
BLOCK = 8
Function = Callable[..., Any]


def over_rows(body: Callable[..., None], matrices: int, vectors: int = 0) -> Function:
    """A kernel over blocks of rows."""
    rows, row = tl.BlockSpec((BLOCK, COLUMNS), lambda i: (i, 0)), tl.BlockSpec((COLUMNS,), lambda i: (0,))
    return tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct((ROWS, COLUMNS), "float32"), grid=(ROWS // BLOCK,),
        in_specs=[rows] * matrices + [row] * vectors, out_specs=rows)  # fmt: skip


def gradient(call: Function, *operands: int) -> Function:
    """Cotangents of some operands for one of the result, which is the last argument."""

    def made(*arrays: Any) -> Any:
        *xs, bar = arrays
        return tw.vjp(lambda *some: call(*_replaced(xs, operands, some)), *(xs[i] for i in operands))[1](bar)

    return made


def _replaced(xs: Sequence[Any], places: Sequence[int], some: Sequence[Any]) -> list[Any]:
    found = list(xs)
    for i, x in zip(places, some, strict=True):
        found[i] = x
    return found


def double(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2 + 1


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


def matmul(size: int, block: int, epilogue: Function = lambda x: x) -> Function:
    """A product accumulated in scratch."""

    def body(x_ref: Any, y_ref: Any, o_ref: Any, sum_ref: Any) -> None:
        @tl.when(tl.program_id(2) == 0)
        def _() -> None:
            sum_ref[...] = tnp.zeros_like(sum_ref)

        sum_ref[...] += x_ref[...] @ y_ref[...]

        @tl.when(tl.program_id(2) == size // block - 1)
        def _() -> None:
            o_ref[...] = epilogue(sum_ref[...])

    tile = (block, block)
    return tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct((size, size), "float32"), grid=(size // block,) * 3,
        in_specs=[tl.BlockSpec(tile, lambda i, j, k: (i, k)), tl.BlockSpec(tile, lambda i, j, k: (k, j))],
        out_specs=tl.BlockSpec(tile, lambda i, j, k: (i, j)), scratch_shapes=[tl.VMEM(tile, "float32")])  # fmt: skip


def attention(causal: bool) -> Function:
    return lambda q, k, v: nn.dot_product_attention(q, k, v, is_causal=causal, implementation="fused")


def adamw(params: Any, grads: Any, state: Any) -> Any:
    return nn.adamw(params, grads, state, learning_rate=1e-3)


def loss(x: Any, w: Any, labels: Any) -> Any:
    return nn.linear_cross_entropy(x, w, labels).mean()


# ---------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Row:
    """A function of arrays of some shapes; with `donated`, of which its results may take the memory."""

    function: Function
    shapes: tuple[Any, ...]
    donated: tuple[int, ...] = ()

    def arguments(self) -> list[Any]:
        """Random arrays: of floats by a shape, of labels below a number by (shape, number), trees as they are."""
        rng = np.random.default_rng(0)

        def made(shape: Any) -> Any:
            if isinstance(shape, (list, dict)):
                return tw.tree.map(made, shape, is_leaf=lambda x: isinstance(x, tuple))
            if shape and isinstance(shape[0], tuple):
                return tw.device_put(rng.integers(0, shape[1], shape[0]).astype(np.int32))
            return tw.device_put(abs(rng.standard_normal(shape, np.float32)) if self.donated else
                                 rng.standard_normal(shape, np.float32))  # fmt: skip

        return [made(shape) for shape in self.shapes]


_M, _V, _P, _Q = (ROWS, COLUMNS), (COLUMNS,), (1024, 1024), (1, 1024, 16, 64)
_LEAVES = [(131072,)] * 100
_STATE = {"count": ((), 5), "m": _LEAVES, "v": _LEAVES}
_NORM = over_rows(layer_norm, 1, 2)
SUITE: dict[str, Row] = {
    "x * 2 + 1": Row(over_rows(double, 1), (_M,)),
    "softmax": Row(over_rows(softmax, 1), (_M,)),
    "softmax, gradient": Row(gradient(over_rows(softmax, 1), 0), (_M, _M)),
    "nn softmax": Row(nn.fused.softmax, (_M,)),
    "layer norm": Row(_NORM, (_M, _V, _V)),
    "layer norm, gradient of x": Row(gradient(_NORM, 0), (_M, _V, _V, _M)),
    "nn layer norm": Row(nn.layer_norm, (_M, _V, _V)),
    "nn layer norm, gradients": Row(gradient(nn.layer_norm, 0, 1, 2), (_M, _V, _V, _M)),
    "RMS norm and residual": Row(over_rows(rms_norm, 2, 1), (_M, _M, _V)),
    "rotary 8x1024x16x64": Row(nn.rotary_embedding, ((8, 1024, 16, 64),)),
    "AdamW 100x131072": Row(adamw, (_LEAVES, _LEAVES, _STATE), (0, 2)),
    "gelu": Row(over_rows(gelu, 1), (_M,)),
    "matmul 1024": Row(matmul(1024, 256), (_P, _P)),
    "matmul 1024 and gelu": Row(matmul(1024, 256, nn.gelu), (_P, _P)),
    "attention 16x1024x64": Row(attention(False), (_Q,) * 3),
    "attention, causal": Row(attention(True), (_Q,) * 3),
    "attention, gradients": Row(gradient(attention(False), 0, 1, 2), (_Q,) * 4),
    "attention, causal, gradients": Row(gradient(attention(True), 0, 1, 2), (_Q,) * 4),
    "cross entropy 1024x8192": Row(nn.cross_entropy, ((1024, 8192), ((1024,), 8192))),
    "linear, cross entropy": Row(loss, ((1024, 512), (512, 8192), ((1024,), 8192))),
    "linear, cross entropy, gradients": Row(tw.grad(loss, (0, 1)), ((1024, 512), (512, 8192), ((1024,), 8192))),
}


@dataclass(frozen=True)
class Figure:
    """The least CPU time of a call by XLA and by ours, in milliseconds; how many of the kernels are machine code."""

    xla: float
    ours: float
    code: str

    @property
    def ratio(self) -> float:
        return self.ours / self.xla


def measure(row: Row, route: str | None, seconds: float) -> Figure:
    """Both forms of a row in turns."""
    forms = {}
    for name in ("xla", route):
        with tw.config(cpu_route=name):
            # A function of its own: traces are kept by function and configuration.
            forms[name] = tw.jit(lambda *xs: row.function(*xs), donate_argnums=row.donated)
            given = row.arguments()
            forms[name].lower(*given).compile()
    found = {}
    for name, f in forms.items():
        with tw.config(cpu_route=name):
            found[name] = tw.tree.map(np.asarray, f(*row.arguments()))
    tw.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-3, atol=1e-3), found["xla"], found[route])
    best = dict.fromkeys(forms, math.inf)
    end, turns = time.perf_counter() + seconds, 0
    given = row.arguments()
    while turns < 5 or time.perf_counter() < end:
        for name, f in forms.items():
            with tw.config(cpu_route=name):
                start = time.process_time()
                made = tw.block_until_ready(f(*given))
                best[name] = min(best[name], (time.process_time() - start) * 1e3)
            if row.donated:  # results in the place of operands
                given = [made[0], given[1], made[1]]
        turns += 1
    return Figure(best["xla"], best[route], _routes(row, route))


def _routes(row: Row, route: str | None) -> str:
    with tw.config(cpu_route=route):
        found = [text for _, text in tw.explain(row.function, *row.arguments(), compile=True).routes]
    return f"{sum(text.startswith('machine code') for text in found)} of {len(found)}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--only", default="", help="rows whose names have this text")
    options.add_argument("--seconds", type=float, default=3.0, help="time for each row")
    options.add_argument("--route", choices=("machine_code",), help="all kernels by this route that it takes")
    options.add_argument("--compile", action="store_true", help="the time to compile the kernels of the corpus")
    options.add_argument("--json", type=Path, help="a file for the figures")
    given = options.parse_args()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    if given.compile:
        print(write(), end="")
        return
    print(f"{'':36}{'XLA ms':>10}{'ours ms':>10}{'ratio':>8}   kernels as machine code")
    figures = {}
    for name, row in SUITE.items():
        if given.only in name:
            one = figures[name] = measure(row, given.route, given.seconds)
            print(f"{name:36}{one.xla:10.2f}{one.ours:10.2f}{one.ratio:8.2f}   {one.code}", flush=True)
    mean = math.exp(sum(math.log(f.ratio) for f in figures.values()) / max(len(figures), 1))
    print(f"{'geometric mean of the ratios':36}{mean:28.2f}")
    if given.json is not None:
        rows = {name: {"xla_ms": f.xla, "ours_ms": f.ours, "ratio": f.ratio, "code": f.code}
                for name, f in figures.items()}  # fmt: skip
        given.json.write_text(json.dumps({"machine": description(), "geometric_mean": mean, "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
