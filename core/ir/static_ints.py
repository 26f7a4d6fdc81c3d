"""Integers among the arguments of functions, shapes and axes too, or errors that name the argument."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import ArgumentTypeError, IntegerOverflowError, ShapeError, TracerIntegerConversionError
from .types import as_size

if TYPE_CHECKING:
    from .array import ArrayLike, DTypeLike


def integers(values: Any, name: str, function: str) -> tuple[int, ...]:
    """A sequence of Python integers (or one), or an error that names the argument."""
    try:
        alone = isinstance(values, (int, np.integer)) or getattr(values, "symbolic", False)
        values = (values,) if alone else tuple(values)  # type: ignore[arg-type]
        return tuple(as_size(v) for v in values)
    except TypeError as error:
        if hasattr(error, "remedy"):
            raise _of_argument(error, name, function) from None
        what = f"{function}: {name} must be integers, got {values!r}"
        raise ArgumentTypeError(what, "pass a tuple of ints") from None


def _of_argument(error: TypeError, name: str, function: str) -> TypeError:
    """An error with a remedy, which names the argument of a function where it is of a traced value."""
    if type(error) is not TracerIntegerConversionError:
        return error
    remedy = "take sizes of an argument's `shape`, or mark the argument static (`static_argnums`)"
    return TracerIntegerConversionError(f"{function}: {name}: {error.what}", remedy, error.source)


def integer(value: ArrayLike, name: str, function: str) -> int:
    """One Python integer, or an error that names the argument."""
    try:
        return as_size(value)
    except TypeError as error:
        if hasattr(error, "remedy"):
            raise _of_argument(error, name, function) from None
        raise ArgumentTypeError(f"{function}: {name} must be an integer, got {value!r}", "pass an int") from None


def as_shape(shape: Any, function: str) -> tuple[int, ...]:
    """A shape as a tuple of non-negative integers."""
    sizes = integers(shape, "shape", function)
    if any(d < 0 for d in sizes):
        raise ShapeError(f"{function}: shape {sizes} has a negative size", "sizes are zero or more")
    return sizes


def as_axis(axis: int, ndim: int, function: str) -> int:
    """An axis of an array of rank `ndim`, negative ones counted from the end."""
    axis = integer(axis, "axis", function)
    if not -ndim <= axis < ndim:
        raise ShapeError(f"{function}: axis {axis} is out of range for rank {ndim}", f"axes are {-ndim} to {ndim - 1}")
    return axis % ndim if ndim else axis


def as_axes(axes: Sequence[int], ndim: int, function: str) -> tuple[int, ...]:
    """Distinct axes of an array of rank `ndim`."""
    found = tuple(as_axis(a, ndim, function) for a in integers(axes, "axes", function))
    if len(set(found)) != len(found):
        raise ShapeError(f"{function}: axes {found} repeat one", "name each axis once")
    return found


def check_positions(name: str, size: int, dtype: DTypeLike) -> None:
    """Raise unless a dtype can count along an axis that needs more than 32 bits.

    Raises:
      IntegerOverflowError: it cannot.
    """
    if isinstance(size, int) and size > 2**31 and size - 1 > np.iinfo(dtype).max:
        raise IntegerOverflowError(f"{name}: positions along an axis of size {size} as {dtype}",
                                   "set `enable_x64`, which gives int64")  # fmt: skip
