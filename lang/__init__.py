"""The kernel language: Refs, BlockSpecs, a grid, memory spaces, and `kernel_call`.

The names and their meaning are those of `jax.experimental.pallas`.
"""

if __name__ != "tilewright.lang":
    raise ImportError("import tilewright.lang, not lang: the repository root is on sys.path")

from ..core.types import MemorySpace
from .block import (
    ANY,
    HBM,
    SEMAPHORE,
    SMEM,
    VMEM,
    Blocked,
    BlockSpec,
    Element,
    GridSpec,
    PrefetchScalarGridSpec,
    Squeezed,
    no_block_spec,
    squeezed,
)
from .call import kernel, kernel_call, pallas_call
from .interpret import interpret
from .kernel import Block, Kernel
from .ops import (
    Slice,
    addupdate,
    align_to,
    cdiv,
    ds,
    dslice,
    load,
    multiple_of,
    next_power_of_2,
    num_programs,
    program_id,
    store,
    swap,
    when,
)
from .primitive import kernel_call_p

__all__ = [
    "ANY", "Block", "BlockSpec", "Blocked", "Element", "GridSpec", "HBM", "Kernel", "MemorySpace",
    "PrefetchScalarGridSpec", "SEMAPHORE", "SMEM", "Slice", "Squeezed", "VMEM", "addupdate", "align_to", "cdiv", "ds",
    "dslice", "interpret", "kernel", "kernel_call", "kernel_call_p", "load", "multiple_of", "next_power_of_2",
    "no_block_spec",
    "num_programs", "pallas_call", "program_id", "squeezed", "store", "swap", "when",
]  # fmt: skip
