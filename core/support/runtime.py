"""The one value that holds what changes in this process after import: settings, what evaluates and compiles, caches.

    Runtime ::= slots, filled in by the layers above and by the front door
              + parts: a layer's own state (clients, workers), one small object each
              + caches: everything that may be forgotten at any time, with a name and a size
              + facts: what was found out about the process once and stays (its devices, its libraries)

No other module of the package has a global that changes after import.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class CacheSize(NamedTuple):
    """How many entries a cache has, and how many it may have (None: as many as there are)."""

    entries: int
    limit: int | None


class Table(dict[Any, Any]):
    """A dictionary of at most `limit` entries, which it forgets in the order in which they came.

    Reading takes no lock, as from any dictionary; `keep` is how threads write to it.
    """

    __slots__ = ("limit", "lock", "__weakref__")

    def __init__(self, limit: int | None):
        super().__init__()
        # A key's own `__eq__`, or a finalizer, may come back here in the middle of an entry.
        self.limit, self.lock = limit, threading.RLock()

    def keep(self, key: Any, value: Any) -> Any:
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


def _size(cache: Any) -> CacheSize:
    if hasattr(cache, "cache_info"):  # made by functools
        info = cache.cache_info()
        return CacheSize(info.currsize, info.maxsize)
    return CacheSize(len(cache), cache.limit)


class Runtime:
    """The state of this process. There is one, `runtime`."""

    # Read at each operation, hence attributes rather than entries of a dictionary:
    __slots__ = (
        "config",  # the Config of threads that have set none of their own
        "bind",  # what gives meaning to `Primitive.bind`
        "apart",  # what evaluates a primitive some of whose operands or results may be of opaque types
        "over_values",  # what makes a function of Refs one of the arrays that they hold; None until there are Refs
        "as_jaxpr",  # what gives a Program as clients see it who were written for jaxprs
        "evaluator",  # what evaluates a primitive on concrete arrays
        "backend",  # what compiles and runs Programs
        "lower",  # what makes a module of a Program for a device
        "array_maker",  # what makes an array of the runtime of a fresh NumPy array
        "target_here",  # what gives the target that the default device is
        "devices",  # what gives the devices of this process
        "everywhere",  # what puts a NumPy array of a type on every device of the mesh in force, where there is one
        "align",  # what makes operands vary along the same axes of a mesh
        "dimension",  # what gives a symbolic size as a number of the program being traced
        "varied",  # what gives the types of results with the axes along which they vary
        "explicit",  # the module of shardings in types, once there are any; until then what loads it
        "asked",  # what calls a function whose result is to lie as is asked for by `out_sharding`
        "process_index",  # the number of this process among those that compute together
        "process_count",  # how many these are
        "parts",
        "facts",
        "_caches",
    )

    def __init__(self) -> None:
        self.parts: dict[str, Any] = {}
        self._caches: dict[int, tuple[str, weakref.ref[Any]]] = {}
        self.facts: dict[str, Any] = {}
        self.everywhere: Any = None
        self.over_values: Any = None
        self.as_jaxpr: Any = lambda program: program
        self.process_index, self.process_count = 0, 1

    # ------------------------------------------------------------ parts

    def part[T](self, name: str, state: T) -> T:
        """Register the state of a layer: an object whose attributes may change; gives that object."""
        self.parts[name] = state
        return state

    # ------------------------------------------------------------ caches

    def register[T](self, name: str, cache: T) -> T:
        """Have a cache cleared and counted with the others, as long as it lives; gives that cache."""
        place = id(cache)

        def gone(_: Any, known: Any = self._caches, place: int = place) -> None:
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
        """The entries and the bound of every cache; caches of one name are counted together."""
        sizes: dict[str, CacheSize] = {}
        for name, cache in self.caches():
            size, before = _size(cache), sizes.get(name)
            sizes[name] = size if before is None else CacheSize(before.entries + size.entries, size.limit)
        return sizes

    # ------------------------------------------------------------ facts

    def fact(self, name: str, function: Callable[..., Any]) -> None:
        """Register what finds a fact out, a function with `cache_clear`."""
        self.facts[name] = function


runtime = Runtime()
