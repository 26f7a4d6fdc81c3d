"""Kernels of `tests/support/corpus` as cases of the table on devices: at a small size, and at one that matters."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import tilewright as tw
from tests.support.authors.kit import Case
from tests.support.corpus.kit import Size
from tests.support.corpus.runs import KERNELS, tolerance

LARGE: dict[str, tuple[Size, dict[int, str]]] = {  # and the operands that have another dtype there
    "flash_attention": (Size(8, 1024, 1024, 64, rows=64, columns=64), dict.fromkeys((0, 1, 2), "bfloat16")),
    "grouped_matmul": (Size(2048, 8, 256, 512, rows=128, columns=128), dict.fromkeys((0, 1), "bfloat16")),
    "block_sparse_matmul": (Size(16, 16, 128, 128, 512, 0.4, width=128), dict.fromkeys((3, 4), "bfloat16")),
    "int8_matmul": (Size(512, 1024, 512, rows=128, columns=128, depth=128), {}),
    "int4_matmul": (Size(256, 1024, 512, 8, rows=128, columns=128), {0: "bfloat16"}),
    "fused_matmul": (Size(512, 1024, 512, rows=128, columns=128, depth=128), dict.fromkeys(range(4), "bfloat16")),
    "selective_scan": (Size(4, 512, 512, 16, steps=16, channels=128), {}),
    "conv1d": (Size(4096, 5, 64, 128, block=128), {}),
    "conv2d": (Size(64, 64, 3, 3, 32, 64, rows=8, columns=16), {}),
    "stencil": (Size(1024, 1024, rows=32, columns=128), {}),
    "embedding": (Size(512, 4096, 512, columns=128), {}),
    "histogram": (Size(65536, block=1024), {}),
    "dropout": (Size(2**20, block=1024), {}),
    "layer_norm": (Size(1024, 1024, rows=8), {}),
    "cumsum": (Size(4096, 512, rows=64, columns=128), {}),
    "in_place": (Size(2**20, block=1024), {}),
    "async_copy": (Size(16, 8, 1024, columns=128), {}),
}


def _case(name: str) -> Case:
    kernel: Any = KERNELS[name]
    small, (size, dtypes) = kernel.SIZES[-1 if name == "flash_attention" else 0], LARGE[name]
    arrays = kernel.make(np.random.default_rng(0), *size.dims)
    large = tuple(tw.ShapeDtypeStruct(a.shape, dtypes.get(i, str(a.dtype))) for i, a in enumerate(arrays))
    alone = getattr(kernel, "UNBATCHED", ())
    axes = tuple(None if i in alone else 0 for i in range(len(arrays)))

    def make(rng: Any) -> Any:
        return kernel.make(rng, *small.dims)

    call = functools.partial(kernel.call, **small.blocks)
    return Case(name, call, kernel.reference, make, large, tuple(kernel.DIFFERENTIABLE), axes, size.blocks,
                tolerance(kernel))  # fmt: skip


@functools.cache
def cases() -> tuple[Case, ...]:
    """A case for each of them."""
    return tuple(map(_case, LARGE))
