"""Machine code for a GPU, as a backend's compiler gives it and a launch takes it."""

from __future__ import annotations

from dataclasses import dataclass


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
    def programs(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def scratch_bytes(self) -> int:
        """The global memory that a launch needs besides its operands and results, one program's after the other's."""
        return self.scratch * self.programs
