"""What every function of `tilewright.numpy` needs: promotion, axes, checks of arguments, and `inline_jit`."""

from __future__ import annotations

import operator
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from .. import lax
from ..core.arrays.operators import promote_args, promote_args_inexact
from ..core.ir.array import Array, ArrayLike, Axis, DTypeLike
from ..core.ir.binding import is_evaluating, with_out_sharding
from ..core.ir.promotion import promote_types, to_inexact
from ..core.ir.static_ints import integer
from ..core.ir.types import (
    ArrayType,
    as_dtype,
    canonical_dtype,
    is_bool,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_unsigned,
)
from ..core.jit.inline_jit import hashable, inline_jit
from ..core.primitives.elementwise.conversion import cast
from ..core.support.errors import (
    ArgumentTypeError,
    AxisError,
    ConcretizationError,
    DtypeError,
    ShapeError,
    TracerArrayConversionError,
    UnsupportedError,
    warn,
)
from ..core.tracing.array_conversion import as_array, make_array, on_devices_of
from ..core.tracing.trace import ProgramTracer, Tracer, Value, dtype_of, shape_of, typeof

_PYTHON_TYPES = (bool, int, float, complex)


# ---------------------------------------------------------------------------- dtypes


def default_int() -> Any:
    """The dtype of Python's `int` under this configuration."""
    return canonical_dtype(int)


def default_float() -> Any:
    """The dtype of Python's `float` under this configuration."""
    return canonical_dtype(float)


def dtype_argument(dtype: DTypeLike, otherwise: DTypeLike = None) -> Any:
    """A dtype argument as this configuration holds it; a warning when 64 bits were asked for and are not there."""
    if dtype is None:
        return None if otherwise is None else canonical_dtype(otherwise)
    wanted = as_dtype(dtype)
    if wanted.kind in "OUSMm":
        raise DtypeError(f"there are no arrays of dtype {wanted}", "use numbers or booleans")
    got = canonical_dtype(wanted)
    if got != wanted and dtype not in _PYTHON_TYPES:
        warn(f"dtype {wanted} is not available and becomes {got}; set enable_x64 to have 64-bit types")
    return got


def computation_dtype(dtype: Any) -> Any:
    """The dtype in which sums of `dtype` are accumulated: half precision in float32, truth values as numbers."""
    if is_bool(dtype):
        return default_int()
    return np.dtype(np.float32) if is_float(dtype) and dtype.itemsize < 4 else dtype


# ---------------------------------------------------------------------------- conversion and promotion


def value(x: ArrayLike, name: str = "") -> Array:
    """An argument as an array or tracer; sequences are refused, as they are throughout the array API."""
    if isinstance(x, Value):
        return x
    if isinstance(x, (list, tuple)):
        what = f"{name or 'this function'} takes an array, not a {type(x).__name__}"
        raise ArgumentTypeError(what, "convert it with `numpy.asarray` first")
    return as_array(x)


def values(*args: ArrayLike) -> list[Array]:
    return [value(x) for x in args]


def astype(x: ArrayLike, dtype: DTypeLike, weak: bool = False) -> Array:
    """Convert to a dtype that is already canonical; complex to real keeps the real part."""
    if is_complex(dtype_of(x)) and not is_complex(dtype) and not is_bool(dtype):
        x = lax.real_p.bind(x)
    return cast(x, dtype, weak)


def other(result: Array, given: Array) -> Array:
    """A result that does not share its buffer with what it was made of; of a program's values, those as they are."""
    return lax.copy_p.bind(result) if result is given and not isinstance(given, ProgramTracer) else result


def strong(x: Array) -> Array:
    """The array, its dtype no longer that of a Python scalar."""
    type_: Any = typeof(x)
    return lax.convert_element_type(x, type_.dtype) if type_.weak_type else x


def as_weak_as(x: Array, *operands: ArrayLike) -> Array:
    """A result, its dtype that of a Python scalar exactly where all the operands' are."""
    weak = all(typeof(a).weak_type for a in operands)
    return x if typeof(x).weak_type == weak else lax.convert_element_type(x, dtype_of(x), weak_type=weak)


def weak_of_numbers(x: Array, *operands: ArrayLike) -> Array:
    """A result, its dtype that of a Python scalar where the common one of the operands is, and these have no axes."""
    weak = not any(map(shape_of, operands)) and promote_types([typeof(a) for a in operands])[1]  # type: ignore[misc]
    return x if typeof(x).weak_type == weak else lax.convert_element_type(x, dtype_of(x), weak_type=weak)


def promote_dtypes(*args: ArrayLike) -> list[Array]:
    """Bring arguments to their common dtype, shapes as they are."""
    dtype, weak = promote_types([typeof(x) for x in args])  # type: ignore[misc]
    return [cast(x, dtype, weak) for x in args]


