"""NumPy's functions called on our arrays: what runs here, and what runs in NumPy on a copy.

`numpy.sin(x)`, `numpy.where(m, x, y)` and `numpy.add.reduce(x)` of an array or tracer run as the function of that name
of this package, and give arrays of this package. Where there is none of that name, or it does not take an argument that
was given (`where` and `casting` of a ufunc, `order`), NumPy runs on the values, and gives NumPy's arrays; a tracer has
no values, which is a `TracerArrayConversionError`. Nothing writes into an array: `out` and the functions that change
their argument are errors if that is one of ours; into NumPy's own arrays NumPy writes as ever.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ...core.ir.array import DTypeLike
from ...core.support.errors import ArgumentError, ImmutableArrayError
from ...core.support.memo import cached
from ...core.support.native_protocols import native
from ...core.tracing.trace import Value
from .ufunc import ufunc as Ufunc

NAMESPACE = sys.modules[__name__.rpartition(".protocols.")[0]]  # `tilewright.numpy`
# The versions of the Python array API standard; each has all that the ones before it have.
API_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12", "2025.12")
# Functions that write into their first argument.
_WRITES = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
_RENAMED = {"clip": {"a": "arr", "a_min": "min", "a_max": "max"}}
# What means the same as not giving it.
_DEFAULTS: dict[str, Any] = {"where": True, "initial": np._NoValue, "casting": "same_kind", "order": "K", "subok": True}


class NumpyProtocols:
    """The methods of arrays that NumPy and users of the array API standard look for."""

    __slots__ = ()

    def __array_namespace__(self, *, api_version: str | None = None) -> ModuleType:
        if api_version not in (None, *API_VERSIONS):
            raise ArgumentError(
                f"version {api_version!r} of the array API standard is not one that is here", f"one of {API_VERSIONS}"
            )
        return NAMESPACE

    @native
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _call_ufunc(NAMESPACE, ufunc, method, inputs, kwargs)

    @native
    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        return _call_function(NAMESPACE, function, types, args, kwargs)


def _call_ufunc(ours: ModuleType, ufunc: np.ufunc, method: str, inputs: Any, kwargs: Any) -> Any:
    """A ufunc of NumPy, or one of its methods, on operands of which one is ours."""
    if not all(_ours_to_take(x) for x in inputs):
        return NotImplemented
    out = kwargs.pop("out", ())
    if any(isinstance(x, Value) for x in out) or (method == "at" and isinstance(inputs[0], Value)):
        raise _immutable(f"numpy.{ufunc.__name__}{'.at' if method == 'at' else ''}")
    if method != "at" and all(x is None for x in out):
        function = _ufunc(ours, ufunc)
        options = {k: v for k, v in kwargs.items() if not _same(v, _DEFAULTS.get(k, inspect.Parameter.empty))}
        if function is not None:
            run = function if method == "__call__" else getattr(_with_methods(function, ufunc), method)
            if not options:
                return run(*inputs)
            if method == "__call__" and options.keys() == {"dtype"} and _has_loop(ufunc, options["dtype"]):
                return run(*[ours.asarray(x, options["dtype"]) for x in inputs])
            if method != "__call__" and options.keys() <= _parameters(run).keys():
                return run(*inputs, **options)
    if out:
        kwargs["out"] = out
    return getattr(ufunc, method)(*_on_host(inputs), **_on_host(kwargs))


def _call_function(namespace: ModuleType, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
    """Any other function of NumPy on arguments of which one is ours."""
    if not all(issubclass(t, (Value, np.ndarray)) or hasattr(t, "aval") for t in types):
        return NotImplemented
    name, given = function.__name__, _bound(function, args, kwargs)
    written = next(iter(given.values())) if name in _WRITES else given.get("out")
    if isinstance(written, Value):
        raise _immutable(f"numpy.{name}")
    ours = _counterpart(namespace, function) if written is None else None
    call = ours and _translated(function, ours, given)
    if not call:
        return function(*_on_host(args), **_on_host(kwargs))
    return ours(*call[0], **call[1])  # type: ignore[misc]


def _immutable(what: str) -> ImmutableArrayError:
    return ImmutableArrayError(
        f"{what} was to write into an array, and arrays do not change",
        "leave `out` out and use the result; x.at[i].set(v) and x.at[i].add(v) give changed arrays",
    )


def _ours_to_take(x: Any) -> bool:
    """Whether an operand leaves the call to us: a class with a rule of its own is asked first, by NumPy."""
    return isinstance(x, (Value, np.ndarray, np.generic)) or not hasattr(type(x), "__array_ufunc__")


def _on_host(x: Any) -> Any:
    """Arguments with NumPy's arrays for ours."""
    if isinstance(x, Value):
        return np.asarray(x)
    if isinstance(x, dict):
        return {k: _on_host(v) for k, v in x.items()}
    return type(x)(map(_on_host, x)) if type(x) in (list, tuple) else x


