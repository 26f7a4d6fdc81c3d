"""Names of Pallas that are not here, each with the reason or what takes its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..core.errors import NotAdaptedNameError

_TYPE = "it names a type; give the values themselves"
_MXU = "the matrix unit is used by products only: `lax.dot_general`"
_PIPELINE = "`emit_pipeline` makes its buffers itself: give `BlockSpec(buffering=)`, or copy with `async_copy`"
_SPARSE_CORE = "kernels run on TensorCores only"
_KEYS = "keys of `tilewright.random` go into kernels as they are; or seed with `prng_seed`"

PALLAS = {
    "BlockDim": _TYPE,
    "CompilerParams": "use that of the target: `lang.tpu.CompilerParams`, `lang.triton.CompilerParams`",
    "HOST": "operands are in the memory of the device: move them there before the call",
    "Indirect": "gather in the body, or give an index map that reads a prefetched table",
    "MemoryRef": _TYPE,
    "RevisitMode": "outputs may be revisited in any order: leave it out",
    "delay": "no target waits for a time: leave it out",
    "empty_ref_like": "state it as scratch: `VMEM(shape, dtype)`, or with `run_scoped`",
    "enable_debug_checks": "`debug_check` always checks: take it out of what is to be fast",
    "enable_poison_buffers": "use `config(debug_poison=True)`, or `interpret=True`",
    "get_global": "state a semaphore as scratch; `get_barrier_semaphore` is the one that devices share",
    "lower_as_mlir": 'use `tilewright.compile(f, *args, target=..., stop="module")`',
    "pallas_call_p": "the primitive is `kernel_call_p`",
    "pallas_export_experimental": "use `tilewright.export`",
    "semaphore": _TYPE,
}
TPU = {
    **dict.fromkeys(("ACC", "matmul_acc_lhs", "matmul_lhs_fifo", "matmul_pop", "matmul_pop_fifo", "matmul_push_rhs"),
                    _MXU),
    **dict.fromkeys(("BufferType", "BufferedRef", "BufferedRefBase", "PipelineStep", "emit_pipeline_with_allocations",
                     "emit_pipeline_with_async_prefetch"), _PIPELINE),
    **dict.fromkeys(("CoreType", "Tiling", "VMEM_SHARED"), _SPARSE_CORE),
    **dict.fromkeys(("sample_block", "to_pallas_key"), _KEYS),
    "CMEM": "no target has this memory",
    "LoweringException": "kernels raise a `TilewrightError`, and it says what is not supported",
    "conv": "use `lax.conv_general_dilated` in the body",
    "core_barrier": "cores of one kernel wait for each other at its end",
    "dma_semaphore": _TYPE,
    "einshape": "reshape and transpose the array",
    "touch": "accesses to Refs keep their order: leave it out",
    "trace_value": "use `debug_print`",
}  # fmt: skip
TRITON = {
    **dict.fromkeys(("GpuInfo", "GpuVersion", "get_gpu_info", "get_gpu_info_from_version", "is_gpu_device"),
                    "use `tilewright.lang.target.target_of(name)`"),
    "CUSTOM_CALL_TARGET_NAME": "kernels are calls of the driver, not of Triton's custom call",
}  # fmt: skip


def absent_from(module: str, names: Mapping[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module: an error that says why a name of Pallas is not there.

    >>> absent_from("lang", {"delay": "leave it out"})("delay")
    Traceback (most recent call last):
        ...
    tilewright.core.errors.NotAdaptedNameError: lang.delay is a name of Pallas that tilewright does not have
    ...
    """

    def find(name: str) -> Any:
        if name in names:
            raise NotAdaptedNameError(f"{module}.{name} is a name of Pallas that tilewright does not have", names[name])
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    return find
