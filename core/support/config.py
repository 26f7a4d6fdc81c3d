"""One frozen `Config` in one context variable, whole in every cache key.

Configurations are interned: equal ones are one object, so that a key compares them by identity.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import sys
import weakref
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any

from .errors import ConfigError
from .jax_options import FIXED, RENAMED, UNUSED
from .runtime import runtime


@dataclass(frozen=True, eq=False)
class Config:
    """Every setting. Settings with an environment variable read it once, at import."""

    enable_x64: bool = False
    default_matmul_precision: str | None = None
    numpy_dtype_promotion: str = "standard"  # or "strict"
    numpy_rank_promotion: str = "allow"  # or "warn", "raise"
    default_device: Any = None
    default_prng_impl: str = "threefry2x32"  # or "rbg", "unsafe_rbg", "philox"
    enable_custom_prng: bool = False
    disable_jit: bool = False
    check_static_indices: bool = False
    debug_nans: bool = False
    debug_infs: bool = False
    debug_checks: bool = False
    debug_poison: bool = False
    debug_key_reuse: bool = False
    print_passes: bool = False
    cache_dir: str | None = None
    cpu_enable_async_dispatch: bool | None = None  # None: where there are more than two processors
    cpu_keep_memory: bool = True
    cpu_keep_share: float = 0.25
    cpu_tiles: bool = False
    cpu_without: str = ""  # names of `xla_backend.cpu_passes.options`, with commas
    interpret: Any = None  # or True, or `lang.InterpretParams`: how kernels that do not say run
    strict_kernels: bool = False
    parallel_writes: str = "error"  # or "order": of cells of a parallel axis that write one block
    residual_bytes: int = 2**30
    kernel_target: Any = None  # a name, or a `Target` of lang
    kernel_route: str | None = None  # who compiles a GPU's kernels; None: who is estimated to make the fastest
    source_lines: bool = False
    communication: str = "allow"  # or "error": programs on a mesh that exchange what they do not say
    mesh: Any = None  # what a bare PartitionSpec means, see core/sharding/mesh.py
    xla_notes: Any = ()  # names with values that each operation has, see core/jit/xla_metadata.py
    num_cpu_devices: int = 0  # 0: one
    stall_seconds: int = 60  # of waiting for other processes, after which all say where they are; 0: never
    stall_limit: int = 0  # of such waiting, after which all processes end; 0: never
    platforms: str = ""  # those to be used, with commas, the default one first; empty: all
    no_tracing: bool = False
    transfer_guard: str = "allow"  # see core/support/transfer_guard.py
    transfer_guard_host_to_device: str | None = None  # None: as transfer_guard
    transfer_guard_device_to_host: str | None = None
    transfer_guard_device_to_device: str | None = None
    check_tracer_leaks: bool = False

    def __post_init__(self) -> None:
        # Whether calls have something to look at before or after they run.
        levels = (self.transfer_guard_host_to_device, self.transfer_guard_device_to_host,
                  self.transfer_guard_device_to_device, self.transfer_guard)  # fmt: skip
        guards = any(level not in (None, "allow") for level in levels)
        watches = self.debug_nans or self.debug_infs or self.debug_key_reuse or guards
        object.__setattr__(self, "watches", watches)
        object.__setattr__(self, "guards", guards)  # whether copies have a guard


class _Watched:
    """What is told of compilation, in every thread: it changes nothing that is compiled, so it is in no key."""

    def __init__(self) -> None:
        self.log_compiles = False
        self.traceback_filtering = "auto"  # see core/support/traceback_filter.py
        self.explain_cache_misses = False


watched = runtime.part("config.watched", _Watched())
WATCHED = tuple(vars(watched))

ENVIRONMENT = {
    "TILEWRIGHT_KERNEL_ROUTE": "kernel_route",
    "TILEWRIGHT_ENABLE_X64": "enable_x64",
    "TILEWRIGHT_CACHE_DIR": "cache_dir",
    "TILEWRIGHT_CPU_ENABLE_ASYNC_DISPATCH": "cpu_enable_async_dispatch",
    "TILEWRIGHT_CPU_KEEP_MEMORY": "cpu_keep_memory",
    "TILEWRIGHT_CPU_KEEP_SHARE": "cpu_keep_share",
    "TILEWRIGHT_CPU_WITHOUT": "cpu_without",
    "TILEWRIGHT_DEBUG_CHECKS": "debug_checks",
    "TILEWRIGHT_DEBUG_NANS": "debug_nans",
    "TILEWRIGHT_EXPLAIN_CACHE_MISSES": "explain_cache_misses",
    "TILEWRIGHT_LOG_COMPILES": "log_compiles",
    "TILEWRIGHT_DEBUG_POISON": "debug_poison",
    "TILEWRIGHT_NUM_CPU_DEVICES": "num_cpu_devices",
    "TILEWRIGHT_PLATFORMS": "platforms",
    "TILEWRIGHT_PRINT_PASSES": "print_passes",
    "TILEWRIGHT_TRACEBACK_FILTERING": "traceback_filtering",
    "TILEWRIGHT_STALL_LIMIT": "stall_limit",
    "TILEWRIGHT_STALL_SECONDS": "stall_seconds",
}
# JAX's variables, which count where ours of the same setting is not given.
FALLBACKS = {
    f"JAX_{option.upper()}": name
    for option, name in (
        *((name, name) for name in (
            "enable_x64", "default_matmul_precision", "numpy_dtype_promotion", "numpy_rank_promotion", "disable_jit",
            "default_prng_impl", "enable_custom_prng", "debug_nans", "debug_infs", "debug_key_reuse",
            "cpu_enable_async_dispatch", "explain_cache_misses", "log_compiles", "no_tracing", "num_cpu_devices",
            "platforms", "transfer_guard", "transfer_guard_host_to_device", "transfer_guard_device_to_host",
            "transfer_guard_device_to_device", "check_tracer_leaks", "traceback_filtering",
        )),
        *RENAMED.items(),
    )
}

_LEVELS = ("allow", "log", "disallow", "log_explicit", "disallow_explicit")
CHOICES = {
    "kernel_route": (None, "cutlass", "mosaic_gpu", "triton", "xla"),
    "numpy_dtype_promotion": ("standard", "strict"),
    "numpy_rank_promotion": ("allow", "warn", "raise"),
    "transfer_guard": _LEVELS,
    **{f"transfer_guard_{kind}": (None, *_LEVELS) for kind in (
        "host_to_device", "device_to_host", "device_to_device",
    )},
    "default_prng_impl": ("threefry2x32", "rbg", "unsafe_rbg", "philox"),
    "communication": ("allow", "error"),
    "parallel_writes": ("error", "order"),
    "traceback_filtering": ("auto", "off", "remove_frames", "quiet_remove_frames"),
    "cpu_enable_async_dispatch": (None, True, False),
    "default_matmul_precision": (
        None, "default", "high", "highest", "bfloat16", "tensorfloat32", "float32",
        "ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY", "ANY_F8_ANY_F8_ANY_FAST_ACCUM",
        "F16_F16_F16", "F16_F16_F32", "BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6",
        "BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32", "F64_F64_F64",
    ),
}

_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_NUMBERS: dict[str, Any] = {"float": (float, "a number from 0 to 1"), "int": (int, "a non-negative integer")}
_KINDS = {field.name: field.type for field in fields(Config)}
_KINDS |= {name: type(value).__name__ for name, value in vars(watched).items()}


# What layers above say about a setting that can no longer change: functions of a value that raise.
_guards: dict[str, Callable[[Any], None]] = runtime.part("config.guards", {})


def _checked(name: str, value: Any) -> Any:
    """A value that may be set now."""
    _valid(name, value)
    if name in _guards:
        _guards[name](value)
    return value


def _valid(name: str, value: Any) -> Any:
    """A value that the setting takes."""
    if name not in _KINDS:
        close = ", ".join(sorted(_KINDS))
        raise ConfigError(f"there is no configuration named {name!r}", f"the names are: {close}")
    if _KINDS[name] == "bool" and not isinstance(value, bool):
        raise ConfigError(f"configuration {name} takes True or False, got {value!r}", f"set {name}=True or False")
    if _KINDS[name] == "int" and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ConfigError(f"configuration {name} takes a number, zero or more, got {value!r}", f"set {name}=2**30")
    if _KINDS[name] == "float" and (type(value) not in (int, float) or not 0 <= value <= 1):
        raise ConfigError(f"configuration {name} takes a number from 0 to 1, got {value!r}", f"set {name}=0.25")
    if name in CHOICES and value not in CHOICES[name]:
        raise ConfigError(f"configuration {name} does not take {value!r}", f"one of {CHOICES[name]}")
    return value


def from_environment(environ: Any = os.environ) -> Config:
    """The configuration given by the environment's `TILEWRIGHT_*` variables, and where these lack by `JAX_*`."""
    found: dict[str, Any] = {}
    for variable, name in (*ENVIRONMENT.items(), *FALLBACKS.items()):
        text = environ.get(variable)
        if text is None or name in found:
            continue
        found[name] = _of_text(variable, name, text)
    return with_settings(Config(), found)


