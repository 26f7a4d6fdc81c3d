"""Arguments that do not fit the parameters of a public function or class: an error with the remedy, not a TypeError."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable
from typing import Any

from .errors import ArgumentTypeError


def public[F: Callable[..., Any]](function: F) -> F:
    """Decorator of what users call: arguments that do not fit are an `ArgumentTypeError` that says how it is called.

    >>> @public
    ... def halve(x): ...
    >>> halve()
    Traceback (most recent call last):
        ...
    tilewright.core.errors.ArgumentTypeError: halve() missing 1 required positional argument: 'x'
      ...
      remedy: call it as halve(x)
    """
    if isinstance(function, type):
        made: Any = function
        made.__init__ = _told(made.__init__, made.__name__)
        return made
    return _told(function, function.__name__)


def _told(function: Any, name: str) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return function(*args, **named)
        except TypeError as error:
            if error.__traceback__ is None or error.__traceback__.tb_next is not None:  # it was raised within
                raise
            what = str(error).replace(".__init__()", "()", 1)
            raise ArgumentTypeError(what, _remedy(function, name, named)) from None

    return call


def _remedy(function: Any, name: str, named: dict[str, Any]) -> str:
    signature = inspect.signature(function)
    known = [p for p in signature.parameters if p != "self"]
    near = [f"{k} is like {found[0]}" for k in named if k not in known
            if (found := difflib.get_close_matches(k, known, 1))]  # fmt: skip
    shown = signature.replace(parameters=[p.replace(annotation=p.empty) for k, p in signature.parameters.items()
                                          if k != "self"], return_annotation=signature.empty)  # fmt: skip
    above = "@" if (function.__doc__ or "").startswith("Decorator") else ""
    return "; ".join([*near, f"call it as {above}{name}{shown}"])


def of_parameters(what: str, function: Any, count: int, remedy: str) -> None:
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
