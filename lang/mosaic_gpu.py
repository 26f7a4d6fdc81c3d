"""The names that kernel authors know from Pallas for Hopper and Blackwell GPUs, and what kernels say of their form.

Two kinds of kernels are compiled by Mosaic GPU: those of `kernel_call`, of which warps that copy and warps that compute
are made, and those of `kernel` here, which are written for warpgroups.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..core.support.call_errors import public
from .frontend.warpgroup_kernel import kernel
from .kernel.missing_names import MOSAIC_GPU, absent_from
from .ops.interpret_params import InterpretParams, force_tpu_interpret_mode, set_tpu_interpret_mode
from .targets.compiler_params import Params
from .warpgroups.barriers import barrier_arrive, barrier_arrive_and_wait, barrier_wait, set_max_registers
from .warpgroups.hints import (
    BlockSpec,
    Layout,
    LoweringSemantics,
    OOBFillMode,
    TMEMLayout,
    async_prefetch,
    broadcasted_iota,
    find_swizzle,
    griddepcontrol_launch_dependents,
    griddepcontrol_wait,
    layout_cast,
    load,
    store,
)
from .warpgroups.loops import NDLoopInfo, dynamic_scheduling_loop, nd_loop, planar_snake
from .warpgroups.pipeline import emit_pipeline, emit_pipeline_warp_specialized
from .warpgroups.products import (
    async_load_tmem,
    async_store_tmem,
    commit_tmem,
    tcgen05_commit_arrive,
    tcgen05_mma,
    transpose_ref,
    wait_load_tmem,
    wgmma,
    wgmma_accumulator_load,
    wgmma_wait,
)
from .warpgroups.reductions import max, min, prod, sum
from .warpgroups.specs import (
    ACC,
    GMEM,
    REGS,
    SMEM,
    TMEM,
    Barrier,
    ClusterBarrier,
    MemorySpace,
    Mesh,
    SwizzleTransform,
    TilingTransform,
)
from .warpgroups.transfers import (
    CopyPartition,
    atomic_add,
    atomic_and,
    atomic_max,
    atomic_min,
    atomic_or,
    atomic_xor,
    commit_smem,
    commit_smem_to_gmem_group,
    copy_gmem_to_smem,
    copy_smem_to_gmem,
    wait_smem_to_gmem,
)
from .warpgroups.warps import warp_map

WGMMAAccumulatorRef = ACC
WarpgroupMesh = Mesh
InterpretGPUParams = InterpretParams
force_gpu_interpret_mode: Callable[..., Any]
set_gpu_interpret_mode: Callable[..., None]
force_gpu_interpret_mode, set_gpu_interpret_mode = force_tpu_interpret_mode, set_tpu_interpret_mode


if not TYPE_CHECKING:  # checkers report missing names themselves
    __getattr__ = absent_from(__name__, MOSAIC_GPU)


@public
@dataclass(frozen=True)
class CompilerParams(Params):
    """A kernel whose parameters are of this class is compiled by Mosaic GPU, where there is a choice.

    `num_stages`: at most so many iterations of a loop are prefetched; None: as many as shared memory holds, up to 8.
    `consumers`: how many warpgroups (128 threads) compute, each with its part of the rows of a block; None: 2 where the
    rows can be divided. `persistent`: whether there are as many blocks as multiprocessors, each of which makes tiles of
    results one after the other and copies ahead for the next one while it stores; None: where there are more tiles than
    multiprocessors and memory for it. `cluster`: 2 pairs blocks beside each other, which share what both read: on
    Hopper each copies one half of it to both, on Blackwell they compute joint products of 256 rows; 4 (Hopper): two by
    two, pairs along two axes of the grid; 1: they share nothing; None: 2 where it can be. `ping_pong`: whether two
    warpgroups alternate at the tensor cores, so that one computes while the other's products run (Hopper);
    None: where that is estimated to be faster. `backward`: the parameters of the kernels of its gradient; None: the
    same. What follows is of kernels written for warpgroups, names of Pallas's that change no value, and are not used.

    >>> CompilerParams(num_stages=4).num_stages
    4
    """

    num_stages: int | None = None
    consumers: int | None = None
    persistent: bool | None = None
    cluster: int | None = None
    ping_pong: bool | None = None
    backward: object | None = None
    approx_math: bool = False
    dimension_semantics: Sequence[Any] | None = None
    max_concurrent_steps: int = 1
    unsafe_no_auto_barriers: bool = False
    reduction_scratch_bytes: int = 2048
    lowering_semantics: Any = None


__all__ = [
    "ACC", "Barrier", "BlockSpec", "ClusterBarrier", "CompilerParams", "CopyPartition", "GMEM", "InterpretGPUParams",
    "Layout", "LoweringSemantics", "MemorySpace", "Mesh", "NDLoopInfo", "OOBFillMode", "REGS", "SMEM",
    "SwizzleTransform", "TMEM", "TMEMLayout", "TilingTransform", "WGMMAAccumulatorRef", "WarpgroupMesh",
    "async_load_tmem", "async_prefetch", "async_store_tmem", "atomic_add", "atomic_and", "atomic_max", "atomic_min",
    "atomic_or", "atomic_xor", "barrier_arrive", "barrier_arrive_and_wait", "barrier_wait", "broadcasted_iota",
    "commit_smem", "commit_smem_to_gmem_group", "commit_tmem", "copy_gmem_to_smem", "copy_smem_to_gmem",
    "dynamic_scheduling_loop", "emit_pipeline", "emit_pipeline_warp_specialized", "find_swizzle",
    "force_gpu_interpret_mode", "griddepcontrol_launch_dependents", "griddepcontrol_wait", "kernel", "layout_cast",
    "load", "max", "min", "nd_loop", "planar_snake", "prod", "set_gpu_interpret_mode", "set_max_registers", "store",
    "sum", "tcgen05_commit_arrive", "tcgen05_mma", "transpose_ref", "wait_load_tmem", "wait_smem_to_gmem", "warp_map",
    "wgmma", "wgmma_accumulator_load", "wgmma_wait",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
