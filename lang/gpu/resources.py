"""What a compiled kernel takes of its device, out of the assembler's account, checked against what the device has."""

from __future__ import annotations

import re

from ...core.support.errors import ResourceError, Source
from ..targets.target import Resources, Target
from .code import Compiled

REGISTER_BYTES = 4
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
