"""Where names of jax's private modules are public, and what stands for those that jax's test utilities use."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import jax.extend.random
import jaxlib.version
import ml_dtypes
import numpy as np
from jax.extend.backend import get_backend
from jax.extend.core import Jaxpr
from jaxlib import _jax, xla_client

from .flags import Setting

# Where names of private modules are public, by the start of the module's name; the last are tried for all.
HOMES: dict[str, tuple[str, ...]] = {
    "pallas.mosaic_gpu": ("experimental.pallas.mosaic_gpu", "experimental.pallas"),
    "pallas.mosaic": ("experimental.pallas.tpu", "experimental.pallas"),
    "pallas.triton": ("experimental.pallas.triton", "experimental.pallas"),
    "pallas": ("experimental.pallas",),
    "numpy": ("numpy",),
    "scipy": ("scipy",),
    "lax": ("lax", "lax.linalg"),
    "random": ("random", "extend.random"),
    "nn": ("nn",),
    "state": ("ref", "lax"),
    "hijax": ("experimental.hijax",),
    "export": ("export",),
    "sharding": ("sharding",),
    "mesh": ("sharding",),
    "layout": ("experimental.layout",),
    "debugging": ("debug",),
    "checkify": ("experimental.checkify",),
    "custom_partitioning": ("experimental.custom_partitioning",),
    "": ("", "core", "extend.core", "extend.backend", "lax", "sharding", "dtypes", "tree_util", "numpy", "stages",
         "errors", "extend.mlir", "ad_checkpoint", "dlpack", "api_util", "interpreters.mlir",
         "experimental.compute_on", "extend.linear_util",
         "experimental.xla_metadata", "experimental", "typing", "profiler", "custom_derivatives"),
}  # fmt: skip


def _never_compiles() -> Any:
    """`xla_primitive_callable`: no entry of jax's cache of operators is ever missed."""
    return SimpleNamespace(cache_clear=lambda: None, cache_info=lambda: SimpleNamespace(misses=0))


def _subjaxprs(jaxpr: Any) -> Iterator[Any]:
    """The jaxprs that the parameters of a jaxpr's equations hold."""
    for eqn in jaxpr.eqns:
        for param in eqn.params.values():
            yield from (one for one in (param if isinstance(param, (tuple, list)) else [param])
                        if isinstance(one, Jaxpr))  # fmt: skip


def _default(kind: type) -> Any:
    return lambda: jax.dtypes.canonicalize_dtype(kind)


def _inexact(dtype: Any) -> Any:
    return jax.numpy.result_type(float) if np.dtype(dtype).kind in "biu" else dtype


def _split_list(xs: list[Any], sizes: list[int]) -> list[list[Any]]:
    return [xs[start:end] for start, end in pairwise([0, *accumulate(sizes), len(xs)])]


def _keys(seeds: Any, impl: Any = None) -> Any:
    """A random key for each seed."""
    return jax.numpy.vectorize(lambda seed: jax.random.key(seed, impl=impl))(seeds)


_SMALL = [kind for name, kind in vars(ml_dtypes).items() if name.startswith(("bfloat", "float", "int", "uint"))]
_GENERATORS = [("threefry2x32", "threefry"), ("rbg", "rbg"), ("unsafe_rbg", "unsafe_rbg")]
_DEFAULTS = {"bool": np.bool_, "int": int, "uint": np.uint64, "float": float, "complex": complex}
SUBSTITUTES: dict[str, dict[str, Any]] = {
    "core": {"reset_trace_state": lambda: True, "subjaxprs": _subjaxprs},
    "dispatch": {"xla_primitive_callable": _never_compiles(), "runtime_tokens": SimpleNamespace(clear=lambda: None)},
    "debugging": {"debug_print": jax.debug.print, "debug_callback": jax.debug.callback},
    "effects": {"Effect": type("Effect", (), {})},
    "interpreters.mlir": {"_platforms_with_donation": ["cpu", "cuda", "rocm", "tpu"]},
    "sharding_impls": {"make_single_device_sharding": jax.sharding.SingleDeviceSharding},
    "compilation_cache": {"_cache": None, "reset_cache": lambda: None, "is_persistent_cache_enabled": lambda: False},
    "cloud_tpu_init": {"running_in_cloud_tpu_vm": False, "is_libtpu_at_least": lambda *_: False},
    "deprecations": {"is_accelerated": lambda _: False},
    "util": {
        "install_failure_signal_handler": lambda: None, "cache": lambda *_, **__: functools.cache,
        "split_list": _split_list, "curry": lambda f: functools.partial(functools.partial, f),
        "unzip2": lambda pairs: tuple(map(tuple, zip(*pairs, strict=True))) or ((), ()),
    },
    "dtypes": {
        **{kind.__name__: kind for kind in _SMALL},
        **{f"default_{name}_dtype": _default(kind) for name, kind in _DEFAULTS.items()},
        "default_types": {np.dtype(kind).kind: _default(kind) for kind in _DEFAULTS.values()},
        "_intn_dtypes": [np.dtype(kind) for kind in _SMALL if kind.__name__.lstrip("u").startswith("int")],
        "_float8_dtypes": [np.dtype(kind) for kind in _SMALL if kind.__name__.startswith("float8")],
        "custom_floats": [kind for kind in _SMALL if "float" in kind.__name__],
        "python_scalar_types_to_dtypes": {kind: np.dtype(kind) for kind in (bool, int, float, complex)},
        "is_weakly_typed": lambda x: jax.typeof(x).weak_type,
        "to_inexact_dtype": _inexact,
        "safe_to_cast": lambda given, wanted: jax.numpy.result_type(given, wanted) == jax.numpy.result_type(wanted),
    },
    "random.prng": {
        "prngs": {name: getattr(jax.extend.random, f"{kind}_prng_impl") for name, kind in _GENERATORS},
        "random_seed": _keys,
    },
    "lib": {
        "_jax": _jax, "xla_client": xla_client, "cuda_versions": None, "gpu_solver": None,
        "jaxlib_extension_version": xla_client._version, "ifrt_version": xla_client._ifrt_version,
        "version": tuple(int(n) for n in jaxlib.version.__version__.split(".")[:3]),
    },
    "xla_bridge": {"num_cpu_devices": Setting("num_cpu_devices"), "get_backend": functools.cache(get_backend)},
}
# Names that tests use of public modules, and that have no meaning here.
PUBLIC_NAMES: dict[str, dict[str, Any]] = {
    "jax.experimental.mosaic.gpu": {
        "core": SimpleNamespace(artificial_shared_memory_limit=lambda _: contextlib.nullcontext())
    },
}
