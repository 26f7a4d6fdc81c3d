"""Functions of foreign libraries called from programs, under the names of `jax.ffi`.

A library's function is a handler of XLA's typed foreign function interface, whose headers are in `include_dir()`. It is
registered by name with `register_ffi_target` and called with `ffi_call`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .core.primitives.external.ffi_call import TYPED, ForeignCall, ffi_call_p
from .core.primitives.external.host_callback import check_vmap_method
from .core.support import pytree
from .core.support.errors import ArgumentError, ArgumentTypeError, UnsupportedError
from .core.tracing.trace import as_type
from .xla_backend.jaxlib import ffi_registry, shim
from .xla_backend.stablehlo.calls.attributes import attribute, quoted

_LEGACY = (1, 2, 3)  # versions of custom calls without types


def register_ffi_target(name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any) -> None:
    """Register a function that programs call by name.

    `fn` is a capsule of a pointer to the handler (see `pycapsule`), or a dictionary of capsules by stage:
    `instantiate`, `prepare`, `initialize`, `execute`. `api_version` is 1 for a typed handler, 0 for a function
    `void (void* out, const void** in)`.

    Raises:
      ArgumentTypeError: a handler that is no capsule. ArgumentError: an unknown stage or version.
      ForeignFunctionError: the name is taken by a handler of the other kind, or XLA refuses the handler.

    >>> register_ffi_target("doc_nothing", print)
    Traceback (most recent call last):
    ...
    tilewright.core.support.errors.ArgumentTypeError: the handler of 'doc_nothing' is <built-in function print>...
    """
    ffi_registry.register(name, fn, platform, api_version, **kwargs)


def register_ffi_type(name: str, type_registration: Mapping[str, Any], platform: str = "cpu") -> None:
    """Register a type of a state that handlers keep: capsules of pointers to its `type_id` and `type_info`.

    >>> register_ffi_type("doc_state", {"type_id": 1})
    Traceback (most recent call last):
    ...
    tilewright.core.support.errors.ArgumentTypeError: the registration of the type 'doc_state' is {'type_id': 1}...
    """
    capsules = type_registration.values() if isinstance(type_registration, Mapping) else [None]
    if not all(isinstance(v, ffi_registry.Capsule) for v in capsules):
        raise ArgumentTypeError(f"the registration of the type {name!r} is {type_registration!r}",
                                "a dictionary of capsules: type_id and type_info")  # fmt: skip
    shim.register_foreign_type(name, type_registration, platform)


def register_ffi_type_id(name: str, obj: Any, platform: str = "cpu") -> None:
    """The former way to register a type, which jaxlib no longer has: raises `UnsupportedError`.

    >>> register_ffi_type_id("doc_state", None)
    Traceback (most recent call last):
    ...
    tilewright.core.support.errors.UnsupportedError: register_ffi_type_id('doc_state'): jaxlib registers complete
    types only...
    """
    raise UnsupportedError(f"register_ffi_type_id({name!r}): jaxlib registers complete types only",
                           "use register_ffi_type, with type_id and type_info")  # fmt: skip


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Say of a function that on a mesh it may be called for the parts of a batch: all leading axes but its own.

    >>> register_ffi_target_as_batch_partitionable("doc_batches")
    """
    shim.register_batch_partitionable(name)


def pycapsule(funcptr: Any) -> Any:
    """A function of a library loaded by `ctypes`, as the capsule that `register_ffi_target` takes.

    >>> import ctypes
    >>> type(pycapsule(ctypes.pythonapi.PyCapsule_New)).__name__
    'PyCapsule'
    """
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)(
        ("PyCapsule_New", ctypes.pythonapi)
    )
    return make(ctypes.cast(funcptr, ctypes.c_void_p), None, None)


def include_dir() -> str:
    """The folder of the headers that handlers are built with: `xla/ffi/api/ffi.h`.

    >>> import os
    >>> os.path.exists(os.path.join(include_dir(), "xla", "ffi", "api", "ffi.h"))
    True
    """
    return shim.include_dir()


