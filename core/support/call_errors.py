"""Arguments that do not fit a public function or class: an error of the catalogue with the remedy, not Python's own."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import reprlib
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from .errors import (
    ArgumentError,
    ArgumentTypeError,
    AxisError,
    DtypeError,
    IntegerOverflowError,
    ShapeError,
    TilewrightError,
    is_internal,
)
from .runtime import runtime

# What Python and NumPy raise of arguments, and what it is in the catalogue.
_KINDS: tuple[tuple[type[Exception], type[TilewrightError]], ...] = (
    (TypeError, ArgumentTypeError), (OverflowError, IntegerOverflowError), (ValueError, ArgumentError),
    (LookupError, ArgumentError), (AttributeError, ArgumentTypeError), (ArithmeticError, ArgumentError),
)  # fmt: skip
_PYTHON = os.path.dirname(os.__file__) + os.sep  # the folder of Python's own modules
_WITHOUT_REMEDY = (ShapeError, DtypeError, ArgumentError, ArgumentTypeError, AxisError)


def public[F: Callable[..., Any]](function: F) -> F:
    """Decorator of what users call: arguments that do not fit are an error that says how it is called.

    So is what Python or NumPy raises of them within the function, but not what code of the user's raises.

    >>> @public
    ... def halve(x): ...
    >>> halve()
    Traceback (most recent call last):
        ...
    tilewright.core.support.errors.ArgumentTypeError: halve() missing 1 required positional argument: 'x'
      ...
      remedy: call it as halve(x)
    """
    if isinstance(function, type):
        made: Any = function
        made.__init__ = told(made.__init__, made.__name__)
        return made
    made = told(function, function.__name__)
    if function.__doc__:  # doctest looks for functions by the module of their globals, which the wrapper's are not
        function.__globals__.setdefault("__test__", {})[function.__name__] = made
    return made


def told(function: Callable[..., Any], name: str) -> Any:
    """A function that is called by a name, whose errors about its arguments are of the catalogue.

    One that takes `out_sharding` by keyword is called without it, and its result is given that sharding.
    """
    shardable = "out_sharding" in (getattr(function, "__kwdefaults__", None) or ())

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            if shardable and named and named.get("out_sharding") is not None:
                return runtime.interceptors.sharded_types.placed(named.pop("out_sharding"), call, *args, **named)
            return function(*args, **named)
        except tuple(kind for kind, _ in _KINDS) as error:
            made = _of_catalogue(error, function, name, args, named)
            if made is None:
                raise
            raise made from getattr(made, "of", None)

    return call


def _of_catalogue(
    error: Any, function: Callable[..., Any], name: str, args: Sequence[Any], named: dict[str, Any]
) -> TilewrightError | None:
    """What is raised in place of an error of a call; None where the error is the user's, or names a remedy."""
    within = error.__traceback__.tb_next  # the first of this module's is the call itself
    cause = getattr(error, "of", error)  # what a function that this one called has told is told again
    if not _is_ours(within):
        return None
    if type(cause) in _WITHOUT_REMEDY and not cause.remedy:
        return type(cause)(cause.what, _remedy(function, name, named), cause.source)
    if isinstance(cause, TilewrightError):
        return None
    what = str(cause).replace(".__init__()", "()", 1)
    if within is None and isinstance(cause, TypeError):  # the arguments do not fit the parameters
        return ArgumentTypeError(what, _remedy(function, name, named))
    given = [*map(_shown, args), *(f"{k}={_shown(v)}" for k, v in named.items())]
    kind = next(ours for kind, ours in _KINDS if isinstance(cause, kind))
    made: Any = kind(f"{name}({', '.join(given)}): {what}", _remedy(function, name, named))
    made.of = cause
    return made


def _is_ours(trace: TracebackType | None) -> bool:
    """Whether no line of the user's is among those of a traceback."""
    while trace is not None:
        code = trace.tb_frame.f_code
        of_python = code.co_filename.startswith(_PYTHON) and "site-packages" not in code.co_filename
        if not (of_python or is_internal(code)):
            return False
        trace = trace.tb_next
    return True


def _shown(x: Any) -> str:
    typed = hasattr(x, "dtype") and hasattr(x, "shape") and not isinstance(x, type)  # NumPy's scalar types have both
    return f"{x.dtype}{list(x.shape)}" if typed else reprlib.repr(x)


def _remedy(function: Callable[..., Any], name: str, named: dict[str, Any]) -> str:
    signature = inspect.signature(function)
    known = [p for p in signature.parameters if p != "self"]
    near = [f"{k} is like {found[0]}" for k in named if k not in known
            if (found := difflib.get_close_matches(k, known, 1))]  # fmt: skip
    shown = signature.replace(parameters=[p.replace(annotation=p.empty) for k, p in signature.parameters.items()
                                          if k != "self"], return_annotation=signature.empty)  # fmt: skip
    above = "@" if (function.__doc__ or "").startswith("Decorator") else ""
    return "; ".join([*near, f"call it as {above}{name}{shown}"])


def of_call(error: TypeError, what: str, function: Callable[..., Any], count: int, remedy: str) -> None:
    """Raise an `ArgumentTypeError` where an error is that a user's function does not take what it is called with."""
    if _is_ours(error.__traceback__):  # else it is of the user's own code
        of_parameters(what, function, count, remedy)


def of_parameters(what: str, function: Callable[..., Any], count: int, remedy: str) -> None:
    """Raise an `ArgumentTypeError` unless a function can be called with `count` positional arguments."""
    if not callable(function):
        raise ArgumentTypeError(f"{what}: {function!r} is no function", remedy)
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError as wrong:
        raise ArgumentTypeError(f"{what}: the function takes {inspect.signature(function)}, and is given {count} "
                                f"values: {wrong}", remedy) from None  # fmt: skip
    except ValueError:  # a callable that does not tell
        pass


def by_position(
    signature: inspect.Signature, args: Sequence[Any], kwargs: dict[str, Any], name: str
) -> tuple[Any, ...]:
    """The arguments of a function with a rule, all by position; what only has a name keeps its default."""
    bound = signature.bind(*args, **kwargs)
    bound.apply_defaults()
    named = [k for k in bound.kwargs if k in kwargs]
    if named:
        raise ArgumentTypeError(f"{name} takes {named} by name alone", "a function with a rule takes positions")
    return bound.args
