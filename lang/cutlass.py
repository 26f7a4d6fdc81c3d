"""What a kernel says of its form as a CUTLASS product, or the C++ that it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.ir.types import ArrayType
from ..core.support.call_errors import public
from .targets.compiler_params import Params


@public
@dataclass(frozen=True)
class CompilerParams(Params):
    """A kernel whose parameters are of this class is compiled by CUTLASS, and by nothing else.

    `tile`: rows, columns and depth of the product that a block of threads makes at a time (on Blackwell two blocks of
    one cluster, where `cluster` has two along the rows); `cluster`: how many blocks along rows and columns share what
    they load; `stages`: how many tiles are loaded ahead. None: chosen from the sizes. `backward`: what the kernels of
    its gradient use instead; None: the same, and where one is no such product, Triton compiles it.

    >>> CompilerParams(tile=(128, 128, 64)).cluster is None
    True
    """

    tile: tuple[int, int, int] | None = None
    cluster: tuple[int, int] | None = None
    stages: int | None = None
    backward: object | None = None


@dataclass(frozen=True)
class Source(Params):
    """A kernel in CUDA C++ of its author's: `entry` is a `__global__` function with C linkage in `text`.

    It is launched as `grid` blocks of `threads`, each with `shared` bytes of dynamic shared memory, on pointers to
    operands of `in_types`, to results of `out_types`, and to `scratch` bytes, of which there may be none.
    """

    text: str
    entry: str
    grid: tuple[int, int, int]
    threads: int
    shared: int
    scratch: int
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]


__all__ = ["CompilerParams", "Source"]
__dir__: Callable[[], list[str]] = __all__.copy