def _of_text(source: str, name: str, text: str) -> Any:
    """The value of a setting that a variable or a flag gives as text."""
    if _KINDS[name].startswith("bool"):
        if text.lower() not in _BOOLEANS:
            raise ConfigError(f"{source}={text!r} is not a boolean", f"set {source} to 1 or 0")
        return _BOOLEANS[text.lower()]
    if _KINDS[name] not in _NUMBERS:
        return _valid(name, text)
    make, example = _NUMBERS[str(_KINDS[name])]
    try:
        return _valid(name, make(text))
    except ValueError:
        raise ConfigError(f"{source}={text!r} is not {example}", f"set {source} to one") from None


_Interned = weakref.WeakValueDictionary[tuple[Any, ...], Config]
_interned: _Interned = runtime.part("config.interned", weakref.WeakValueDictionary())


_FIELDS = tuple(field.name for field in fields(Config))


def with_settings(config: Config, settings: dict[str, Any]) -> Config:
    """A configuration with some settings changed: the one object of these settings. Watched ones are set at once."""
    for name in settings.keys() & set(WATCHED):
        setattr(watched, name, settings[name])
    values = tuple([settings[name] if name in settings else getattr(config, name) for name in _FIELDS])
    found = _interned.get(values)
    return _interned.setdefault(values, Config(*values)) if found is None else found


