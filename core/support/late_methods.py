"""Methods of a class that a layer above defines, looked up there whenever they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class _LateMethod:
    """A method or property: the one of the same name in the class that `home()` returns."""

    __slots__ = ("home", "name")

    def __init__(self, home: Callable[[], type], name: str):
        self.home, self.name = home, name

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return getattr(self.home(), self.name).__get__(instance, owner)


def late_methods(name: str, home: Callable[[], type], methods: str) -> type:
    """A mixin class with the methods and properties of these names, which the class `home()` defines."""
    return type(name, (), {"__slots__": (), **{method: _LateMethod(home, method) for method in methods.split()}})
