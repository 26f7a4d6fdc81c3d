"""Decorators that remember: `cached` may forget, `once` does not, `kept` has an object keep what its method found."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Concatenate

from .runtime import runtime


def _name(function: Callable[..., Any]) -> str:
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


def kept[**P, T](method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method that finds out once what it gives for some arguments; its object keeps that, under "name()"."""

    @functools.wraps(method)
    def call(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        found = self.__dict__.setdefault(f"{method.__name__}()", {})
        key = args, tuple(kwargs.items())
        if key not in found:
            found[key] = method(self, *args, **kwargs)
        return found[key]

    return call


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
