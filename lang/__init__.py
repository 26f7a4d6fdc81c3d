"""The kernel language: Refs, BlockSpecs, a grid, memory spaces, and `kernel_call`.

The names and their meaning are those of `jax.experimental.pallas`.
"""

if __name__ != "tilewright.lang":
    raise ImportError("import tilewright.lang, not lang: the repository root is on sys.path")

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..core.ir.types import MemorySpace
from . import cpu, cutlass, mosaic_gpu, tpu, triton
from .call.kernel_call import kernel_call, pallas_call
from .call.primitive import kernel_call_p
from .cost.estimate import CostEstimate, estimate_cost
from .frontend.auto_tiling import auto
from .frontend.core_map import CoreMesh, core_map, kernel
from .frontend.mutable_arrays import run_state
from .frontend.visualize import visualize
from .interpret.interpreter import interpret
from .kernel.block_spec import (
    ANY,
    HBM,
    SEMAPHORE,
    SMEM,
    VMEM,
    Blocked,
    BlockSpec,
    BoundedSlice,
    Buffered,
    Element,
    GridSpec,
    PrefetchScalarGridSpec,
    Squeezed,
    no_block_spec,
    squeezed,
)
from .kernel.kernel import Block, Kernel
from .kernel.missing_names import OF_TRITON, PALLAS, absent_from
from .ops.atomics import atomic_add, atomic_and, atomic_cas, atomic_max, atomic_min, atomic_or, atomic_xchg, atomic_xor
from .ops.basic import (
    Slice,
    addupdate,
    align_to,
    broadcast_to,
    cdiv,
    ds,
    dslice,
    empty,
    empty_like,
    load,
    multiple_of,
    next_power_of_2,
    num_programs,
    program_id,
    store,
    strides_from_shape,
    swap,
    when,
)
from .ops.debug import debug_check, debug_print
from .ops.dma import SemaphoreType, async_copy, make_async_copy, semaphore_read, semaphore_wait, sync_copy
from .ops.dynamic_slices import select_ref
from .ops.emit_pipeline import emit_pipeline, loop
from .ops.interpret_params import InterpretParams
from .ops.low_precision import dot_scaled, histogram, pack, stochastic_round, unpack
from .ops.mesh_axes import DeviceIdType
from .ops.prng import (
    counter_bernoulli,
    counter_bits,
    counter_normal,
    counter_uniform,
    prng_random_bits,
    prng_seed,
    stateful_bernoulli,
    stateful_bits,
    stateful_normal,
    stateful_uniform,
)
from .ops.remote_dma import async_remote_copy, get_barrier_semaphore, make_async_remote_copy, semaphore_signal
from .ops.run_scoped import run_scoped, with_scoped
from .partition.custom_rule import Partition
from .transforms.dynamic_grid import dynamic

if not TYPE_CHECKING:  # checkers report missing names themselves
    __getattr__ = absent_from("lang", PALLAS, OF_TRITON)

__all__ = [
    "ANY", "Block", "BlockSpec", "Blocked", "BoundedSlice", "Buffered", "CoreMesh", "CostEstimate", "DeviceIdType",
    "Element", "GridSpec", "HBM", "InterpretParams", "Kernel", "MemorySpace", "Partition", "PrefetchScalarGridSpec",
    "SEMAPHORE", "SMEM", "SemaphoreType", "Slice", "Squeezed", "VMEM", "addupdate", "align_to", "async_copy",
    "async_remote_copy", "atomic_add", "atomic_and", "atomic_cas", "atomic_max", "atomic_min", "atomic_or",
    "atomic_xchg", "atomic_xor", "auto", "broadcast_to", "cdiv", "core_map", "counter_bernoulli", "counter_bits",
    "counter_normal", "counter_uniform", "cpu", "cutlass", "debug_check", "debug_print", "dot_scaled", "ds",
    "dslice", "dynamic", "emit_pipeline", "empty", "empty_like", "estimate_cost", "get_barrier_semaphore",
    "histogram", "interpret", "kernel", "kernel_call", "kernel_call_p", "load", "loop", "make_async_copy",
    "make_async_remote_copy", "mosaic_gpu", "multiple_of", "next_power_of_2", "no_block_spec", "num_programs",
    "pack", "pallas_call", "prng_random_bits", "prng_seed", "program_id", "run_scoped", "run_state", "select_ref",
    "semaphore_read", "semaphore_signal", "semaphore_wait", "squeezed", "stateful_bernoulli", "stateful_bits",
    "stateful_normal", "stateful_uniform", "stochastic_round", "store", "strides_from_shape", "swap", "sync_copy",
    "tpu", "triton", "unpack", "visualize", "when",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