def ffi_call(
    target_name: str, result_shape_dtypes: Any, *, has_side_effect: bool = False, vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None, output_layouts: Any = None,
    input_output_aliases: Mapping[int, int] | None = None, custom_call_api_version: int = TYPED,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """A function that calls a registered one: of arrays, and of attributes by keyword.

    Results are of `result_shape_dtypes`, one or a sequence of things with `shape` and `dtype`. Attributes are numbers,
    strings, vectors of numbers or dictionaries; Python's integers have 64 bits and its floats too, so give a NumPy
    scalar where the handler takes fewer. Layouts are the axes of each array from the slowest to the fastest, None for
    that order. `input_output_aliases` maps operands to results that share their memory. `vmap_method` is as in
    `pure_callback`. With `custom_call_api_version` below 4 an untyped function is called, with `legacy_backend_config`.

    Raises (when the program is compiled):
      ForeignFunctionError: the name is not registered for the platform, or is registered for the other kind of call.
      ShapeError: aliases or layouts that do not fit. ArgumentTypeError: an attribute of another type.

    >>> import numpy as np, tilewright as tw
    >>> call = ffi_call("doc_missing", tw.ShapeDtypeStruct((3,), np.float32))
    >>> call(np.ones(3, np.float32), scale=np.float32(2))
    Traceback (most recent call last):
    ...
    tilewright.core.support.errors.ForeignFunctionError: 'doc_missing' is not registered for cpu...
    """
    check_vmap_method("ffi_call", vmap_method)
    if custom_call_api_version not in (*_LEGACY, TYPED):
        raise ArgumentError(f"custom_call_api_version is {custom_call_api_version!r}", "4, or 1 to 3 for untyped calls")
    if legacy_backend_config is not None and custom_call_api_version == TYPED:
        raise ArgumentError("legacy_backend_config of a typed call", "give attributes by keyword")
    several = isinstance(result_shape_dtypes, (tuple, list))
    types = tuple(as_type(s).strong() for s in (result_shape_dtypes if several else [result_shape_dtypes]))
    if output_layouts is not None and not several:
        output_layouts = [output_layouts]

    def call(*args: Any, **attributes: Any) -> Any:
        if attributes and custom_call_api_version != TYPED:
            raise ArgumentError(f"attributes {sorted(attributes)} of an untyped call", "give legacy_backend_config")
        typed = custom_call_api_version == TYPED
        how = ForeignCall(
            target_name, attribute(attributes, target_name) if typed else quoted(legacy_backend_config or ""),
            has_side_effect, tuple(sorted((input_output_aliases or {}).items())), _layouts(input_layouts),
            _layouts(output_layouts), custom_call_api_version,
        )  # fmt: skip
        leaves, _ = pytree.flatten(args)
        outs = ffi_call_p.bind(*leaves, call=how, result_types=types, vmap_method=vmap_method)
        return type(result_shape_dtypes)(outs) if several else outs[0]

    return call


def _layouts(layouts: Sequence[Any] | None) -> Any:
    if layouts is None:
        return None
    return tuple(None if x is None else tuple(getattr(x, "major_to_minor", x)) for x in layouts)


def ffi_lowering(
    call_target_name: str, *, operand_layouts: Sequence[Any] | None = None, result_layouts: Sequence[Any] | None = None,
    backend_config: Mapping[str, Any] | str | None = None, skip_ffi_layout_processing: bool = False,
    **lowering_args: Any,
) -> Callable[..., Any]:  # fmt: skip
    """A rule `rule(context, *operands, **attributes)` that computes a primitive by a registered function.

    `context.avals_out` are the types of the results; give the rule to a primitive as its `expand`, with them bound.
    Layouts are here from the fastest axis to the slowest. `backend_config` holds attributes, or is the text of an
    untyped call. Raises `UnsupportedError` for other arguments of a lowering, which are jax's own.

    >>> from types import SimpleNamespace
    >>> import tilewright as tw
    >>> rule = ffi_lowering("doc_missing")
    >>> rule(SimpleNamespace(avals_out=[tw.typeof(1.0)]), 2.0)
    Traceback (most recent call last):
    ...
    tilewright.core.support.errors.ForeignFunctionError: 'doc_missing' is not registered for cpu...
    """
    aliases = lowering_args.pop("operand_output_aliases", None)
    effect = lowering_args.pop("has_side_effect", False)
    text = backend_config if isinstance(backend_config, str) else None
    fixed = dict(backend_config) if isinstance(backend_config, Mapping) else {}
    version = lowering_args.pop("api_version", TYPED if text is None else 2)
    if lowering_args or skip_ffi_layout_processing:
        names = sorted(lowering_args) or ["skip_ffi_layout_processing"]
        raise UnsupportedError(f"ffi_lowering of {call_target_name!r} with {', '.join(names)}", "leave them out")

    def slowest_first(layouts: Sequence[Any] | None) -> Any:
        return None if layouts is None else [None if x is None else tuple(x)[::-1] for x in layouts]

    def rule(context: Any, *operands: Any, **attributes: Any) -> list[Any]:
        call = ffi_call(
            call_target_name, list(context.avals_out), has_side_effect=effect, input_output_aliases=aliases,
            input_layouts=slowest_first(operand_layouts), output_layouts=slowest_first(result_layouts),
            custom_call_api_version=version, legacy_backend_config=text,
        )  # fmt: skip
        return call(*operands, **fixed, **attributes)

    return rule


build_ffi_lowering_function = ffi_lowering

__all__ = [
    "build_ffi_lowering_function", "ffi_call", "ffi_lowering", "include_dir", "pycapsule", "register_ffi_target",
    "register_ffi_target_as_batch_partitionable", "register_ffi_type", "register_ffi_type_id",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
