"""The configuration in force: one frozen `Config` in one context variable, whole in every cache key.

Settings that `settings.py` declares are read from the environment, checked and set here.
Configurations are interned: equal ones are one object, so that a key compares them by identity.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import fields
from typing import Any

from .errors import ConfigError
from .jax_options import FIXED, UNUSED
from .runtime import InternTable, runtime
from .settings import ROWS, Config, Watched

watched: Watched = runtime.part("config.watched", Watched())
WATCHED = tuple(vars(watched))

ENVIRONMENT = {f"TILEWRIGHT_{name.upper()}": name for name, row in ROWS.items() if row.env}
# JAX's options that are settings of ours, and its variables, which count where ours of the same setting is not given.
OPTIONS = {option: name for name, row in ROWS.items() for option in row.jax.split()}
FALLBACKS = {f"JAX_{option.upper()}": name for option, name in OPTIONS.items()}

_BOOLEANS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
_NUMBERS: dict[str, Any] = {"float": (float, "a number from 0 to 1"), "int": (int, "a whole number, zero or more")}
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
    if name not in ROWS:
        close = ", ".join(sorted(ROWS))
        raise ConfigError(f"there is no configuration named {name!r}", f"the names are: {close}")
    kind, choices = ROWS[name].kind, ROWS[name].choices
    if kind == "bool" and not isinstance(value, bool):
        raise ConfigError(f"configuration {name} takes True or False, got {value!r}", f"set {name}=True or False")
    if kind == "int" and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ConfigError(f"configuration {name} takes a number, zero or more, got {value!r}", f"set {name}=2**30")
    if kind == "float" and (type(value) not in (int, float) or not 0 <= value <= 1):
        raise ConfigError(f"configuration {name} takes a number from 0 to 1, got {value!r}", f"set {name}=0.25")
    if choices and value not in choices:
        raise ConfigError(f"configuration {name} does not take {value!r}", f"one of {choices}")
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
    kind = ROWS[name].kind
    if kind.startswith("bool"):
        if text.lower() not in _BOOLEANS:
            raise ConfigError(f"{source}={text!r} is not a boolean", f"set {source} to 1 or 0")
        return _BOOLEANS[text.lower()]
    if kind not in _NUMBERS:
        return _valid(name, text)
    make, example = _NUMBERS[kind]
    try:
        return _valid(name, make(text))
    except ValueError:
        raise ConfigError(f"{source}={text!r} is not {example}", f"set {source} to one") from None


_interned = runtime.part("config.interned", InternTable())


_FIELDS = tuple(field.name for field in fields(Config))


def with_settings(config: Config, settings: dict[str, Any]) -> Config:
    """A configuration with some settings changed: the one object of these settings. Watched ones are set at once."""
    for name in settings.keys() & set(WATCHED):
        setattr(watched, name, settings[name])
    values = tuple([settings[name] if name in settings else getattr(config, name) for name in _FIELDS])
    known = _interned.get(values)
    return (known and known()) or _interned.intern(values, Config(*values))


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
    name = OPTIONS.get(name, name)
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
        if name not in ROWS and value is not _NONE:
            return value
        if name not in ROWS:
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
        return {f"jax_{name}": getattr(self, name) for name in ROWS}

    def __dir__(self) -> list[str]:
        return sorted(ROWS)

    def __repr__(self) -> str:
        return repr(current())


config: _ConfigAccess = _ConfigAccess()


def setting(
    name: str, shown: bool | None = True, function: str | None = None
) -> Callable[..., contextlib.AbstractContextManager[None]]:
    """The function that puts a setting in force within a `with` block; `shown` is a value of its example."""
    default = True if ROWS[name].kind == "bool" else None

    def context(new_val: Any = default) -> contextlib.AbstractContextManager[None]:
        return config(**{name: new_val})

    context.__name__ = context.__qualname__ = name
    context.__doc__ = (
        f"Within a `with` block, set `{name}`: {ROWS[name].doc}.\n\n>>> import tilewright as tw\n"
        f">>> with tw.{function or name}({shown!r}):\n...     tw.config.{name} == {shown!r}\nTrue"
    )
    return context


def disable_jit(disable: bool = True) -> contextlib.AbstractContextManager[None]:
    """Within a `with` block, run jitted functions step by step, as plain Python.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> @tw.jit
    ... def f(x):
    ...     return x if x > 0 else -x
    >>> with tw.disable_jit():
    ...     print(f(tnp.float32(-2.0)))
    2.0
    """
    return config(disable_jit=disable)


enable_x64: Callable[..., AbstractContextManager[None]] = setting("enable_x64")
explain_cache_misses: Callable[..., AbstractContextManager[None]] = setting("explain_cache_misses")
log_compiles: Callable[..., AbstractContextManager[None]] = setting("log_compiles")
debug_nans: Callable[..., AbstractContextManager[None]] = setting("debug_nans")
debug_infs: Callable[..., AbstractContextManager[None]] = setting("debug_infs")
debug_key_reuse: Callable[..., AbstractContextManager[None]] = setting("debug_key_reuse")
default_device: Callable[..., AbstractContextManager[None]] = setting("default_device", None)
default_matmul_precision: Callable[..., AbstractContextManager[None]] = setting("default_matmul_precision", "highest")
default_prng_impl: Callable[..., AbstractContextManager[None]] = setting("default_prng_impl", "rbg")
enable_custom_prng: Callable[..., AbstractContextManager[None]] = setting("enable_custom_prng")
threefry_partitionable: Callable[..., AbstractContextManager[None]] = setting("threefry_partitionable", False)
enable_checks: Callable[..., AbstractContextManager[None]] = setting("debug_checks", True, "enable_checks")
no_tracing: Callable[..., AbstractContextManager[None]] = setting("no_tracing")
check_tracer_leaks: Callable[..., AbstractContextManager[None]] = setting("check_tracer_leaks")
transfer_guard: Callable[..., AbstractContextManager[None]] = setting("transfer_guard", "log")
transfer_guard_host_to_device: Callable[..., AbstractContextManager[None]]
transfer_guard_host_to_device = setting("transfer_guard_host_to_device", "log")
transfer_guard_device_to_host: Callable[..., AbstractContextManager[None]]
transfer_guard_device_to_host = setting("transfer_guard_device_to_host", "log")
transfer_guard_device_to_device: Callable[..., AbstractContextManager[None]]
transfer_guard_device_to_device = setting("transfer_guard_device_to_device", "log")
numpy_dtype_promotion: Callable[..., AbstractContextManager[None]] = setting("numpy_dtype_promotion", "strict")
numpy_rank_promotion: Callable[..., AbstractContextManager[None]] = setting("numpy_rank_promotion", "raise")
checking_leaks = check_tracer_leaks
