"""What is stated of a kernel that an author writes: the call, the same in plain array operations, and operands.

`call(*arrays, **blocks)`; `plain(np, *arrays)` in the names that NumPy and `tilewright.numpy` share; `make(rng)`, small
operands; `derived` are the numbers of those with a gradient, `axes` those of `vmap`. For devices: `large`, shapes and
dtypes at a size that matters, and the `blocks` there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import tilewright as tw


@dataclass(frozen=True)
class Case:
    """A kernel with what is said above."""

    name: str
    call: Callable[..., Any]
    plain: Callable[..., Any]
    make: Callable[..., Any]
    large: tuple[Any, ...]
    derived: tuple[int, ...] = ()
    axes: tuple[int | None, ...] | None = None
    blocks: dict[str, Any] = field(default_factory=dict)
    tolerance: float = 2e-5

    def operands(self, seed: int = 0) -> list[np.ndarray]:
        return list(self.make(np.random.default_rng(seed)))


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def typed(dtype: str) -> Callable[..., Any]:
    return lambda *shape: tw.ShapeDtypeStruct(shape, dtype)


F32, BF16, I32, I8, U32 = map(typed, ("float32", "bfloat16", "int32", "int8", "uint32"))
