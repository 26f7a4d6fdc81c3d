"""The one value that holds what changes in this process after import: settings, what evaluates and compiles, caches.

    Runtime ::= the settings, and the backend and the interceptors (core/ir/backend.py), handed over once by `install`
              + parts: a layer's own state (clients, workers), one small object each
              + caches: everything that may be forgotten at any time, with a name and a size
              + facts: what was found out about the process once and stays (its devices, its libraries)

No other module of the package has a global that changes after import.
"""

from __future__ import annotations

import threading
import weakref
from _weakref import _remove_dead_weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ..ir.backend import Backend, Interceptors
    from .config import Config


class CacheSize(NamedTuple):
    """How many entries a cache has, and how many it may have (None: as many as there are)."""

    entries: int
    limit: int | None


class Table(dict[Any, Any]):
    """A dictionary of at most `limit` entries, which it forgets in the order in which they came.

    Reading takes no lock, as from any dictionary; `keep` is how threads write to it.
    """

    __slots__ = ("limit", "lock", "__weakref__")
    limit: int | None
    lock: threading.RLock

    def __init__(self, limit: int | None):
        super().__init__()
        # A key's own `__eq__`, or a finalizer, may come back here in the middle of an entry.
        self.limit, self.lock = limit, threading.RLock()

    def keep(self, key: str | Sequence[str], value: Any) -> Any:
        """Enter a value unless another thread was faster; gives what the table then has."""
        with self.lock:
            found = self.setdefault(key, value)
            while self.limit is not None and len(self) > self.limit:
                del self[next(iter(self))]
            return found

    def touch(self, key: Any) -> Any:
        """The value of a key, which becomes the last one to be forgotten; None if there is none."""
        with self.lock:
            found = self.pop(key, None)
            if found is not None:
                self[key] = found
            return found

    def clear(self) -> None:
        """Forget every entry."""
        with self.lock:
            super().clear()


class WeakTable(weakref.WeakKeyDictionary[Any, Any]):
    """A table whose entries go with their keys."""

    limit = None


class InternTable(dict[Any, weakref.KeyedRef[Any, Any]]):
    """Weak references to one object for each key, which stays as long as something else refers to it.

    A look-up is `table[key]()`, None where the object has just gone. No step takes a lock.
    """

    __slots__ = ("_remove", "__weakref__")
    limit = None

    def __init__(self) -> None:
        super().__init__()

        def remove(gone: Any, table: Any = self, remove: Callable[..., Any] = _remove_dead_weakref) -> None:
            remove(table, gone.key)

        self._remove = remove

    def intern[T](self, key: Sequence[Any], made: T) -> T:
        """The object of a key: `made`, unless another thread was faster."""
        new = weakref.KeyedRef(made, self._remove, key)
        while (found := self.setdefault(key, new)()) is None:
            _remove_dead_weakref(self, key)  # and not what another thread has put there since
        return found

    def clear(self) -> None:
        """Nothing: what is in use has to stay the one object of its key."""


def _size(cache: Any) -> CacheSize:
    if hasattr(cache, "cache_info"):  # made by functools
        info = cache.cache_info()
        return CacheSize(info.currsize, info.maxsize)
    return CacheSize(len(cache), cache.limit)


class Runtime:
    """The state of this process. There is one, `runtime`."""

    __slots__ = (
        "config", "backend", "interceptors", "process_index", "process_count", "parts", "facts", "_caches",
    )  # fmt: skip
    # Read at each operation, hence attributes rather than entries of a dictionary:
    config: Config  # of threads that have not set one
    backend: Backend  # what compiles and runs Programs, and holds arrays
    interceptors: Interceptors  # what acts on binds before a trace does
    process_index: int  # the index of this process in its group
    process_count: int

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self._caches: dict[int, tuple[str, weakref.ref[Any]]] = {}
        self.facts: dict[str, Any] = {}
        self.process_index, self.process_count = 0, 1

    def install(self, backend: Backend, interceptors: Interceptors) -> None:
        """Hand over what the layers above provide; called once."""
        self.backend, self.interceptors = backend, interceptors

    # ------------------------------------------------------------ parts

    def part[T](self, name: str, state: T) -> T:
        """Register the state of a layer: an object whose attributes may change; gives that object."""
        self.parts[name] = state
        return state

    # ------------------------------------------------------------ caches

    def register[T](self, name: str, cache: T) -> T:
        """Have a cache cleared and counted with the others, as long as it lives; gives that cache."""
        place = id(cache)

        def gone(_: object, known: Mapping[str, Any] = self._caches, place: int = place) -> None:
            known.pop(place, None)

        self._caches[place] = name, weakref.ref(cache, gone)
        return cache

    def cache(self, name: str, limit: int | None) -> Table:
        """A new table that is cleared and counted with the other caches."""
        return self.register(name, Table(limit))

    def weak_cache(self, name: str) -> WeakTable:
        """A new table that holds its keys weakly."""
        return self.register(name, WeakTable())

    def caches(self) -> Iterator[tuple[str, Any]]:
        """Every cache with its name."""
        for name, reference in self._caches.copy().values():  # caches may come and go meanwhile
            cache = reference()
            if cache is not None:
                yield name, cache

    def clear_caches(self) -> None:
        """Empty every cache."""
        for _, cache in self.caches():
            (cache.cache_clear if hasattr(cache, "cache_clear") else cache.clear)()

    def cache_sizes(self) -> dict[str, CacheSize]:
        """The entries and the bound of every cache; caches of one name are summed."""
        sizes: dict[str, CacheSize] = {}
        for name, cache in self.caches():
            size, before = _size(cache), sizes.get(name)
            sizes[name] = size if before is None else CacheSize(before.entries + size.entries, size.limit)
        return sizes

    # ------------------------------------------------------------ facts

    def fact(self, name: str, function: Callable[..., Any]) -> None:
        """Register what finds a fact out, a function with `cache_clear`."""
        self.facts[name] = function


runtime: Runtime = Runtime()