def promote_dtypes_inexact(*args: ArrayLike) -> list[Array]:
    """Bring arguments to their common dtype, integers and booleans becoming floats."""
    dtype, weak = promote_types([typeof(x) for x in args])  # type: ignore[misc]
    return [cast(x, to_inexact(dtype), weak) for x in args]


def broadcast_to_shape(x: Any, shape: tuple[int, ...]) -> Array:
    """Broadcast to a shape known to fit, by NumPy's rule."""
    old = shape_of(x)
    if old == shape:
        return x
    dims = tuple(range(len(shape) - len(old), len(shape)))
    return lax.broadcast_in_dim_p.bind(x, shape=shape, broadcast_dimensions=dims)


def broadcast(args: Sequence[Array], scalars: bool = True) -> list[Array]:
    """Broadcast arguments to one shape; with `scalars`, those of rank 0 stay as primitives take them."""
    shapes = [shape_of(x) for x in args]
    if len({s for s in shapes if s or not scalars}) <= 1:
        return list(args)
    shape = lax.broadcast_shapes(*shapes)
    return [x if scalars and not s else broadcast_to_shape(x, shape) for x, s in zip(args, shapes, strict=True)]


promote: Callable[..., list[Array]]
promote_inexact: Callable[..., list[Array]]
promote, promote_inexact = promote_args, promote_args_inexact


# ---------------------------------------------------------------------------- arguments


def no_out(out: Any, name: str) -> None:
    """Refuse the `out` argument of NumPy: arrays are immutable."""
    if out is not None:
        raise UnsupportedError(f"{name} does not write to `out`: arrays are immutable", "use the value it returns")


def axis_of(axis: Any, ndim: int) -> int:
    """An axis counted from the front; a named error when it is out of range."""
    try:
        number = operator.index(axis)
    except ConcretizationError:
        raise
    except TypeError:
        raise ArgumentTypeError(f"axis {reprlib.repr(axis)} is not an integer", "name one axis by its number") from None
    if not -ndim <= number < ndim:
        raise AxisError(f"axis {number} is out of range for an array of {ndim} dimensions",
                        f"use -{ndim} to {ndim - 1}" if ndim else "give an array that has axes")  # fmt: skip
    return number % ndim


def axes_of(axis: Axis, ndim: int) -> tuple[int, ...]:
    """Axes counted from the front; None means all."""
    if axis is None:
        return tuple(range(ndim))
    several = isinstance(axis, (tuple, list, range, np.ndarray))
    axes = tuple(axis_of(a, ndim) for a in axis) if several else (axis_of(axis, ndim),)
    if len(set(axes)) != len(axes):
        raise AxisError(f"axis {axis} repeats an axis", "name each axis once")
    return axes


def shape_argument(shape: Any) -> tuple[int, ...]:
    """A shape argument (a number or a sequence of them) as a tuple."""
    if not isinstance(shape, Iterable) or (isinstance(shape, Value | np.ndarray) and not shape.ndim):
        shape = (shape,)
    sizes = tuple(integer(d, "a size", "shape") for d in shape)
    if any(d < 0 for d in sizes):
        raise ShapeError(f"shape {sizes} has a negative dimension", "sizes are 0 or more")
    return sizes


def concrete(x: ArrayLike, what: str, remedy: str) -> np.ndarray:
    """An argument as NumPy's, where the shape of the result depends on its values; of a tracer the error says so."""
    if not isinstance(x, Tracer):
        return np.asarray(x)
    found = x.concrete()
    if found is None:
        type_: Any = typeof(x)
        raise TracerArrayConversionError(
            f"{what} of a traced value of type {type_.show()}: the shape of the result would depend on its values",
            remedy,
        )
    return np.asarray(found)


def _same(x: Any) -> Any:
    return x


def put(x: Array, device: Any) -> Array:
    """Place an array on a device, or as a sharding says, or leave it where it is."""
    single = getattr(device, "device", None)  # of a SingleDeviceSharding
    if hasattr(device, "placed") and (single is None or isinstance(x, Tracer)):
        return with_out_sharding(device, _same, x)
    if device is None or isinstance(x, (Tracer, np.ndarray, np.generic)):  # NumPy's: it is evaluated on the host
        return x
    return x.to_device(device if single is None else single)


__all__ = [
    "Array", "ArrayLike", "ArrayType", "Axis", "DTypeLike", "Value", "as_array", "as_weak_as", "astype", "axes_of",
    "axis_of", "broadcast", "broadcast_to_shape", "canonical_dtype", "computation_dtype", "concrete", "default_float",
    "default_int", "dtype_argument", "dtype_of", "hashable", "inline_jit", "is_bool", "is_complex", "is_evaluating",
    "is_float", "is_inexact", "is_integer", "is_unsigned", "make_array", "no_out", "on_devices_of", "promote",
    "promote_dtypes", "promote_dtypes_inexact", "promote_inexact", "promote_types", "put", "shape_argument", "shape_of",
    "strong", "to_inexact", "typeof", "value", "values", "weak_of_numbers",
]  # fmt: skip