runtime.config = from_environment()
_local: ContextVar[Config | None] = ContextVar("tilewright_config", default=None)


def current() -> Config:
    """The configuration in force here."""
    return _local.get() or runtime.config


_NONE = object()
# What was set of JAX's options that change nothing here.
_unused: dict[str, Any] = runtime.part("config.unused", {})


def _named(name: str) -> tuple[str, Any]:
    """A setting by our name or JAX's; with it the value, where it is none of our settings but an option of JAX's."""
    name = name.removeprefix("jax_")
    name = RENAMED.get(name, name)
    if name in FIXED:
        return name, FIXED[name][0]
    if name in UNUSED:
        return name, _unused.get(name, UNUSED[name])
    return name, _NONE


class _ConfigAccess:
    """`tilewright.config`: read a setting as an attribute, change it by `update` or within `with config(...)`."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        name, value = _named(name)
        if name not in _KINDS and value is not _NONE:
            return value
        if name not in _KINDS:
            _checked(name, None)
        return getattr(watched if name in WATCHED else current(), name)

    def __setattr__(self, name: str, value: Any) -> None:
        self.update(name, value)

    def read(self, name: str) -> Any:
        """The value of a setting, by our name or JAX's."""
        return getattr(self, name)

    def update(self, name: str, value: Any) -> None:
        """Set one configuration for the whole process, by our name or JAX's (see `core/support/jax_options.py`)."""
        given, (name, fixed) = name, _named(name)
        if fixed is not _NONE:
            if name in FIXED and value != fixed:
                raise ConfigError(f"{given} is {fixed!r} here and cannot be {value!r}", FIXED[name][1])
            _unused[name] = value
            return
        changed = {name: _checked(name, value)}
        runtime.config = with_settings(runtime.config, changed)
        local = _local.get()
        if local is not None:
            _local.set(with_settings(local, changed))

    @contextlib.contextmanager
    def __call__(self, **settings: Any) -> Iterator[None]:
        """Set configurations within a `with` block, in this thread or task only (what is watched: in all)."""
        checked = {name: _checked(name, value) for name, value in settings.items()}
        before = {name: getattr(watched, name) for name in checked if name in WATCHED}
        token = _local.set(with_settings(current(), checked))
        try:
            yield
        finally:
            _local.reset(token)
            vars(watched).update(before)

    def parse_flags_with_absl(self) -> None:
        """Set what the command line says as `--jax_NAME=VALUE`; other flags of absl's have their defaults from here on.

        Nothing happens where absl is not installed, or has parsed its flags.
        """
        try:
            FLAGS = importlib.import_module("absl.flags").FLAGS
        except ImportError:
            return
        if FLAGS.is_parsed():
            return
        for flag in itertools.takewhile(lambda argument: argument != "--", sys.argv[1:]):
            source, _, text = flag.partition("=")
            name, unused = _named(source.removeprefix("--jax_"))
            if source.startswith("--jax_") and unused is _NONE:
                self.update(name, _of_text(source, name, text or "true"))
        FLAGS(sys.argv[:1])

    def config_with_absl(self) -> None:
        """Nothing: `parse_flags_with_absl` reads the command line."""

    @property
    def values(self) -> dict[str, Any]:
        """Every setting by JAX's form of its name."""
        return {f"jax_{name}": getattr(self, name) for name in _KINDS}

    def __dir__(self) -> list[str]:
        return sorted(_KINDS)

    def __repr__(self) -> str:
        return repr(current())