# ------------------------------------------------------------------------------------------------------- ufuncs


@cached()
def _ufunc(ours: ModuleType, ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Our function of the name, if the ufunc is NumPy's own of that name."""
    name = ufunc.__name__
    return getattr(ours, name, None) if getattr(np, name, None) is ufunc else None


@cached()
def _with_methods(function: Callable[..., Any], ufunc: np.ufunc) -> Ufunc:
    if isinstance(function, Ufunc):
        return function
    return Ufunc(function, ufunc.nin, ufunc.nout, name=ufunc.__name__, identity=ufunc.identity, call=function)


def _has_loop(ufunc: np.ufunc, dtype: DTypeLike) -> bool:
    """Whether the ufunc computes in a dtype with operands and results of that dtype."""
    char = np.dtype(dtype).char
    return f"{char * ufunc.nin}->{char * ufunc.nout}" in ufunc.types


def _same(a: Any, b: Any) -> bool:
    return a is b or (type(a) is type(b) and isinstance(a, (bool, int, str)) and a == b)


# ---------------------------------------------------------------------------------------------- other functions


@cached()
def _counterpart(ours: ModuleType, function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Our function in the module of the same name: `numpy`, `numpy.linalg` or `numpy.fft`."""
    package, _, inner = (function.__module__ or "").partition(".")
    if package != "numpy" or inner not in ("", "linalg", "fft"):
        return None
    return getattr(getattr(ours, inner) if inner else ours, function.__name__, None)


@cached()
def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function).parameters)


@cached()
def _signature(function: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(function)


def _bound(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by the names of NumPy's parameters, without those that say what is so anyway."""
    signature = _signature(function)
    bound = signature.bind(*args, **kwargs).arguments
    defaults = signature.parameters
    return {k: v for k, v in bound.items() if v is not np._NoValue and not _same(v, defaults[k].default)}


def _translated(
    function: Callable[..., Any], ours: Callable[..., Any], given: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]] | None:
    """The arguments as our function takes them, or None if it does not take them all."""
    theirs, known = _signature(function).parameters, _parameters(ours)
    renamed = _RENAMED.get(function.__name__, {})
    rest: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    for name, value in given.items():
        if theirs[name].kind is inspect.Parameter.VAR_POSITIONAL:
            rest = value
        elif theirs[name].kind is inspect.Parameter.VAR_KEYWORD:
            named |= value
        else:
            named[renamed.get(name, name)] = value
    variadic = any(p.kind is p.VAR_POSITIONAL for p in known.values())
    if named.keys() - known.keys() or (rest and not variadic):
        return None
    positional: list[Any] = []
    for name, parameter in known.items():
        if parameter.kind is parameter.KEYWORD_ONLY or name not in named:
            break
        positional.append(named.pop(name))
    if any(known[name].kind is inspect.Parameter.POSITIONAL_ONLY for name in named):
        return None
    return [*positional, *rest], named
