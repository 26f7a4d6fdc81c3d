"""Protocols of other libraries that arrays have, unless this package stands for jax: its arrays have none of them."""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any

from .runtime import runtime


class _State:
    hidden = False


_state = runtime.part("protocols", _State())


def hide(hidden: bool) -> None:
    """Have arrays be without these protocols, or with them."""
    _state.hidden = hidden


class _Native:
    def __init__(self, method: Callable[..., Any]):
        self.method = method

    def __get__(self, instance: object, owner: type[Any] | None = None) -> Any:
        if _state.hidden:
            raise AttributeError(self.method.__name__)
        return self.method if instance is None else MethodType(self.method, instance)


def native(method: Callable[..., Any]) -> Any:
    """Decorator of a method that a protocol calls: while protocols are hidden, its class has no such method."""
    return _Native(method)
