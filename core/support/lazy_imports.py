"""Names of a package that are imported when they are first used, so that a program pays only for what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import resolve_name
from types import ModuleType
from typing import Any


class LazyModule:
    """A module that is imported when one of its names is first used.

    Who uses it imports the module itself under `TYPE_CHECKING`, so that its names are typed.
    """

    __slots__ = ("__name__",)
    __name__: str

    def __init__(self, name: str, package: str | None = None):
        self.__name__ = resolve_name(name, package)

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self.__name__), attribute)


def is_loaded(module: ModuleType) -> bool:
    """Whether a module, which may be a `LazyModule`, is imported already."""
    return module.__name__ in sys.modules


def members(modules: Mapping[str, str]) -> dict[str, str]:
    """The places of names that are given by module: `{"run": "benchmark scaling"}`."""
    return {name: f".{module}:{name}" for module, names in modules.items() for name in names.split()}


def _has(module: str, name: str) -> bool:
    return name in import_module(module).__all__


def later(package: str, names: Mapping[str, str], elsewhere: Sequence[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a package, some of whose names are imported when they are first used.

    `names` gives each such name its place, as the package would import it: ".module", or ".module:attribute".
    The error for an unknown name says which of the modules `elsewhere` has it.
    `python -m docs.public_names` lists them in the package's `__all__`, from its imports under `TYPE_CHECKING`.
    """
    parent = sys.modules[package].__package__

    def find(name: str) -> Any:
        if name not in names:
            at = () if name.startswith("_") else (f"{package}.{m}" for m in elsewhere if _has(f"{package}.{m}", name))
            hint = ", ".join(f"{module}.{name}" for module in at)
            raise AttributeError(f"module {package!r} has no attribute {name!r}{hint and f': use {hint}'}")
        module, _, attribute = names[name].partition(":")
        found = import_module(module, parent)
        return getattr(found, attribute) if attribute else found

    return find
