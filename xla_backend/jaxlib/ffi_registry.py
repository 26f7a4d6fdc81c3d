"""Functions of foreign libraries that programs call by name: registering them, and whether they are."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

from ...core.primitives.external.ffi_call import TYPED
from ...core.support.errors import ArgumentError, ArgumentTypeError, ForeignFunctionError
from ...core.support.runtime import runtime
from . import shim

# The version of each function that was registered here, by platform and name: 0 untyped, 1 typed.
_registered: dict[tuple[str, str], int] = runtime.part("foreign.registered", {})
_PLATFORMS = {"gpu": "cuda", "host": "cpu"}
_PARTS = ("instantiate", "prepare", "initialize", "execute")
Capsule: type[Any] = type(datetime.datetime_CAPI)  # Python 3.13 and later name it `types.CapsuleType`


def _platform(name: str) -> str:
    return _PLATFORMS.get(name.lower(), name.lower())


def _check_handler(name: str, handler: Any) -> None:
    parts = handler if isinstance(handler, Mapping) else {"execute": handler}
    for stage, one in parts.items():
        if stage not in _PARTS:
            raise ArgumentError(f"{name!r} has a handler for the stage {stage!r}", f"one of {', '.join(_PARTS)}")
        if not isinstance(one, Capsule):
            raise ArgumentTypeError(f"the handler of {name!r} is {one!r} of type {type(one).__name__}",
                                    "wrap the function of the library: `ffi.pycapsule(library.function)`")  # fmt: skip


def register(name: str, handler: Any, platform: str, version: int, **more: Any) -> None:
    """Register a function that programs for a platform call by name."""
    where = _platform(platform)
    if version not in (0, 1):
        raise ArgumentError(f"api_version of {name!r} is {version!r}", "1 for a typed handler, 0 for an untyped one")
    _check_handler(name, handler)
    if _registered.get((where, name), version) != version:
        raise ForeignFunctionError(f"{name!r} is registered for {where} with api_version {1 - version}",
                                   "register it under another name")  # fmt: skip
    try:
        shim.register_foreign(name, handler, where, version, **more)
    except (shim.RuntimeFault, RuntimeError, ValueError) as error:
        raise ForeignFunctionError(f"{name!r} cannot be registered for {where}: {error}",
                                   "build the handler with the headers of `ffi.include_dir()`") from None  # fmt: skip
    _registered[where, name] = version


def is_registered(name: str, platform: str) -> bool:
    """Whether programs for a platform find a function."""
    return (_platform(platform), name) in _registered or name in shim.foreign_names(_platform(platform))


def require(name: str, platform: str, version: int) -> None:
    """Raise `ForeignFunctionError` for an unregistered function, or one registered with another call convention."""
    if not is_registered(name, platform):
        others = sorted(where for where, known in _registered if known == name)
        also = f"; it is for {', '.join(others)}" if others else ""
        raise ForeignFunctionError(f"{name!r} is not registered for {platform}{also}",
                                   f"ffi.register_ffi_target({name!r}, handler, platform={platform!r})")  # fmt: skip
    registered = _registered.get((_platform(platform), name))
    if registered is not None and (registered == 1) != (version == TYPED):
        ways = ("untyped, with api_version=0", "typed, with api_version=1")
        raise ForeignFunctionError(
            f"{name!r} was registered as {ways[registered]}, and is called by version {version} of custom calls",
            f"call it with custom_call_api_version={TYPED if registered else 2}, or register the other kind of handler")
