"""Whether a target can take a kernel: dtypes, tiles, memory, cores. What is wrong is said before a compiler sees it.

The rules are the figures of `lang/targets/target.py`. As in `verify.py`, what cannot be is an error; a Finding is
`proved`, or `unknown` where the backend has to help itself (a block that is no whole number of tiles is cut out
beforehand) or only the compiler can tell.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...core.ir.types import FAR, MemorySpace
from ...core.support.errors import DtypeError, KernelError, ResourceError, UnsupportedError
from ..kernel.kernel import Block, Kernel
from ..ops.basic import next_power_of_2
from ..targets.target import KIB, MIB, Target, target_of
from ..transforms.fit_vmem import ELSEWHERE, bits_of, in_vmem, vmem_bytes
from ..transforms.spmd_exchange import exchanged
from ..warpgroups.checks import check_target_of
from ..warpgroups.specs import mesh_of
from .communication import communicates
from .verify import Finding

_WHOLE_TILES, _FITS = "in whole tiles", "fits"


@dataclass(frozen=True)
class TilingFault:
    """One axis of a block that is neither a multiple of the tile nor whole: what, and what would be."""

    what: str
    remedy: str
    legal: tuple[int, ...]


def check_target(kernel: Kernel, target: str | Target) -> list[Finding]:
    """Check a kernel against what a target has; gives what was proved and what stays to the compiler.

    Raises:
      DtypeError: a dtype that the target does not have.
      ResourceError: blocks, buffers and scratch that exceed a memory.
      UnsupportedError: axes divided among cores of which the target has one.
      ArgumentError: an unknown target.
    """
    target = target_of(target)
    if target.kind == "cpu" or kernel.cells == 0:
        return []
    if kernel.symbolic:
        raise UnsupportedError(f"the kernel {kernel.name} has symbolic sizes, and {target.kind} launches known grids",
                               "export it for each size, or for the platform alone, where XLA computes kernels",
                               kernel.source)  # fmt: skip
    _check_dtypes(kernel, target)
    if mesh_of(kernel) is not None:
        check_target_of(kernel, target)
        return []
    _check_cores(kernel, target)
    return _tpu(kernel, target) if target.kind == "tpu" else _gpu(kernel, target)


def left_to_collectives(kernel: Kernel, target: Target) -> UnsupportedError | None:
    """Why XLA's collectives replace a kernel's sends to other devices; None where the kernel sends itself.

    Raises:
      UnsupportedError: devices that take different branches, which no collective can express.
    """
    if not target.gpu or not communicates(kernel):
        return None
    exchanged(kernel)
    return UnsupportedError(
        f"it copies to other devices, or signals them, and kernels for {target.name} have no memory that other devices "
        "reach: its copies are XLA's collectives, and its blocks run one after the other",
        "for speed use collectives of `lax` around kernels of one device, as `kernels.collective` does on GPUs",
        kernel.source)  # fmt: skip


def _check_dtypes(kernel: Kernel, target: Target) -> None:
    named = [(b.name, b.array) for b in kernel.blocks]
    named += [(f"scratch {i}", s.array) for i, s in enumerate(kernel.scratch)]
    for name, array in named:
        if str(array.dtype) in target.refused:
            raise kernel.error(DtypeError, f"{name} is {array.show()}, and {target.name} has no {array.dtype}",
                               f"convert it before the kernel, to {_instead(str(array.dtype))}")  # fmt: skip


def _instead(dtype: str) -> str:
    if dtype.startswith("complex"):
        return "real and imaginary parts"
    return "bfloat16" if dtype.startswith("float8") else "float32" if dtype.startswith("float") else "int32"


def _check_cores(kernel: Kernel, target: Target) -> None:
    axes = dict(kernel.settings).get("core_axes")
    if axes and target.kind == "tpu" and target.units == 1:
        raise kernel.error(UnsupportedError, f"axis {axes[0]} of the grid {kernel.grid} is to be divided among cores; "
                           f"a device of {target.name} is one TensorCore",
                           'declare the axis "parallel", which asks for no more cores than there are')  # fmt: skip


# --------------------------------------------------------------------------------------------------- TPU


def tiling_faults(block: Block, target: Target) -> list[TilingFault]:
    """The axes along which a block is neither a whole number of the array's tiles nor the whole axis."""
    if block.index_map is None or block.space in ELSEWHERE:
        return []
    faults = []
    for back, unit in enumerate(reversed(target.tile(block.array.shape, bits_of(block.array.dtype))), 1):
        size, whole = block.sizes[-back], block.array.shape[-back]
        if size % unit == 0 or size == whole:
            continue
        legal = sorted({n for n in (size // unit * unit, (size // unit + 1) * unit) if 0 < n < whole})
        axis = "last dimension" if back == 1 else "last dimension but one"
        machine = target.name.partition(":")[2]
        offered = f"{', '.join(map(str, legal))}{' or ' if legal else ''}the full {whole}"
        faults.append(TilingFault(
            f"the {axis} of operand `{block.name}` is {size}; {machine} tiles it by {unit}", f"use {offered}",
            (*legal, whole)))  # fmt: skip
    return faults


def _tpu(kernel: Kernel, target: Target) -> list[Finding]:
    findings = []
    for block in kernel.blocks:
        faults = tiling_faults(block, target)
        why = "; ".join(f"{f.what}: {f.remedy}" for f in faults)
        findings.append(Finding(_WHOLE_TILES, block.name, "unknown" if faults else "proved", why))
    _check_smem(kernel, target)
    return [*findings, _vmem(kernel, target)]


def _vmem(kernel: Kernel, target: Target) -> Finding:
    fitted = in_vmem(kernel, target)
    held = sorted(vmem_bytes(fitted.kernel, target), key=lambda p: -p[1])
    total = sum(size for _, size in held)
    most, given = target.fast_bytes, target.default_bytes
    parts = ", ".join(f"{name} {size / KIB:,.0f} KiB" for name, size in held[:4])
    if total > most:
        raise kernel.error(ResourceError, f"blocks and scratch take {total / MIB:,.1f} MiB of VMEM ({parts}); "
                           f"{target.name} has {most // MIB} MiB", "use smaller blocks, or fewer buffers")  # fmt: skip
    if total > given:
        why = f"{total / MIB:,.1f} MiB ({parts}) are more than the {given // MIB} MiB that a kernel gets unasked"
        return Finding(_FITS, "VMEM", "unknown", why)
    return Finding(_FITS, "VMEM", "proved", fitted.note(kernel))


def _check_smem(kernel: Kernel, target: Target) -> None:
    arrays = [*kernel.prefetch, *(s.array for s in kernel.scratch if s.space == MemorySpace.SMEM)]
    arrays += [b.array for b in kernel.blocks if b.space == MemorySpace.SMEM]
    total = sum(4 * math.prod(t.shape) for t in arrays)
    if total > target.scalar_bytes:
        raise kernel.error(ResourceError, f"prefetched operands and scratch take {total / KIB:,.0f} KiB of SMEM; "
                           f"{target.name} has {target.scalar_bytes // KIB} KiB",
                           "prefetch fewer scalars, or read them from a block in VMEM")  # fmt: skip


# --------------------------------------------------------------------------------------------------- GPU


def _gpu(kernel: Kernel, target: Target) -> list[Finding]:
    findings = []
    if target.grid_limit is not None and kernel.cells > target.grid_limit:
        raise kernel.error(KernelError, f"the grid {kernel.grid} has {kernel.cells:,} cells; {target.name} launches at "
                           f"most {target.grid_limit:,}", "use larger blocks")  # fmt: skip
    for block in kernel.blocks:
        if block.space not in FAR:
            findings.append(_value(block, target))
    return findings


def _value(block: Block, target: Target) -> Finding:
    """A block as one value of a program: its sizes become powers of two, and there is a most."""
    padded = [next_power_of_2(n) for n in block.shape]
    elements = math.prod(padded)
    if target.block_limit is not None and elements > target.block_limit:
        why = f"a block of {elements:,} elements; one value has at most {target.block_limit:,}: read it in parts"
        return Finding(_FITS, block.name, "unknown", why)
    if elements * block.array.dtype.itemsize > target.register_bytes:
        why = (f"a block of {elements * block.array.dtype.itemsize // KIB} KiB; the registers of a core have "
               f"{target.register_bytes // KIB}: use smaller blocks")  # fmt: skip
        return Finding(_FITS, block.name, "unknown", why)
    if padded != list(block.shape):
        why = f"the block is {'x'.join(map(str, block.shape))}, computed as {'x'.join(map(str, padded))}"
        return Finding("sizes are powers of two", block.name, "unknown", why)
    return Finding("sizes are powers of two", block.name, "proved")
