"""Decorators that remember results: `cached` what may be forgotten, `once` what is found out once and stays."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

from .runtime import runtime


def _name(function: Any) -> str:
    return f"{function.__module__}.{function.__qualname__}"


def cached[T](limit: int | None = None) -> Callable[[Callable[..., T]], functools._lru_cache_wrapper[T]]:
    """Remember a function's results by its arguments, the `limit` last used of them, until `clear_caches()`.

    Threads may call at once; two may then compute one result twice, and either is kept.

    >>> @cached(2)
    ... def double(x): return 2 * x
    >>> double(2), double(3), double(4), double.cache_info().currsize
    (4, 6, 8, 2)
    """

    def decorate(function: Callable[..., T]) -> functools._lru_cache_wrapper[T]:
        return runtime.register(_name(function), functools.lru_cache(maxsize=limit)(function))

    return decorate


def once[T](function: Callable[..., T]) -> functools._lru_cache_wrapper[T]:
    """Find something out about the process once (for each set of arguments); `clear_caches()` leaves it.

    Threads that ask at once wait for the one that finds it out, so that all have the same object.
    """
    found = functools.cache(function)
    lock = threading.RLock()

    def locked(*args: Any) -> Any:
        with lock:
            return found(*args)

    outer: Any = functools.cache(functools.update_wrapper(locked, function))
    forget = outer.cache_clear

    def cache_clear() -> None:
        found.cache_clear()
        forget()

    outer.cache_clear = cache_clear
    runtime.fact(_name(function), outer)
    return outer
