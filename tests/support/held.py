"""What the modules of the package hold, as deep as it goes, so that two moments can be compared."""

import collections
import contextvars
import functools
import itertools
import logging
import pathlib
import random
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from tilewright.core.support.runtime import runtime

# What remembers by itself: it has no place in a module, whether or not it was seen to change.
STATEFUL = (
    threading.local, functools._lru_cache_wrapper, random.Random, np.random.Generator, np.random.RandomState,
    itertools.count, itertools.cycle, types.GeneratorType,
)  # fmt: skip
LEAVES = (types.ModuleType, logging.Logger, pathlib.PurePath, str, bytes, int, float, complex, type(None))


def owned() -> set[int]:
    """What the runtime knows of: its parts, its caches and its facts."""
    caches = [cache for _, cache in runtime.caches()]
    return {id(x) for x in (runtime, *runtime.parts.values(), *runtime.facts.values(), *caches)}


def contents(value: Any) -> Iterator[tuple[str, Any]]:
    """What can be reached from a value in one step, each with the name of the step."""
    kind: Any = type(value)
    if isinstance(value, (dict, types.MappingProxyType)):
        for number, (key, inner) in enumerate(list(value.items())):
            yield f"key {number}", key
            yield f"[{key!r:.40}]" if isinstance(key, (str, int)) else f"value {number}", inner
    elif isinstance(value, (list, tuple, set, frozenset, collections.deque)):
        yield from ((f"[{number}]", inner) for number, inner in enumerate(list(value)))
    elif isinstance(value, contextvars.ContextVar):
        yield ".get()", value.get(None)
    elif isinstance(value, types.FunctionType):
        if "slow" not in value.__globals__:  # `core.jit.dispatch_cache` gives such a function other code and defaults
            yield ".__defaults__", value.__defaults__
            yield ".__kwdefaults__", value.__kwdefaults__
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            try:
                yield f" closes over {name}", cell.cell_contents
            except ValueError:  # not bound yet
                pass
    elif hasattr(value, "__self__") and not isinstance(value.__self__, types.ModuleType):
        yield ".__self__", value.__self__
    if isinstance(value, type):
        if not value.__module__.startswith("tilewright"):
            return
        fields: Any = vars(value)
    else:
        fields = getattr(value, "__dict__", {})
        slots = {name for c in kind.__mro__ for name in _names(vars(c).get("__slots__", ()))}
        yield from ((f".{name}", getattr(value, name, None)) for name in slots - {"__dict__", "__weakref__"})
    derived = {n for c in kind.__mro__ for n, v in vars(c).items() if type(v) is functools.cached_property}
    for name, inner in list(fields.items()):
        if name not in derived and (not name.startswith("__") or isinstance(inner, types.FunctionType)):
            yield f".{name}", inner


def _names(slots: Any) -> tuple[str, ...]:
    return (slots,) if isinstance(slots, str) else tuple(slots)


Held = dict[int, tuple[str, Any, Any]]


def reached() -> Held:
    """Everything that modules hold: by identity its path, itself, and what it holds (identities, or a text)."""
    known, found = owned(), Held()
    waiting = []
    for name, module in list(sys.modules.items()):
        if name.split(".")[0] == "tilewright":
            inner = {key: value for key, value in vars(module).items() if not key.startswith("__")}
            found[id(module)] = name, module, tuple(map(id, inner.values()))
            waiting += [(f"{name}.{key}", value) for key, value in inner.items()]
    while waiting:
        path, value = waiting.pop()
        if id(value) in known or id(value) in found or isinstance(value, LEAVES):
            continue
        if isinstance(value, STATEFUL):
            found[id(value)] = path, value, f"is a {type(value).__name__}"
        elif isinstance(value, (np.ndarray, bytearray)):
            found[id(value)] = path, value, memoryview(value).tobytes()
        else:
            steps = list(contents(value))
            found[id(value)] = path, value, tuple(id(inner) for _, inner in steps)
            waiting += [(path + step, inner) for step, inner in steps]
    return found


def changed(before: Held, after: Held) -> list[str]:
    """The paths of what holds something else than before, and of what remembers by itself."""
    return sorted({
        path for place, (path, _, inner) in after.items()
        if isinstance(inner, str) or (place in before and before[place][2] != inner)
    })  # fmt: skip
