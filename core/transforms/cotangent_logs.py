"""What backward rules tell besides cotangents: named pytrees, which `pullback.with_logs` gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any

from ..support.errors import ArgumentError, ArgumentTypeError

_open: ContextVar[dict[Any, Any] | None] = ContextVar("tilewright_logs", default=None)


def log(entries: Mapping[str, Any]) -> None:
    """Add entries to what is collected here; None adds nothing, and without a collector they are dropped.

    Raises:
      ArgumentTypeError: something else than a dictionary.
      ArgumentError: an entry of that name is there already.
    """
    if entries is None:
        return
    if not isinstance(entries, Mapping):
        raise ArgumentTypeError(f"a backward rule logs {type(entries).__name__}", "give a dictionary, or None")
    logs = _open.get()
    if logs is None:
        return
    for name, value in entries.items():
        if name in logs:
            raise ArgumentError(f"two backward rules log {name!r}", "give each entry a name of its own")
        logs[name] = value


def is_collecting() -> bool:
    return _open.get() is not None


def collected(fun: Callable[..., Any], *args: Any) -> tuple[Any, dict[Any, Any]]:
    """What a function gives, and what backward rules within it tell."""
    logs: dict[Any, Any] = {}
    token = _open.set(logs)
    try:
        return fun(*args), logs
    finally:
        _open.reset(token)
