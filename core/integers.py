"""Integers among the arguments of functions, or errors that name the argument."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import ArgumentTypeError
from .types import as_size


def integers(values: Any, name: str, function: str) -> tuple[int, ...]:
    """A sequence of Python integers (or one), or an error that names the argument."""
    try:
        alone = isinstance(values, (int, np.integer)) or getattr(values, "symbolic", False)
        values = (values,) if alone else tuple(values)  # type: ignore[arg-type]
        return tuple(as_size(v) for v in values)
    except TypeError as error:
        if isinstance(error, ArgumentTypeError) or hasattr(error, "remedy"):
            raise
        what = f"{function}: {name} must be integers, got {values!r}"
        raise ArgumentTypeError(what, "pass a tuple of ints") from None


def integer(value: Any, name: str, function: str) -> int:
    """One Python integer, or an error that names the argument."""
    try:
        return as_size(value)
    except TypeError as error:
        if hasattr(error, "remedy"):
            raise
        raise ArgumentTypeError(f"{function}: {name} must be an integer, got {value!r}", "pass an int") from None
