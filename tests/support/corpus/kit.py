"""What every kernel of the corpus states beside itself.

A kernel's file has `call(*arrays, **blocks, **changes)`, where `changes` go to `kernel_call` in place of its own
arguments; `reference(np, *arrays)`, the plain function in the names that NumPy and `tilewright.numpy` share;
`make(rng, *dims)`, the arrays; `SIZES`; `DIFFERENTIABLE`, the numbers of the arguments with a gradient; and `WRONG`,
variants with an error put in. Optional: `TOLERANCE`, `SECOND` (its second derivative is tested too), `UNBATCHED` (the
numbers of the arguments that `vmap` leaves alone), `MODES` (keyword arguments of both `call` and `reference`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


class Size:
    """One case: what `make` is given, and the block sizes that `call` is given."""

    def __init__(self, *dims: Any, **blocks: Any):
        self.dims, self.blocks = dims, blocks

    def __repr__(self) -> str:
        return "x".join(map(str, self.dims)) + "".join(f"-{k}{v}" for k, v in self.blocks.items())


@dataclass(frozen=True)
class Wrong:
    """A variant that must be refused with `error`, whose message has all of `words`."""

    error: type[Exception]
    call: Callable[..., Any]
    words: tuple[str, ...]
    size: Size | None = None  # else the first of the file's sizes


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Standard normal float32 numbers."""
    return rng.standard_normal(shape, dtype=np.float32)
