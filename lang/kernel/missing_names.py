"""Names of Pallas and Triton that are not here, or patterns of them, each with the reason or what takes its place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from types import MappingProxyType
from typing import Any

from ...core.support.errors import NotAdaptedNameError

_TYPE = "it names a type; give the values themselves"
_MXU = "the matrix unit is used by products only: `lax.dot_general`"
_PIPELINE = "`emit_pipeline` makes its buffers itself: give `BlockSpec(buffering=)`, or copy with `async_copy`"
_SPARSE_CORE = "kernels run on TensorCores only"
_BITS = "shift and mask integers of 8 bits: `(x >> 4) & 3`; or `unpack_elementwise`"
_KEYS = "keys of `tilewright.random` go into kernels as they are; or seed with `prng_seed`"
_COMPILER = "it is of a compiler that is not used here: write what it does in operations of this module"
_LAYOUT = "it is a part of a layout, which follows here from how a value is used: leave it out"
_DEVICES = ("it reaches the memory of other devices, which a kernel for warpgroups does not: exchange arrays around "
            "the kernel (`lax.psum`, `lax.ppermute`)")  # fmt: skip
_BLOCKS = (
    "of another block of the cluster, which copies alone reach: copy by `copy_gmem_to_smem(..., collective_axes=...)`"
)
_SCALES = ("it puts into tensor memory what products with scales or of sparse operands read, which there are none of: "
           "scale the operands or the sums, in registers")  # fmt: skip

# What Triton has under the name that NumPy, or `lax`, has it under.
NUMPY = (
    "abs", "arange", "argmax", "argmin", "argsort", "ceil", "clip", "concatenate", "cos", "cumprod", "cumsum",
    "exp", "exp2", "flip", "floor", "full", "full_like", "log", "log2", "max", "maximum", "mean", "min", "minimum",
    "ones", "ravel", "reshape", "sin", "sort", "split", "sqrt", "stack", "sum", "tanh", "transpose",
    "where", "zeros", "zeros_like",
)  # fmt: skip
LAX = ("associative_scan", "broadcasted_iota", "erf", "fori_loop", "reduce", "rsqrt", "while_loop")
DTYPES = (
    "bfloat16", "float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "int8", "int16", "int32", "int64",
    "uint8", "uint16", "uint32", "uint64",
)  # fmt: skip
_DESCRIPTOR = "state the block by a `BlockSpec`: copies by TMA are made of it"

PALLAS = {
    "BlockDim": _TYPE,
    "CompilerParams": "use that of the target: `lang.{cpu,triton,tpu,mosaic_gpu}.CompilerParams`",
    "HOST": "a kernel reaches the memory of its device alone: move operands there before the call (`device_put`)",
    "Indirect": "gather in the body, or give an index map that reads a prefetched table",
    "MemoryRef": _TYPE,
    "RevisitMode": "outputs may be revisited in any order: leave it out",
    "debug_checks_enabled": "`debug_check` always checks: there is nothing to ask for",
    "delay": "no target waits for a time: leave it out",
    "dot": "use `numpy.dot`, or `@`",
    "empty_ref_like": "state it as scratch: `VMEM(shape, dtype)`, or with `run_scoped`",
    "enable_debug_checks": "`debug_check` always checks: take it out of what is to be fast",
    "enable_poison_buffers": "use `config(debug_poison=True)`, or `interpret=True`",
    "get_global": "state a semaphore as scratch; `get_barrier_semaphore` is the one that devices share",
    "lower_as_mlir": 'use `tilewright.compile(f, *args, target=..., stop="module")`',
    "pallas_call_p": "the primitive is `kernel_call_p`",
    "pallas_export_experimental": "use `tilewright.export`",
    "reciprocal": "use `lang.tpu.reciprocal`",
    "semaphore": _TYPE,
    "TPUCompilerParams": "use `lang.tpu.CompilerParams`",
    "TPUMemorySpace": "use `MemorySpace`",
}
# Names of Triton's language, which authors of its kernels type.
OF_TRITON = {
    "constexpr": "a number of Python's is known while tracing: pass it as it is",
    "jit": "a kernel is a function over Refs: pass it to `lang.kernel_call`",
    "num_warps": "use `lang.triton.CompilerParams(num_warps=...)`",
    "static_range": "use Python's `range`",
    "range": "use `lax.fori_loop`, or Python's `range` for a loop that is unrolled",
    "view": "use `lax.bitcast_convert_type`",
    "trans": "use `numpy.transpose`, or `x.T`",
    "expand_dims": "use `numpy.expand_dims`, or `x[:, None]`",
    "rand": "use `lang.counter_uniform`",
    "randn": "use `lang.counter_normal`",
    "device_print": "use `lang.debug_print`",
    "static_assert": "use Python's `assert`",
    "device_assert": "use `lang.debug_check`",
    "make_block_ptr": "state the block by a `BlockSpec`, or take a slice of a Ref: `ref[lang.ds(start, size)]`",
    "permute": "use `numpy.transpose`",
    "cat": "use `numpy.concatenate`",
    "join": "use `numpy.stack([x, y], -1)`",
    "interleave": "use `numpy.stack([x, y], -1)`, and `reshape`",
    "gather": "use `numpy.take_along_axis`",
    "iota": "use `lax.broadcasted_iota`, or `numpy.arange`",
    "fma": "write `x * y + z`, which compilers contract",
    "clamp": "use `numpy.clip`",
    "umulhi": "use `lax.mulhi`",
    "xor_sum": "use `lax.reduce_xor`",
    "philox": "use `lang.counter_bits`",
    **dict.fromkeys(("randint", "randint4x"), "use `lang.counter_bits`"),
    "static_print": "use Python's `print`, which runs while tracing",
    "debug_barrier": "use `lang.triton.debug_barrier`",
    "max_contiguous": "use `lang.triton.max_contiguous`",
    "max_constancy": "leave it out: accesses are analysed",
    "inline_asm_elementwise": "use `lang.triton.elementwise_inline_asm`",
    "swizzle2d": "compute the order of blocks in their index maps",
    **dict.fromkeys(("load_tensor_descriptor", "make_tensor_descriptor", "store_tensor_descriptor"), _DESCRIPTOR),
    "tensor": _TYPE,
    "autotune": "use `tilewright.autotune`",
    "Config": "give `tilewright.autotune` a dictionary of the values to try",
    "advance": "move the block by its index map, or the slice by its start: `ref[lang.ds(start, size)]`",
    **{name: f"use `numpy.{name}`, on values in a kernel too" for name in NUMPY},
    **{name: f"use `lax.{name}`, on values in a kernel too" for name in LAX},
    **{name: f"use `numpy.{name}`, or its name as text" for name in DTYPES},
    **{name: f"use `nn.{name}`, on values in a kernel too" for name in ("sigmoid", "softmax")},
}
TPU = {
    **dict.fromkeys(("ACC", "matmul_acc_lhs", "matmul_lhs_fifo", "matmul_pop", "matmul_pop_fifo", "matmul_push_rhs"),
                    _MXU),
    **dict.fromkeys(("BufferType", "BufferedRef", "BufferedRefBase", "PipelineStep", "emit_pipeline_with_allocations",
                     "emit_pipeline_with_async_prefetch"), _PIPELINE),
    **dict.fromkeys(("CoreType", "Tiling", "VMEM_SHARED"), _SPARSE_CORE),
    **dict.fromkeys(("sample_block", "to_pallas_key"), _KEYS),
    **dict.fromkeys(("join_bits", "pack_fp6", "split_bits", "unpack_fp6"), _BITS),
    "has_memory_space": "the memory of a Ref is known while tracing: state it by the `BlockSpec`",
    "HOST": PALLAS["HOST"],
    "TPUMemorySpace": PALLAS["TPUMemorySpace"],
    "TPUCompilerParams": "use `CompilerParams`",
    "semaphore": _TYPE,
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
                    "use `tilewright.lang.targets.target.target_of(name)`"),
    "CUSTOM_CALL_TARGET_NAME": "kernels are calls of the driver, not of Triton's custom call",
}  # fmt: skip
MOSAIC_GPU = {
    **dict.fromkeys(("inline_mgpu", "RefType", "ShapeDtypeStruct", "Transform", "TraceScope"), _COMPILER),
    **dict.fromkeys(("print_layout", "Tiling", "Replicated"), _LAYOUT),
    **dict.fromkeys(("multimem_*", "multicast_ref", "remote_ref", "PeerMemRef"), _DEVICES),
    **dict.fromkeys(("async_copy_*", "format_tcgen05_sparse_metadata"), _SCALES),
    "cluster_ref": f"it is the memory {_BLOCKS}",
    "async_store_smem": f"it stores in the memory {_BLOCKS}",
    "*emaphore*": "it counts in global memory, where nothing orders blocks here: let warpgroups and the blocks of a "
                  "cluster meet at a Barrier or a ClusterBarrier",
    "*ncel*": "it takes over the place in the grid of a block that has not started; here each block has its own one: "
              "divide the grid by `nd_loop` or `dynamic_scheduling_loop`",
    "RefUnion": "it gives several Refs one memory, whose races would not be found: use memory again by `reshape`",
    "PipelinePipeline": "it overlaps one pipeline with the next one: let one pipeline have both grids",
    "WarpMesh": "it is a mesh of the warps of a warpgroup: run a function on each of them: `warp_map`",
    "as_torch_kernel": "it makes a kernel one of torch's functions: use `interop.torch.call`",
    "barrier_test": "it tells whether a phase is over without a wait, which differs from run to run: wait for it: "
                    "`barrier_wait`",
    "im2col_ref": "it is a view whose rows are the windows of a convolution: copy the rows that a step needs",
    "mma": "it is the product of GPUs before Hopper: use `wgmma` or `tcgen05_mma`, or `jax.numpy.dot` in a "
           "`pallas_call`",
    "wait_gmem_to_smem": "it is for GPUs before Hopper, whose copies have no barriers: wait at the copy's Barrier",
}  # fmt: skip


def absent_from(
    module: str, names: Mapping[str, str], of_triton: Mapping[str, str] = MappingProxyType({})
) -> Callable[[str], Any]:
    """The `__getattr__` of a module: an error that says why a name of Pallas is not there.

    >>> absent_from("lang", {"delay": "leave it out"})("delay")
    Traceback (most recent call last):
        ...
    tilewright.core.support.errors.NotAdaptedNameError: lang.delay is a name of Pallas that tilewright does not have
    ...
    """

    def find(name: str) -> Any:
        for pattern, remedy in (*names.items(), *of_triton.items()):
            if fnmatchcase(name, pattern):
                of = "Pallas" if pattern in names else "Triton"
                raise NotAdaptedNameError(f"{module}.{name} is a name of {of} that tilewright does not have", remedy)
        raise AttributeError(f"module 'tilewright.{module}' has no attribute {name!r}")

    return find
