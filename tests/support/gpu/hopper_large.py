"""Kernels with products in sizes for Hopper and Blackwell: the corpus, the fused library, and forms of products."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.support.corpus.runs import KERNELS
from tests.support.gpu.hopper_cases import (
    BYTES,
    EIGHT,
    HALF,
    SINGLE,
    WHOLE,
    attention,
    linear_cross_entropy,
    paged,
    product,
)
from tests.support.traced import kernels_in
from tilewright import config, vjp
from tilewright.core.ir.types import ArrayType
from tilewright.core.tracing.trace import typeof
from tilewright.kernels.fused.mlp import swiglu
from tilewright.lang.kernel.kernel import Kernel

# Kernels of the corpus: what `make` is given, and the blocks.
CORPUS: dict[str, tuple[tuple[Any, ...], dict[str, int]]] = {
    "matmul_grid": ((4096, 4096, 4096), dict(rows=128, columns=256, depth=64)),
    "matmul_loop": ((1024, 1024, 1024), dict(rows=128, columns=128, piece=64)),
    "batched_matmul": ((16, 1024, 1024, 1024), dict(rows=128, columns=128, depth=64)),
    "fused_matmul": ((4096, 4096, 4096), dict(rows=128, columns=128, depth=64)),
    "grouped_matmul": ((8192, 8, 256, 1024), dict(rows=128, columns=128)),
    "block_sparse_matmul": ((32, 32, 128, 128, 1024, 0.3), dict(width=128)),
    "flash_attention": ((16, 2048, 2048, 128), dict(rows=128, columns=128)),
    "int8_matmul": ((2048, 2048, 2048), dict(rows=128, columns=128, depth=128)),
    "int4_matmul": ((1024, 2048, 1024, 16), dict(rows=128, columns=128)),
}
BIG = dict(m=4096, n=4096, k=4096)


def of_corpus(name: str) -> list[Kernel]:
    module, (dims, blocks) = KERNELS[name], CORPUS[name]
    arrays = [np.asarray(a) for a in module.make(np.random.default_rng(0), *dims)]
    types = [ArrayType(a.shape, HALF) if a.dtype == np.float32 else typeof(a) for a in arrays]
    found = [kernels_in(functools.partial(module.call, **blocks, **mode), types)
             for mode in getattr(module, "MODES", ({},))]  # fmt: skip
    return [kernel for kernels in found for kernel in kernels]


def mlp() -> list[Kernel]:
    def run(x: Any, a: Any, b: Any, c: Any, ct: Any) -> Any:
        out, pull = vjp(swiglu, x, a, b, c)
        return out, pull(ct)

    shapes = (4096, 1024), (1024, 4096), (1024, 4096), (4096, 1024), (4096, 1024)
    with config(kernel_target="cuda:sm_90"):
        found = kernels_in(run, [ArrayType(s, HALF) for s in shapes])
    return [kernel for kernel in found if kernel.name.startswith("swiglu")]


def heads(d: int, **options: Any) -> Callable[[], list[Kernel]]:
    return lambda: attention(d=d, t=4096, **options)


# What is made, by the name it is shown under.
LARGE: dict[str, Callable[[], list[Kernel]]] = {
    **{name: functools.partial(of_corpus, name) for name in CORPUS},
    "product of float8": lambda: [product(**BIG, columns=256, dtype=EIGHT, depth=128, turned=(False, True))],
    "product of 8-bit integers": lambda: [
        product(**BIG, columns=256, dtype=BYTES, depth=128, turned=(False, True), sums=WHOLE, out=WHOLE)],
    "product in TF32": lambda: [
        product(**BIG, columns=256, dtype=SINGLE, out=SINGLE, depth=32, turned=(False, True))],
    "int8 weights": lambda: [product(**BIG, dtype=(HALF, BYTES), before=lambda a, b: (a, b.astype("float16")))],
    "attention, causal, grouped heads of 128": heads(128, is_causal=True),
    "attention, causal, heads of 80": heads(80, is_causal=True, kv_heads=2),
    "attention, a window, heads of 64": heads(64, local_window_size=(512, 0), kv_heads=2),
    "gated MLP and its gradient": mlp,
    "paged decoding, pages of 128, groups of 64": lambda: [paged(8, 16, 128, 128, 64)[0]],
    "paged decoding, pages of 128, groups of 128": lambda: [paged(8, 16, 128, 128, 128)[0]],
    "linear cross entropy": lambda: [linear_cross_entropy(4096, 32768, 4096)],
}  # fmt: skip
