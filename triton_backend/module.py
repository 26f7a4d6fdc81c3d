"""What the printer makes of a kernel: the text of one Triton program, its launch, and what surrounds it."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.ir import Program
from ..core.types import ArrayType


@dataclass(frozen=True)
class TritonModule:
    """A kernel as a Triton program.

    `text` is TTIR with one public `tt.func @name` whose arguments are pointers: to `in_types`, then to `out_types`, all
    row-major. `grid` is the number of programs along x, y, z. `aliases` are (input, output) positions that share
    memory. `prepare` makes the inputs of the launch from the kernel's operands; `finish` makes the kernel's results
    from the kernel's operands followed by the launch's results; where they are None, types are the kernel's own.
    """

    name: str
    text: str
    grid: tuple[int, int, int]
    num_warps: int
    num_stages: int
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    prepare: Program | None = None
    finish: Program | None = None
    specialised: bool = False  # it asks for warps that copy and warps that compute
