"""What modules of jax's insides say of names that have no adapter."""

from __future__ import annotations

from collections.abc import Callable, Collection
from importlib import import_module
from typing import Any

from ..core.support.errors import NotAdaptedNameError
from .table import ADAPTED


def not_adapted(module: str, submodules: Collection[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of an adapted module: an error that says what the name is and that it has no adapter.

    Modules below it that can be had without an import of their own are `submodules`.

    >>> not_adapted("jax.core")("Thing")
    Traceback (most recent call last):
        ...
    tilewright.core.support.errors.NotAdaptedNameError: jax.core.Thing is of jax's own insides, and has no adapter in
    tilewright ...
    """

    def find(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name in submodules:
            return import_module(f"{ADAPTED}{module.removeprefix('jax')}.{name}")
        raise NotAdaptedNameError(
            f"{module}.{name} is of jax's own insides, and has no adapter in tilewright",
            "use a public name of jax; docs/clients.md says what is adapted",
        )

    return find
