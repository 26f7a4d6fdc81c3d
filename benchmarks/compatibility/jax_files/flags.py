"""`jax._src.config` for jax's tests: settings of this package as objects, and the flags of the tests."""

from __future__ import annotations

import contextlib
import enum
import os
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import jax

from tilewright.core.support.config import OPTIONS
from tilewright.core.support.config import config as own_config


class Flag:
    """An option of jax's tests, or of jax itself, that has no meaning here: it has a value, which may be set."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @contextlib.contextmanager
    def __call__(self, value: Any = None, **_: Any) -> Iterator[None]:
        before, self.value = self.value, value
        try:
            yield
        finally:
            self.value = before

    def __bool__(self) -> bool:
        return bool(self.value)

    set_local = set_global = lambda self, value: setattr(self, "value", value)


SLOW = ("debug_checks",)  # all tests have it on; here every pass over every program would be verified


def _own(name: str) -> str:
    name = name.removeprefix("jax_")
    return OPTIONS.get(name, name)


class Setting:
    """One of this package's settings, in the form that jax's private module has."""

    def __init__(self, name: str) -> None:
        self.name = _own(name)

    @property
    def value(self) -> Any:
        return jax.config.read(self.name)

    get_global = get_local = lambda self: self.value

    @contextlib.contextmanager
    def __call__(self, value: Any) -> Iterator[None]:
        with own_config(**{self.name: value}):
            yield


class Config(ModuleType):
    """`jax._src.config`: settings as objects, and flags."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.config = self
        self.config_states = self
        self.values = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if f"jax_{_own(name)}" in jax.config.values and _own(name) not in SLOW:
            return Setting(name)
        setattr(self, name, flag := Flag(getattr(jax.config, name, None)))
        return flag

    ExplicitX64Mode = enum.IntEnum("ExplicitX64Mode", ["WARN", "ERROR", "ALLOW"])

    def __getitem__(self, name: str) -> Any:
        return getattr(self, name)

    def string_flag(self, name: str, default: Any, *args: Any, **params: Any) -> Flag:
        flag = Flag(default)
        setattr(self, name, flag)
        return flag

    int_flag = bool_flag = float_flag = enum_flag = string_flag

    @staticmethod
    def bool_env(name: str, default: bool) -> bool:
        return os.environ.get(name, str(int(default))) not in ("", "0", "false", "False")

    @staticmethod
    def update(name: str, value: Any) -> None:
        jax.config.update(name, value)

    def _read(self, name: str) -> Any:
        flag = vars(self).get(name)
        return flag.value if isinstance(flag, Flag) else jax.config.read(name)

    read = _read

    @property
    def x64_enabled(self) -> bool:
        return jax.config.read("enable_x64")

    @staticmethod
    def parse_flags_with_absl() -> None:
        jax.config.parse_flags_with_absl()

    config_with_absl = parse_flags_with_absl
