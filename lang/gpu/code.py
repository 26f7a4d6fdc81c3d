"""A kernel as text for a GPU compiler, as machine code, and the resources that this takes.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...core.ir.program import Program
from ...core.ir.types import ArrayType
from ...core.support.errors import ResourceError, Source
from ..targets.target import Resources, Target


@dataclass(frozen=True)
class Module:
    """A kernel as a backend prints it.

    Its program takes pointers to `in_types`, then to `out_types`, all row-major. `grid` is the number of programs along
    x, y, z. `aliases` are the (input, output) indices that share memory. `prepare` makes the inputs of the launch from
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

    @classmethod
    def of(
        cls, module: Module, target: str, answer: Mapping[str, Any], shared: int, num_warps: int, scratch: int,
        scratch_align: int = 128, warp_size: int = 32,
    ) -> Compiled:  # fmt: skip
        """The machine code of a module, in the answer of its compiler's worker."""
        return cls(module.name, target, module.grid, base64.b64decode(answer["binary"]), answer["assembly"], shared,
                   num_warps, warp_size, scratch, scratch_align, answer["log"])  # fmt: skip

    @property
    def threads(self) -> int:
        """The threads of one program."""
        return self.num_warps * self.warp_size

    @property
    def scratch_bytes(self) -> int:
        """The global memory that a launch needs besides its operands and results, one program's after the other's."""
        return self.scratch * math.prod(self.grid)


REGISTER_BYTES = 4
# XLA's call loads PTX through the driver, which assembles it anew and knows the versions of its own release: those of
# CUDA 13.0, the oldest that XLA's plugin takes, end here (major * 10 + minor).
PTX_VERSION = 90
# ptxas's account of a kernel (CUDA binary utilities, `ptxas -v`); the AMD GPU metadata of a code object (LLVM, "User
# guide for AMDGPU backend", code object V5).
_PTXAS = {"registers": re.compile(r"Used (\d+) registers"), "spills": re.compile(r"(\d+) bytes spill stores")}
_AMD = {"registers": re.compile(r"\.vgpr_count:\s+(\d+)"), "spills": re.compile(r"\.vgpr_spill_count:\s+(\d+)")}


def resources(compiled: Compiled, machine: Target) -> Resources:
    """Shared memory of a program, registers of a thread and bytes spilled to memory by a thread."""
    cuda = machine.kind == "cuda"
    text, patterns = (compiled.log, _PTXAS) if cuda else (compiled.assembly, _AMD)
    found = {name: [int(n) for n in pattern.findall(text)] for name, pattern in patterns.items()}
    registers, spills = (max(found[name], default=None) for name in ("registers", "spills"))
    if spills is not None and not cuda:
        spills *= REGISTER_BYTES
    return Resources(compiled.name, compiled.shared, machine.fast_bytes, registers, spills)


def check(compiled: Compiled, machine: Target, source: Source | None = None) -> None:
    """Raise a `ResourceError` for a kernel that needs more shared memory than a program may have."""
    if compiled.shared > machine.fast_bytes:
        raise ResourceError(
            f"kernel {compiled.name} needs {compiled.shared} bytes of shared memory; a program on {machine.name} has "
            f"{machine.fast_bytes}",
            "smaller blocks, or fewer stages: `compiler_params=lang.triton.CompilerParams(num_stages=...)`",
            source,
        )