config = _ConfigAccess()


def setting(name: str, doc: str) -> Callable[..., contextlib.AbstractContextManager[None]]:
    """The function of a setting's own name that puts it in force within a `with` block."""
    booleans = _KINDS[name] == "bool"

    def context(new_val: Any = True if booleans else None) -> contextlib.AbstractContextManager[None]:
        return config(**{name: new_val})

    context.__name__ = context.__qualname__ = name
    context.__doc__ = doc
    return context


enable_x64 = setting("enable_x64", "Within a `with` block, have (or not) 64-bit types.")


def disable_jit(disable: bool = True) -> contextlib.AbstractContextManager[None]:
    """Within a `with` block, run jitted functions step by step, as plain Python."""
    return config(disable_jit=disable)


explain_cache_misses = setting(
    "explain_cache_misses", "Within a `with` block, log why each function is traced again."
)
log_compiles = setting("log_compiles", "Within a `with` block, log each trace and each compilation, with its time.")
debug_nans = setting("debug_nans", "Within a `with` block, raise `NonFiniteError` at the operation that gives NaN.")
debug_infs = setting(
    "debug_infs", "Within a `with` block, raise `NonFiniteError` at the operation that gives infinity."
)
debug_key_reuse = setting("debug_key_reuse", "Within a `with` block, raise `KeyReuseError` where a key is used twice.")
default_device = setting("default_device", "Within a `with` block, the device that new arrays are placed on.")
default_matmul_precision = setting("default_matmul_precision", "Within a `with` block, the precision of contractions.")
default_prng_impl = setting("default_prng_impl", "Within a `with` block, the generator of keys that name none.")
enable_custom_prng = setting("enable_custom_prng", "Within a `with` block, `random.PRNGKey` gives a typed key.")
enable_checks = setting("debug_checks", "Within a `with` block, verify Programs after every trace and every pass.")
no_tracing = setting("no_tracing", "Within a `with` block, refuse to trace jitted functions anew.")
check_tracer_leaks = setting(
    "check_tracer_leaks", "Within a `with` block, raise `LeakedTracerError` where a function keeps a traced value."
)
checking_leaks = check_tracer_leaks
transfer_guard = setting("transfer_guard", "Within a `with` block, 'log' or 'disallow' implicit transfers.")
transfer_guard_host_to_device = setting(
    "transfer_guard_host_to_device", "Within a `with` block, 'log' or 'disallow' NumPy arrays as arguments."
)
transfer_guard_device_to_host = setting(
    "transfer_guard_device_to_host", "Within a `with` block, 'log' or 'disallow' `float(x)`, `np.asarray(x)`, printing."
)
transfer_guard_device_to_device = setting(
    "transfer_guard_device_to_device", "Within a `with` block, 'log' or 'disallow' arguments on another device."
)
numpy_dtype_promotion = setting("numpy_dtype_promotion", "Within a `with` block, 'standard' or 'strict' promotion.")
numpy_rank_promotion = setting("numpy_rank_promotion", "Within a `with` block, 'allow', 'warn' on or 'raise' at it.")


runtime.target_here = lambda: None  # until the front door hands in what knows the devices


def target_here() -> Any:
    """The target (of `lang`) that the default device is; None where nothing was handed in."""
    return runtime.target_here()
