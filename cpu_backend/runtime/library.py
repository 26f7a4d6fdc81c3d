"""Handlers that this process has loaded: from disk where an object is kept, else compiled and kept.

A target's name is the digest of its object's, so that a cached program of XLA that names it finds the same code.
"""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ...core.support.errors import CompileError
from ...core.support.runtime import runtime
from ..llvm.compile import generator_version, object_of
from ..machine.features import Features, features
from ..objects.loader import Loaded, load
from ..objects.store import NAME, Store, name_of, pack, unpack

_loaded: dict[str, Loaded] = runtime.part("cpu.loaded", {})
_lock = threading.Lock()
_CAPSULE = b"xla._CUSTOM_CALL_TARGET"


def loaded(text: str, store: Store | None, machine: Features | None = None) -> tuple[str, Loaded]:
    """The code of a module, by its name.

    Raises a `CompileError` where LLVM or the loader refuses it, a `VersionError` where llvmlite is needed and missing.
    """
    machine = machine or features()
    version = generator_version()
    name = name_of(text, machine, version)
    with _lock:
        if name not in _loaded:
            _loaded[name] = _kept(name, store, machine, version) or load(_compiled(name, text, store, machine, version))
        return name, _loaded[name]


def objects_in(module: str) -> dict[str, bytes]:
    """The objects that a module of XLA calls, by their names, for another process on this machine."""
    return {name: _loaded[name].data for name in sorted({*re.findall(NAME, module)} & _loaded.keys())}


def take(objects: Mapping[str, bytes]) -> Mapping[str, Loaded]:
    """The code of objects of another process."""
    with _lock:
        for name in objects.keys() - _loaded.keys():
            _loaded[name] = load(objects[name])
        return {name: _loaded[name] for name in objects}


def _kept(name: str, store: Store | None, machine: Features, version: str) -> Loaded | None:
    """The code of an object on disk; None where there is none, or it is damaged or another machine's."""
    kept = None if store is None else store.load(name)
    found = None if kept is None else unpack(kept, machine, version)
    if found is None:
        return None
    try:
        return load(found)
    except CompileError:
        return None


def _compiled(name: str, text: str, store: Store | None, machine: Features, version: str) -> bytes:
    found = object_of(text, machine)
    if store is not None:
        store.store(name, pack(found, machine, version))
    return found


def capsule(address: int) -> Any:
    """An address as XLA takes a handler."""
    new: Callable[..., Any] = ctypes.pythonapi.PyCapsule_New
    new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(address, _CAPSULE, None)
