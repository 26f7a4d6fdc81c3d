"""Names of a package that are imported when they are first used, so that a program pays only for what it needs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import resolve_name
from types import ModuleType
from typing import Any


class LazyModule:
    """A module that is imported when one of its names is first used.

    Who uses it imports the module itself under `TYPE_CHECKING`, so that its names are typed.
    """

    __slots__ = ("__name__",)

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


def later(package: str, names: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """The `__getattr__`, `__dir__` and `__all__` of a package, some of whose names are found late.

    `names` gives each such name its place, as the package would import it: ".module", or ".module:attribute". Call it
    last in the package (or module), when its other names are there.
    """
    here = sys.modules[package]

    def find(name: str) -> Any:
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, _, attribute = names[name].partition(":")
        found = import_module(module, here.__package__)
        return getattr(found, attribute) if attribute else found

    helpers = {"TYPE_CHECKING", *(n for n, v in vars(here).items() if isinstance(v, ModuleType))}
    public = sorted({n for n in vars(here).keys() - helpers if n[0] != "_"} | {*names})
    return find, lambda: public, public
