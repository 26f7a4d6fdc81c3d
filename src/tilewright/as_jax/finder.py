"""The finder that gives Python this package's modules under jax's names, and the metadata that goes with them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from email.message import Message
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from ..core.support.errors import NotAdaptedModuleError
from ..core.support.version import JAX_API
from .table import KERNELS, PACKAGE, PUBLIC, RENAMED, place_of

_KERNEL_LANGUAGE = f"{PACKAGE}.lang."
# Of modules that have no meaning here.
_REASONS = {
    "jax.experimental.pallas.tpu_sc": "kernels run on TensorCores only, not on SparseCores: write one of `pallas.tpu`",
}


class Finder(MetaPathFinder):
    """Finds `jax` and the modules below it here."""

    def find_spec(self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        if fullname.startswith(_KERNEL_LANGUAGE):  # `from jax.experimental.pallas import tpu_sc` asks for this name
            fullname = "jax.experimental.pallas." + fullname.removeprefix(_KERNEL_LANGUAGE)
            if fullname not in _REASONS:
                return None
        if fullname != "jax" and not fullname.startswith("jax."):
            return None
        shipped = _shipped(fullname, path)
        if shipped is not None:
            return shipped
        place = place_of(fullname)
        if place is None:
            error = NotAdaptedModuleError(*unknown_module(fullname))
            error.path = None
            raise error
        return ModuleSpec(fullname, _Loader(place), is_package=True)

    def restore(self, module: ModuleType) -> None:
        """Give a module its own name back, which it lost to that of jax's."""
        spec = module.__spec__
        if spec is not None and module.__name__ != spec.name and spec.name.startswith(RENAMED):
            module.__name__ = spec.name
            if spec.submodule_search_locations is None:
                del module.__path__

    def find_distributions(self, context: Any = None) -> Iterable[Distribution]:
        name = getattr(context or DistributionFinder.Context(), "name", None)
        return [JaxDistribution()] if name is None or name.lower() == "jax" else []


def _named(module: ModuleType) -> str | None:
    """The name that a module was found under."""
    return module.__spec__ and module.__spec__.name


def _shipped(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """The kernels that come with jax are programs written for it: their files are read where it is installed."""
    if name.startswith(f"{KERNELS}."):  # where the package above is jax's, and not this one's under its name
        return PathFinder.find_spec(name, path) if _named(sys.modules[KERNELS]) == KERNELS else None
    real = PathFinder.find_spec("jax") if name == KERNELS else None
    if real is None or not real.submodule_search_locations:
        return None
    folder = Path(real.submodule_search_locations[0], *name.split(".")[1:])
    return spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])


class _Loader(Loader):
    """Has the module of another name stand for the one that is asked for: nothing is copied."""

    def __init__(self, place: str):
        self.place = place

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        found = import_module(self.place)
        if self.place.startswith(RENAMED):
            # Python asks for `jax.core.name` where `from jax.core import name` finds no such name: the error says why.
            found.__name__ = name
            found.__path__ = getattr(found, "__path__", [])
        sys.modules[name] = found
        if name == "jax":
            _with_loaded()


def _with_loaded() -> None:
    """Let `sys.modules` have what `import jax` has loaded there, by which tools find the public names of objects."""
    import_module("jax.tree_util")
    for part in sorted(PUBLIC):
        if f"{PACKAGE}.{part}" in sys.modules and place_of(f"jax.{part}") is not None:
            import_module(f"jax.{part}")


class JaxDistribution(Distribution):
    """What `importlib.metadata` says of jax: its version is the one that this package follows."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        message = Message()
        message["Metadata-Version"], message["Name"], message["Version"] = "2.1", "jax", JAX_API
        message["Summary"] = "tilewright under the name of jax"
        return message.as_string()

    def locate_file(self, path: Any) -> Any:
        return Path(__file__).parent / path


def unknown_module(name: str) -> tuple[str, str]:
    """What is wrong with the name of a module that is not here, and what to do."""
    parent, _, last = name.rpartition(".")
    if name in _REASONS:
        return f"{name} has no adapter in tilewright", _REASONS[name]
    if name.startswith(KERNELS):
        return f"{name} has no kernels in tilewright", "install jax beside it: the kernels in its files run here"
    if name.startswith("jax._src"):
        return (f"{name} is private to jax, and has no adapter in tilewright",
                "use the public name; if a library needs it, add it to tilewright/as_jax/jax/_src")  # fmt: skip
    if parent in sys.modules:
        return f"{parent} has no {last} in tilewright: it has no adapter", "see docs/clients.md for what is adapted"
    return f"{name} is no module of tilewright's: it has no adapter", "see docs/clients.md for what is adapted"
