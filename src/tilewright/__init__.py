"""Tilewright: kernels in Python that run compiled, differentiate and batch, and the array framework made of them.

    import tilewright as tw
    from tilewright import lang as tl, numpy as tnp

Names and meaning are JAX's wherever JAX has the thing.
"""
# ruff: noqa: E402

from .core.version import __version__, __version_info__, check_jaxlib

check_jaxlib()

from typing import TYPE_CHECKING

from . import compile as _compile
from . import errors, numpy, tree
from .compile import compile
from .core import tracebacks as _tracebacks
from .core.api import (
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
from .core.config import (
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
    transfer_guard,
    transfer_guard_device_to_device,
    transfer_guard_device_to_host,
    transfer_guard_host_to_device,
)
from .core.custom_remat import custom_remat
from .core.events import stats
from .core.jit import jit
from .core.later import later as _later
from .core.primitive import Primitive
from .core.primitives.callback import io_callback, pure_callback
from .core.primitives.checkpoint import checkpoint, checkpoint_policies, remat
from .core.primitives.convert import stop_gradient
from .core.primitives.custom import closure_convert, custom_gradient, custom_jvp, custom_vjp
from .core.stages import CompilerEffortLevel
from .core.trace import ensure_compile_time_eval, named_call, named_scope, typeof
from .core.types import FLOAT0 as float0
from .runtime import (
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
from .xla_backend.array import Array
from .xla_backend.client import Device

_compile.install()
_tracebacks.install()

if TYPE_CHECKING:
    from . import (
        ad_checkpoint,
        checkpoints,
        custom_batching,
        custom_derivatives,
        debug,
        distributed,
        dlpack,
        dtypes,
        experimental,
        export,
        ffi,
        flatten_util,
        lang,
        lax,
        nn,
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
    from .core.two_passes import fwd_and_bwd
    from .emulator.emulate import emulate
    from .environment import print_environment_info
    from .explanation import explain
    from .lang import ds
    from .parallel import pmap
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
    "empty_ref": ".lang.mutable:empty_ref",
    "explain": ".explanation:explain",
    "free_ref": ".lang.mutable:free_ref",
    "freeze": ".lang.mutable:freeze",
    "pmap": ".parallel:pmap",
    "fwd_and_bwd": ".core.two_passes:fwd_and_bwd",
    "Ref": ".lang.mutable:Ref",
    "new_ref": ".lang.mutable:new_ref",
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

__getattr__, __dir__, __all__ = _later(__name__, _LATER | {name: f".{name}" for name in _MODULES})
