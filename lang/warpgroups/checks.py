"""What is wrong with a kernel for warpgroups before it runs, and where it cannot."""

from __future__ import annotations

from ...core.ir.program import every_eqn, subprograms
from ...core.ir.types import MemorySpace
from ...core.support.errors import InputWriteError, KernelBodyError, ResourceError, UnsupportedError
from ..kernel.kernel import Kernel
from ..ops.dma import PRIMITIVES as COPIES
from ..targets.target import KIB, Target
from .common import GLOBAL
from .products import COLUMNS, PRIMITIVES, wait_products_p, wgmma_p
from .specs import mesh_of

HOPPER, BLACKWELL = ("cuda:sm_90", "cuda:sm_90:h200"), ("cuda:sm_100",)
_TENSOR = frozenset(PRIMITIVES) - {wgmma_p, wait_products_p}
_COPIES = frozenset(COPIES)


def refuse(kernel: Kernel, where: str) -> None:
    """Raise an `UnsupportedError` for a kernel for warpgroups on what has none."""
    if mesh_of(kernel) is not None:
        raise UnsupportedError(
            f"kernel {kernel.name} is written for the warpgroups of Hopper and Blackwell GPUs, which {where} does not "
            "have", "interpret it (`interpret=True`), or compile it for `cuda:sm_90` or `cuda:sm_100`; elsewhere call "
            "another kernel", kernel.source)  # fmt: skip


def check_mesh(kernel: Kernel) -> None:
    """Raise for what no kernel for warpgroups does: it writes no operand, and copies by the copy engine alone."""
    first, outputs = kernel.splits[1:3]
    for effect in kernel.body.effects:
        if effect.kind in ("write", "accumulate") and isinstance(effect.operand, int) and (
                first <= effect.operand < outputs):  # fmt: skip
            raise kernel.error(InputWriteError, f"it writes operand {kernel.inputs[effect.operand - first].name}",
                               "write to an output, or to shared memory")  # fmt: skip
    for n, type_ in enumerate(kernel.scratch):
        if type_.space in (MemorySpace.VMEM, *GLOBAL):
            raise kernel.error(KernelBodyError, f"scratch {kernel.scratch_name(kernel.splits[3] + n)} is in "
                               f"{type_.space}, which warpgroups do not have",
                               "state `lang.mosaic_gpu.SMEM(shape, dtype)`, TMEM, ACC or a Barrier")  # fmt: skip
    for eqn in every_eqn(kernel.body):
        if eqn.primitive in _COPIES or any(e.kind == "device" for e in eqn.effects) and not list(subprograms(eqn)):
            raise kernel.error(
                KernelBodyError, f"{eqn.primitive} in a kernel for warpgroups",
                "copy by `copy_gmem_to_smem` and `copy_smem_to_gmem`, and wait at a Barrier", eqn.source)  # fmt: skip


def check_target_of(kernel: Kernel, target: Target) -> None:
    """Raise where a target cannot take a kernel for warpgroups.

    Raises:
      UnsupportedError: another kind of device, or products of the other generation.
      ResourceError: more shared or tensor memory than there is.
    """
    if target.name not in (*HOPPER, *BLACKWELL):
        refuse(kernel, target.name)
    for wanted, there, name, instead in ((_TENSOR, BLACKWELL, "tensor memory and its products", "`wgmma`"),
                                         (frozenset({wgmma_p}), HOPPER, "`wgmma`", "`tcgen05_mma`")):  # fmt: skip
        eqn = next((e for e in every_eqn(kernel.body) if e.primitive in wanted), None)
        if eqn is not None and target.name not in there:
            raise kernel.error(UnsupportedError, f"{eqn.primitive}: {target.name} has no {name}",
                               f"use {instead}, or compile for {there[0]}", eqn.source)  # fmt: skip
    held = {space: [s for s in kernel.scratch if s.space is space] for space in (MemorySpace.SMEM, MemorySpace.TMEM)}
    shared = sum(s.array.nbytes for s in held[MemorySpace.SMEM])
    if shared > target.fast_bytes:
        raise kernel.error(ResourceError, f"its SMEM takes {shared / KIB:,.0f} KiB; a block on {target.name} has "
                           f"{target.fast_bytes // KIB} KiB", "use fewer buffers, or smaller ones")  # fmt: skip
    columns = sum(s.shape[-1] * s.dtype.itemsize // 4 for s in held[MemorySpace.TMEM])
    if columns > COLUMNS:
        raise kernel.error(ResourceError, f"its TMEM takes {columns} columns, and there are {COLUMNS}",
                           "use fewer accumulators, or smaller ones")  # fmt: skip
