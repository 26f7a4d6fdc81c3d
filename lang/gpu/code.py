"""A kernel as text for a compiler for GPUs, and as the machine code that a launch takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...core.ir.program import Program
from ...core.ir.types import ArrayType


@dataclass(frozen=True)
class Module:
    """A kernel as a backend prints it.

    Its program takes pointers to `in_types`, then to `out_types`, all row-major. `grid` is the number of programs along
    x, y, z. `aliases` are (input, output) positions that share memory. `prepare` makes the inputs of the launch from
    the kernel's operands, `finish` the kernel's results from its operands followed by the launch's results; where they
    are None, types are the kernel's own.
    """

    name: str
    text: str
    grid: tuple[int, int, int]
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    prepare: Program | None = None
    finish: Program | None = None


@dataclass(frozen=True)
class Compiled:
    """A kernel as machine code.

    `binary` is a cubin or an hsaco, `assembly` its PTX or AMD GPU assembly. A program takes `shared` bytes of shared
    memory, `num_warps` warps and `scratch` bytes of global memory aligned to `scratch_align`. `log` is the assembler's
    account.
    """

    name: str
    target: str
    grid: tuple[int, int, int]
    binary: bytes
    assembly: str
    shared: int
    num_warps: int
    warp_size: int
    scratch: int
    scratch_align: int
    log: str

    @property
    def threads(self) -> int:
        """The threads of one program."""
        return self.num_warps * self.warp_size

    @property
    def scratch_bytes(self) -> int:
        """The global memory that a launch needs besides its operands and results, one program's after the other's."""
        return self.scratch * math.prod(self.grid)
