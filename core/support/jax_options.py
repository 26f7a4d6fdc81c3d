"""JAX's options that have no setting in `settings.py`: those fixed to one value, and those that are ignored.

    FIXED     options whose value here cannot be another, with the reason
    UNUSED    options that any value may be given to, for they would change nothing here; read, they give their default
"""

from __future__ import annotations

from typing import Any

_SHARDY = "programs are partitioned by Shardy"
FIXED: dict[str, tuple[Any, str]] = {
    "threefry_gpu_kernel_lowering": (False, "random bits are kernels of our own"),
    "legacy_prng_key": ("allow", "raw words are taken everywhere"),
    "use_shardy_partitioner": (True, _SHARDY),
    "softmax_custom_jvp": (True, "softmax has its stable derivative"),
    "high_dynamic_range_gumbel": (False, "gumbel samples have the usual range: pass mode='high' to `random.gumbel`"),
    "random_seed_offset": (0, "a seed gives the same key in every process"),
    "error_checking_behavior_nan": ("ignore", "set debug_nans"),
    "error_checking_behavior_divide": ("ignore", "set debug_nans"),
    "error_checking_behavior_oob": ("ignore", "indices out of bounds follow `mode`"),
    "no_execution": (False, "use `eval_shape` or `jit(f).lower` to run nothing"),
    "check_vma": (False, "which axes a value varies over is inferred"),
    "explicit_x64_dtypes": ("warn", "a 64-bit dtype without enable_x64 is a warning"),
}

# Of caches, compilers, logs, several processes and JAX's own ways of doing things.
UNUSED: dict[str, Any] = {
    "allow_f16_reductions": True, "array_garbage_collection_guard": None, "auto_pcast": True, "backend_target": "",
    "bcoo_cusparse_lowering": False, "captured_constants_report_frames": 0, "captured_constants_warn_bytes": 2000000000,
    "check_proxy_envs": True, "compilation_cache_check_contents": False,
    "compilation_cache_expect_pgle": False, "compilation_cache_include_metadata_in_key": False,
    "compilation_cache_max_size": -1, "compiler_detailed_logging_min_ops": 10, "compiler_enable_remat_pass": True,
    "cpu_collectives_implementation": "gloo", "cuda_visible_devices": "all", "debug_log_modules": "",
    "disable_bwd_checks": False, "disable_most_optimizations": False, "disable_vmap_shmap_error": False,
    "distributed_debug": False, "dump_ir_modes": "stablehlo", "dump_ir_to": "", "eager_constant_folding": False,
    "embedded_constants_max_bytes": 32, "enable_compilation_cache": True, "enable_pgle": False,
    "enable_preemption_service": True, "enable_recoverability": False, "experimental_unsafe_xla_runtime_errors": False,
    "hlo_source_file_canonicalization_regex": None, "include_debug_info_in_dumps": True,
    "include_full_tracebacks_in_locations": True, "jax2tf_associative_scan_reductions": False,
    "log_checkpoint_residuals": False, "logging_level": "NOTSET", "memory_fitting_level": "O2",
    "mock_gpu_topology": "", "mock_num_gpu_processes": 0, "mutable_array_checks": True, "optimization_level": "UNKNOWN",
    "pallas_enable_debug_checks": False, "pallas_verbose_errors": False, "persistent_cache_enable_xla_caches": "",
    "persistent_cache_min_compile_time_secs": 0.0, "persistent_cache_min_entry_size_bytes": 0,
    "pgle_aggregation_percentile": 90, "pgle_profiling_runs": 3, "pprint_use_color": True,
    "raise_persistent_cache_errors": False, "remat3": False,
    "remove_size_one_mesh_axis_from_type": False, "rocm_visible_devices": "all",
    "share_binary_between_hosts": False, "sort_devices_by_process_index": True, "source_url_schema": None,
    "thread_guard": False, "traceback_in_locations_limit": 100,
    "tracer_error_num_traceback_frames": 5, "use_direct_linearize": True, "use_magma": "auto",
    "use_simplified_jaxpr_constants": False, "xla_backend": "", "xla_profile_version": 0,
}  # fmt: skip
