"""Modules private to jax, as its own test files import them in a process where this package is `jax`.

jax's test utilities are read from the checkout that the tests are in. A name of another private module is the one in
`names`, the adapted one, or the public name that it has; any other can be imported, and raises when it is used. This
runs where the tests run, without the rest of this repository.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import jax

from tilewright.as_jax.table import place_of

from .flags import Config
from .names import HOMES, PUBLIC_NAMES, SUBSTITUTES

# Modules of jax's that only its tests use: read from the checkout.
FROM_CHECKOUT = (*(f"jax._src.{name}" for name in (
    "op_shardings", "test_util", "test_loader", "test_warning_util", "internal_test_util", "hypothesis_test_util",
    "public_test_util", "pallas.pallas_test_util",
)), "jax.experimental.sparse.test_util")  # fmt: skip
MODULES = ("config", *SUBSTITUTES)
# Public modules of which the files import names that are not here; the tests that use them fail, not their files.
PUBLIC = ("jax", "jax.experimental.jet", "jax.experimental.pallas", "jax.experimental.pallas.tpu",
          "jax.experimental.sparse", "jax.experimental.custom_partitioning", "jax.random", "jax.sharding", "jax.lax",
          "jax.numpy")  # fmt: skip


class Absent:
    """A private name without a counterpart: calls give the like while tests are collected, and raise in a test."""

    collecting = True

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Absent(f"{self.__name__}.{name}")

    def __call__(self, *args: Any, **params: Any) -> Any:
        if not Absent.collecting:
            raise NotImplementedError(f"{self.__name__} is not here")
        if len(args) == 1 and isinstance(args[0], FunctionType):  # it decorates a test
            return functools.wraps(args[0])(lambda *_, **__: self())
        return Absent(self.__name__)

    def cache_clear(self) -> None:
        """Nothing: a cache that is not here is empty."""

    def __setitem__(self, key: Any, value: Any) -> None:
        self()

    def __getitem__(self, key: Any) -> Any:
        return self()

    def __repr__(self) -> str:
        return self.__name__

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (_AnyBase,)

    def __or__(self, other: Any) -> Any:
        return self

    __ror__ = __or__

    def __iter__(self) -> Iterator[Any]:
        return iter((self(),))


def _homes(module: str) -> Iterator[str]:
    """The modules in which to look for what a private module has, the likeliest first."""
    yield f"tilewright.as_jax.jax._src.{module}"
    for start, places in HOMES.items():
        if module == start or module.startswith(f"{start}.") or not start:
            if start and module != start:
                yield f"jax.{places[0]}{module.removeprefix(start)}"
            yield from (f"jax.{place}".rstrip(".") for place in places)


class _AnyBase:
    """What classes have for a base that is absent."""

    def __init__(self, *args: Any, **params: Any) -> None:
        pass

    def __init_subclass__(cls, **params: Any) -> None:
        pass


class Private(ModuleType):
    """A private module of jax's: its names are looked up as they are asked for."""

    def __init__(self, name: str, folder: Path, exists: Callable[[str], Any]) -> None:
        super().__init__(name)
        self._private = name.removeprefix("jax").removeprefix("._src").lstrip(".")
        self._folder, self._exists = folder, exists

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = self._found(name)
        setattr(self, name, found)
        return found

    def _found(self, name: str) -> Any:
        if name in (own := SUBSTITUTES.get(self._private, {})):
            return own[name]
        below = self._folder / name
        if not self._private and name in MODULES or below.is_dir() or below.with_suffix(".py").exists():
            return importlib.import_module(f"{self.__name__}.{name}")
        for place in filter(self._exists, _homes(self._private)):
            with contextlib.suppress(AttributeError, ImportError):
                found = getattr(importlib.import_module(place), name)
                if not isinstance(found, Absent):
                    return found
        return Absent(f"{self.__name__}.{name}")


class PrivateFinder(MetaPathFinder, Loader):
    """Finds the private modules, and any other of jax's that this package does not have."""

    def __init__(self, checkout: Path, exists: Callable[[str], Any]) -> None:
        self.checkout, self.exists = checkout, exists

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if not fullname.startswith("jax."):
            return None
        place = self.checkout.joinpath(*fullname.split("."))
        if fullname.startswith(FROM_CHECKOUT):
            folder = place.is_dir()
            return spec_from_file_location(fullname, place / "__init__.py" if folder else place.with_suffix(".py"),
                                           submodule_search_locations=[str(place)] if folder else None)  # fmt: skip
        if not fullname.startswith("jax._src") and self.exists(fullname):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        if spec.name == "jax._src.config":
            return Config(spec.name)
        return Private(spec.name, self.checkout.joinpath(*spec.name.split(".")), self.exists)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _exists(name: str) -> bool:
    """Whether this package has a module of jax's."""
    if name.startswith("jax"):
        return place_of(name) is not None
    with contextlib.suppress(ModuleNotFoundError):  # of its parent
        return find_spec(name) is not None
    return False


def _lenient(module: ModuleType) -> None:
    """Have what a public module does not have absent while tests are collected, for the imports of their files."""
    strict = getattr(module, "__getattr__", None)

    def find(name: str) -> Any:
        try:
            if strict is not None:
                return strict(name)
        except AttributeError:
            if name.startswith("__") or not Absent.collecting:
                raise
        if f"{module.__name__}.{name}" in FROM_CHECKOUT:
            return importlib.import_module(f"{module.__name__}.{name}")
        if name.startswith("__") or not Absent.collecting:
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        return Absent(f"{module.__name__}.{name}")

    vars(module)["__getattr__"] = find


def install(checkout: Path) -> None:
    """Have the private modules found from here on."""
    sys.meta_path.insert(0, PrivateFinder(checkout, functools.cache(_exists)))
    importlib.import_module("tilewright.as_jax.jax._src")  # sets `jax._src`, once
    for name in [name for name in sys.modules if name.startswith("jax._src")]:
        del sys.modules[name]
    for name in PUBLIC:
        _lenient(importlib.import_module(name))
    for module, names in PUBLIC_NAMES.items():
        vars(importlib.import_module(module)).update(names)
    setattr(jax, "_src", importlib.import_module("jax._src"))  # noqa: B010
