"""Tilewright: kernels in Python that run compiled, differentiate and batch, and the array framework made of them.

    import tilewright as tw
    from tilewright import lang as tl, numpy as tnp

Names and meaning are JAX's wherever JAX has the thing.
"""
# ruff: noqa: E402

from collections.abc import Callable

from .core.support.version import __version__, __version_info__
from .core.support.version import check_jaxlib as _check_jaxlib

_check_jaxlib()

from typing import TYPE_CHECKING

from . import errors, numpy, tree
from .compiler import pipeline as _compile
from .compiler.pipeline import compile
from .core.api.custom_remat import custom_remat
from .core.api.transformations import (
    ShapeDtypeStruct,
    eval_shape,
    grad,
    hessian,
    jacfwd,
    jacobian,
    jacrev,
    jvp,
    linear_transpose,
    linearize,
    make_jaxpr,
    value_and_grad,
    vjp,
    vmap,
)
from .core.ir.primitive import Primitive
from .core.ir.types import FLOAT0 as float0
from .core.jit.jit import jit
from .core.jit.stages import CompilerEffortLevel
from .core.primitives.custom.checkpoint import checkpoint, checkpoint_policies, remat
from .core.primitives.custom.custom_derivatives import closure_convert, custom_gradient, custom_jvp, custom_vjp
from .core.primitives.elementwise.conversion import stop_gradient
from .core.primitives.external.host_callback import io_callback, pure_callback
from .core.support import traceback_filter as _tracebacks
from .core.support.compile_events import stats
from .core.support.config import (
    check_tracer_leaks,
    checking_leaks,
    config,
    debug_infs,
    debug_key_reuse,
    debug_nans,
    default_device,
    default_matmul_precision,
    default_prng_impl,
    disable_jit,
    enable_checks,
    enable_custom_prng,
    enable_x64,
    explain_cache_misses,
    log_compiles,
    no_tracing,
    numpy_dtype_promotion,
    numpy_rank_promotion,
    threefry_partitionable,
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from .core.support.lazy_imports import later as _later
from .core.tracing.trace import ensure_compile_time_eval, named_call, named_scope, typeof
from .devices import (
    block_until_ready,
    clear_caches,
    copy_to_host_async,
    default_backend,
    device_count,
    device_get,
    device_put,
    devices,
    effects_barrier,
    live_arrays,
    local_device_count,
    local_devices,
    process_count,
    process_index,
    process_indices,
)
from .xla_backend.devices.client import Device

_compile.install()
_tracebacks.install()

if TYPE_CHECKING:
    from . import (
        ad,
        ad_checkpoint,
        bench,
        checkpoints,
        custom_batching,
        custom_derivatives,
        debug,
        distributed,
        dlpack,
        dtypes,
        example_libraries,
        experimental,
        export,
        ffi,
        flatten_util,
        image,
        lang,
        lax,
        nn,
        ops,
        profiler,
        random,
        ref,
        scipy,
        sharding,
        stages,
        test_util,
        tree_util,
        tuning,
        typing,
    )
    from .bench import benchmark
    from .core.ir.array import Array
    from .core.jit.fwd_bwd import fwd_and_bwd
    from .distributed.pmap import pmap
    from .emulator.emulate import emulate
    from .environment import print_environment_info
    from .explanation.report import explain
    from .lang import ds
    from .lang.frontend.mutable_arrays import Ref, empty_ref, free_ref, freeze, new_ref
    from .profiler import memory_report, profile
    from .sharding import (
        NamedSharding,
        P,
        make_array_from_callback,
        make_array_from_process_local_data,
        make_array_from_single_device_arrays,
        make_mesh,
        reshard,
        set_mesh,
        shard_map,
        smap,
    )
    from .tuning import autotune, tune
else:  # which tracers are instances of too
    from .xla_backend.arrays.array import Array

# What is imported when it is first used, so that a program pays only for what it needs.
_MODULES = (
    "ad",
    "ad_checkpoint",
    "bench",
    "checkpoints",
    "custom_batching",
    "custom_derivatives",
    "debug",
    "distributed",
    "dlpack",
    "dtypes",
    "example_libraries",
    "experimental",
    "export",
    "ffi",
    "flatten_util",
    "lang",
    "image",
    "lax",
    "nn",
    "ops",
    "profiler",
    "random",
    "ref",
    "scipy",
    "sharding",
    "stages",
    "test_util",
    "tree_util",
    "tuning",
    "typing",
)
_LATER = {
    "autotune": ".tuning:autotune",
    "benchmark": ".bench:benchmark",
    "ds": ".lang:ds",
    "emulate": ".emulator.emulate:emulate",
    "empty_ref": ".lang.frontend.mutable_arrays:empty_ref",
    "explain": ".explanation.report:explain",
    "free_ref": ".lang.frontend.mutable_arrays:free_ref",
    "freeze": ".lang.frontend.mutable_arrays:freeze",
    "pmap": ".distributed.pmap:pmap",
    "fwd_and_bwd": ".core.jit.fwd_bwd:fwd_and_bwd",
    "Ref": ".lang.frontend.mutable_arrays:Ref",
    "new_ref": ".lang.frontend.mutable_arrays:new_ref",
    "print_environment_info": ".environment:print_environment_info",
    "memory_report": ".profiler:memory_report",
    "profile": ".profiler:profile",
    "tune": ".tuning:tune",
}
_LATER |= {
    name: f".sharding:{name}"
    for name in (
        "NamedSharding", "P", "make_array_from_callback", "make_array_from_process_local_data",
        "make_array_from_single_device_arrays", "make_mesh", "reshard", "set_mesh", "shard_map", "smap",
    )
}  # fmt: skip

if not TYPE_CHECKING:  # checkers know the names from the imports above
    __getattr__ = _later(
        __name__, _LATER | {name: f".{name}" for name in _MODULES}, elsewhere=("lang", "numpy", "lax", "nn", "random")
    )

__all__ = [
    "Array", "CompilerEffortLevel", "Device", "NamedSharding", "P", "Primitive", "Ref", "ShapeDtypeStruct",
    "__version__", "__version_info__", "ad", "ad_checkpoint", "autotune", "bench", "benchmark", "block_until_ready",
    "check_tracer_leaks", "checking_leaks", "checkpoint", "checkpoint_policies", "checkpoints", "clear_caches",
    "closure_convert", "compile", "config", "copy_to_host_async", "custom_batching", "custom_derivatives",
    "custom_gradient", "custom_jvp", "custom_remat", "custom_vjp", "debug", "debug_infs", "debug_key_reuse",
    "debug_nans", "default_backend", "default_device", "default_matmul_precision", "default_prng_impl", "device_count",
    "device_get", "device_put", "devices", "disable_jit", "distributed", "dlpack", "ds", "dtypes", "effects_barrier",
    "empty_ref", "emulate", "enable_checks", "enable_custom_prng", "enable_x64", "ensure_compile_time_eval", "errors",
    "eval_shape", "example_libraries", "experimental", "explain", "explain_cache_misses", "export", "ffi",
    "flatten_util", "float0", "free_ref", "freeze", "fwd_and_bwd", "grad", "hessian", "image", "io_callback", "jacfwd",
    "jacobian", "jacrev", "jit", "jvp", "lang", "lax", "linear_transpose", "linearize", "live_arrays",
    "local_device_count", "local_devices", "log_compiles", "make_array_from_callback",
    "make_array_from_process_local_data", "make_array_from_single_device_arrays", "make_jaxpr", "make_mesh",
    "memory_report", "named_call", "named_scope", "new_ref", "nn", "no_tracing", "numpy", "numpy_dtype_promotion",
    "numpy_rank_promotion", "ops", "pmap", "print_environment_info", "process_count", "process_index",
    "process_indices", "profile", "profiler", "pure_callback", "random", "ref", "remat", "reshard", "scipy", "set_mesh",
    "shard_map", "sharding", "smap", "stages", "stats", "stop_gradient", "test_util", "threefry_partitionable",
    "transfer_guard", "transfer_guard_device_to_device", "transfer_guard_device_to_host",
    "transfer_guard_host_to_device", "tree", "tree_util", "tune", "tuning", "typeof", "typing", "value_and_grad", "vjp",
    "vmap",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
