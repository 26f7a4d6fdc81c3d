"""Making arrays: from data, of constants, of sequences, of patterns.

Outside a trace these are made in NumPy and handed to the device, which compiles nothing; inside one
they become iotas and broadcasts, so that programs carry no large constants.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .. import lax
from ..core.ir.binding import with_out_sharding
from ..core.ir.types import KeyDtype, is_bool, is_complex, is_integer
from ..core.primitives.keys.threefry import random_wrap_p
from ..core.support.call_errors import public
from ..core.support.errors import ArgumentError, ArgumentTypeError, IntegerOverflowError
from ..core.tracing.array_conversion import copied
from . import util
from .util import (
    Array,
    ArrayLike,
    ArrayType,
    DTypeLike,
    Value,
    as_array,
    canonical_dtype,
    dtype_argument,
    dtype_of,
    is_evaluating,
    make_array,
    promote_types,
    put,
    shape_argument,
    shape_of,
    typeof,
    value,
)

# Arrays of one value of fewer bytes are made by NumPy; a compiled program makes larger ones where they are to be.
FILLED_HERE = 16 << 20

# ---------------------------------------------------------------------------- from data


def array(
    object: Any, dtype: DTypeLike = None, copy: bool = True, order: str | None = "K", ndmin: int = 0, *,
    device: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """An array of any array-like data: numbers, nested sequences, NumPy arrays, anything with `__array__`.

    >>> from tilewright import numpy as jnp
    >>> jnp.array([[1, 2], [3, 4]], dtype=jnp.float32)
    Array([[1., 2.],
           [3., 4.]], dtype=float32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, array, object, dtype, copy, order, ndmin, device=device)
    result = _from_object(object, dtype_argument(dtype))
    if copy and isinstance(object, Value):
        result = util.other(result, object)
    missing = ndmin - len(shape_of(result))
    if missing > 0:
        result = lax.expand_dims(result, tuple(range(missing)))
    return put(result, device)


def asarray(
    a: Any, dtype: DTypeLike = None, order: str | None = None, *, copy: bool | None = None, device: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """`array` that gives its argument back where no conversion is needed.

    >>> from tilewright import numpy as jnp
    >>> jnp.asarray([1, 2, 3])
    Array([1, 2, 3], dtype=int32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, asarray, a, dtype, order, copy=copy, device=device)
    return array(a, dtype, copy=bool(copy), order=order, device=device)


def _from_object(x: Any, dtype: DTypeLike) -> Array:
    if not isinstance(x, Value):
        if hasattr(x, "__jax_array__"):
            return _from_object(x.__jax_array__(), dtype)
        if isinstance(x, (list, tuple)):
            return _from_sequence(x, dtype)
        if x is None:
            raise ArgumentTypeError("None is not an array", "pass numbers or an array")
        if type(x) in (int, complex):
            _check_fits(np.asarray(x), canonical_dtype(type(x)) if dtype is None else dtype)
        if dtype is not None:
            return _from_numpy(np.asarray(x), dtype)
        if type(x) not in (bool, int, float, complex):
            x = np.asarray(x)
            _check_numeric(x)
        return as_array(x)
    return x if dtype is None else util.strong(util.astype(x, dtype))


def _from_numpy(x: np.ndarray, dtype: DTypeLike) -> Array:
    _check_numeric(x)
    kind: Any = canonical_dtype(x.dtype) if dtype is None else dtype
    made = np.asarray(x, dtype=kind, order="C")
    _check_numeric(made)
    return copied(made) if np.may_share_memory(made, x) else make_array(made)


def _check_numeric(x: np.ndarray) -> None:
    if x.dtype.kind in "OUSMm" or x.dtype.names:
        raise ArgumentTypeError(f"data of dtype {x.dtype} is not numeric", "pass numbers, booleans or arrays of them")


def _from_sequence(items: Any, dtype: DTypeLike) -> Array:
    if _has_value(items):
        return _stacked(items, dtype)
    try:
        data = np.asarray(items)
    except ValueError as error:
        raise ArgumentError(f"nested sequences of unequal lengths: {error}", "make every row of one length") from None
    if dtype is None and data.dtype.kind == "O" and all(isinstance(x, int) for x in data.flat):
        dtype = canonical_dtype(int)  # in which they do not fit
    if dtype is None and data.dtype.kind in "iufcb" and data.dtype.itemsize == 8 and not _has_numpy(items):
        # Python numbers have no width of their own.
        kind = {"i": int, "f": float, "c": complex, "u": int, "b": bool}[data.dtype.kind]
        dtype = canonical_dtype(kind)
    if dtype is None and data.dtype.kind in "iufcb" and _has_numpy(items):
        dtype = promote_types([typeof(v) for v in _leaves(items)])[0]  # type: ignore[misc]
    elif dtype is not None and not _has_numpy(items):
        _check_fits(data, dtype)
    return _from_numpy(data, dtype)


def _check_fits(data: np.ndarray, dtype: DTypeLike) -> None:
    """Raise where Python numbers are none of a dtype: integers beyond its range, complex numbers for real ones."""
    if data.dtype.kind == "c" and not (is_complex(dtype) or is_bool(dtype)):
        raise ArgumentTypeError(f"a Python complex number in an array of {dtype}", "take its `real` first")
    if data.dtype.kind not in "iuO" or not data.size or not is_integer(dtype):
        return
    info = ml_dtypes.iinfo(dtype)
    low, high = int(data.min()), int(data.max())
    if low < info.min or high > info.max:
        raise IntegerOverflowError(
            f"the Python integer {low if low < info.min else high} does not fit {dtype} ({info.min} to {info.max})",
            "name a wider dtype, set `enable_x64`, or convert a NumPy array to wrap round",
        )


def _has_value(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(_has_value(v) for v in x)
    return isinstance(x, Value) or hasattr(x, "__jax_array__")


def _has_numpy(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return any(_has_numpy(v) for v in x)
    return isinstance(x, (np.ndarray, np.generic))


def _leaves(x: Any) -> list[Any]:
    return [v for item in x for v in _leaves(item)] if isinstance(x, (list, tuple)) else [x]


def _strong_part(x: Any, dtype: DTypeLike) -> Array:
    return util.strong(util.astype(_from_object(x, None), dtype))


def _stacked(items: Any, dtype: DTypeLike) -> Array:
    if dtype is None:
        dtype = promote_types([typeof(v) for v in _leaves(items)])[0]  # type: ignore[misc]
    parts = [_stacked(v, dtype) if isinstance(v, (list, tuple)) else _strong_part(v, dtype) for v in items]
    if len({shape_of(p) for p in parts}) > 1:
        raise ArgumentError(f"parts of unequal shapes {[shape_of(p) for p in parts]}", "make every part of one shape")
    return lax.concatenate([lax.expand_dims(p, (0,)) for p in parts], 0)


def copy(a: ArrayLike, order: str | None = None) -> Array:
    """A copy of an array.

    >>> from tilewright import numpy as jnp
    >>> jnp.copy(jnp.arange(2))
    Array([0, 1], dtype=int32)
    """
    return array(a, copy=True, order=order)


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Array:
    """An array of the memory of another library's, through DLPack.

    >>> import numpy as np
    >>> from tilewright import numpy as jnp
    >>> jnp.from_dlpack(np.ones(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    if isinstance(x, Value):
        return array(x, copy=bool(copy), device=device)
    return put(as_array(np.from_dlpack(x)), device)


@public
def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """An array of the bytes of a buffer.

    >>> from tilewright import numpy as jnp
    >>> jnp.frombuffer(bytes([1, 2]), dtype=jnp.uint8)
    Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=np.dtype(dtype), count=count, offset=offset))


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """An array of the contents of a file, read by NumPy.

    >>> import tempfile
    >>> from tilewright import numpy as jnp
    >>> with tempfile.NamedTemporaryFile() as file:
    ...     _ = file.write(bytes([1, 2]))
    ...     file.flush()
    ...     print(jnp.fromfile(file.name, jnp.uint8))
    [1 2]
    """
    return asarray(np.fromfile(*args, **kwargs))


def fromiter(*args: Any, **kwargs: Any) -> Array:
    """An array of what an iterable yields, read by NumPy.

    >>> from tilewright import numpy as jnp
    >>> jnp.fromiter(range(3), dtype=int)
    Array([0, 1, 2], dtype=int32)
    """
    return asarray(np.fromiter(*args, **kwargs))


def fromstring(string: str, dtype: DTypeLike = float, count: int = -1, *, sep: str) -> Array:
    """An array of numbers written as text.

    >>> from tilewright import numpy as jnp
    >>> jnp.fromstring('1 2', dtype=int, sep=' ')
    Array([1, 2], dtype=int32)
    """
    return asarray(np.fromstring(string, dtype=np.dtype(dtype), count=count, sep=sep))


# ---------------------------------------------------------------------------- constants


@public
def full(
    shape: Any, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of one value, or of one array broadcast.

    >>> from tilewright import numpy as jnp
    >>> jnp.full((2,), 7.0)
    Array([7., 7.], dtype=float32, weak_type=True)
    """
    shape, dtype = shape_argument(shape), dtype_argument(dtype)
    if type(fill_value) is int and dtype is not None and not isinstance(dtype, KeyDtype):
        return put(_filled(shape, np.asarray(fill_value).astype(dtype)[()], dtype), device)  # which wraps round
    fill = _from_object(fill_value, None)
    weak = dtype is None and typeof(fill).weak_type
    dtype = dtype_of(fill) if dtype is None else dtype
    return put(_filled(shape, fill_value if not shape_of(fill) else fill, dtype, weak), device)


def _filled(shape: tuple[int, ...], fill: Any, dtype: DTypeLike, weak: bool = False) -> Array:
    if not shape_of(fill) and not isinstance(dtype_of(fill), KeyDtype) and isinstance(dtype, KeyDtype):
        return random_wrap_p.bind(_filled((*shape, dtype.words), fill, np.dtype(np.uint32)), impl=dtype)
    known = not isinstance(fill, Value)
    if known and is_evaluating() and math.prod(shape) * np.dtype(dtype).itemsize < FILLED_HERE:
        return make_array(np.full(shape, fill, dtype), ArrayType(shape, dtype, weak))
    fill = np.asarray(fill).astype(dtype)[()] if known else util.strong(util.astype(fill, dtype))
    if weak:
        fill = lax.convert_element_type(fill, dtype, weak_type=True)
    dims = tuple(range(len(shape) - len(shape_of(fill)), len(shape)))
    return lax.broadcast_in_dim_p.bind(fill, shape=shape, broadcast_dimensions=dims)


@public
def zeros(shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of zeros.

    >>> from tilewright import numpy as jnp
    >>> jnp.zeros(3)
    Array([0., 0., 0.], dtype=float32)
    """
    return put(_filled(shape_argument(shape), 0, dtype_argument(dtype, float)), device)


@public
def ones(shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of ones.

    >>> from tilewright import numpy as jnp
    >>> jnp.ones((1, 2), dtype=int)
    Array([[1, 1]], dtype=int32)
    """
    return put(_filled(shape_argument(shape), 1, dtype_argument(dtype, float)), device)


@public
def empty(shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array whose values are of no interest (zeros, as arrays have no uninitialised state).

    >>> from tilewright import numpy as jnp
    >>> jnp.empty(2).shape
    (2,)
    """
    return zeros(shape, dtype, device=device)


@public
def full_like(
    a: ArrayLike, fill_value: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """`full` with the shape and dtype of another array, unless others are given.

    >>> from tilewright import numpy as jnp
    >>> jnp.full_like(jnp.arange(2), 5)
    Array([5, 5], dtype=int32)
    """
    if hasattr(a, "shape") and hasattr(a, "dtype"):
        like, kind = tuple(a.shape), a.dtype
    else:
        a = value(a, "full_like")
        like, kind = shape_of(a), dtype_of(a)
    if device is None and isinstance(a, Value) and (shape is None or getattr(a, "_placed", a) is None):
        if a.aval.placed is not None:
            return with_out_sharding(a.aval.placed, full_like, a.aval.plain, fill_value, dtype)
        device = getattr(a, "device", None)
    elif device is None and shape in (None, like) and not isinstance(a, Value):  # a ShapeDtypeStruct, perhaps
        device = getattr(a, "sharding", None)
    where = like if shape is None else shape
    if dtype is None and getattr(a if not isinstance(a, Value) else typeof(a), "weak_type", False):
        fill = util.strong(util.astype(_from_object(fill_value, None), kind))
        return put(lax.convert_element_type(full(where, fill, kind), kind, weak_type=True), device)
    return full(where, fill_value, canonical_dtype(kind) if dtype is None else dtype, device=device)


@public
def zeros_like(
    a: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Zeros with the shape and dtype of another array.

    >>> from tilewright import numpy as jnp
    >>> jnp.zeros_like(jnp.arange(2))
    Array([0, 0], dtype=int32)
    """
    return full_like(a, 0, dtype, shape, device=device)


@public
def ones_like(
    a: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Ones with the shape and dtype of another array.

    >>> from tilewright import numpy as jnp
    >>> jnp.ones_like(jnp.zeros(2))
    Array([1., 1.], dtype=float32)
    """
    return full_like(a, 1, dtype, shape, device=device)


def empty_like(prototype: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None) -> Array:
    """An array of no particular values with the shape and dtype of another.

    >>> from tilewright import numpy as jnp
    >>> jnp.empty_like(jnp.zeros(2)).dtype
    dtype('float32')
    """
    return full_like(prototype, 0, dtype, shape, device=device)


# ---------------------------------------------------------------------------- sequences


@public
def arange(
    start: Any, stop: Any = None, step: Any = None, dtype: DTypeLike = None, *, device: Any = None,
    out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Evenly spaced values in a half-open interval; the bounds must be known numbers.

    >>> from tilewright import numpy as jnp
    >>> jnp.arange(1, 7, 2)
    Array([1, 3, 5], dtype=int32)
    """
    given = [x for x in (start, stop, step) if x is not None]
    if dtype is None:
        dtype = promote_types([typeof(x) for x in given])[0]  # type: ignore[misc]
    kind = dtype_argument(dtype)
    first, last, by = (0, start, 1) if stop is None else (start, stop, 1 if step is None else step)
    if stop is None and step is not None:
        by = step
    first, last, by = (_number(x) for x in (first, last, by))
    if by == 0:
        raise ArgumentError("arange with step 0 never ends", "give a step that is not zero")
    symbolic = any(getattr(x, "symbolic", False) for x in (first, last, by))
    size = _count(first, last, by) if symbolic else max(0, math.ceil((last - first) / by))
    if is_evaluating():
        work = np.float64 if kind.kind not in "iufcb" or kind.itemsize < 4 and kind.kind == "f" else None
        return put(make_array(np.arange(first, last, by, dtype=work).astype(kind)), device)
    result = lax.iota(kind, size)
    if by != 1:
        result = result * _of_dtype(by, kind)
    if first != 0:
        result = result + _of_dtype(first, kind)
    return put(result, device)


def _of_dtype(number: Any, dtype: DTypeLike) -> Any:
    if getattr(number, "symbolic", False):
        return util.astype(util.value(number), dtype)
    return np.asarray(number).astype(dtype)[()]


def _count(first: Any, last: Any, by: Any) -> Any:
    """How many integers a range of symbolic sizes has."""
    count = -((first - last) // by)
    return count if count >= 0 else 0


def _number(x: Any) -> Any:
    """A bound of `arange` as a Python number; tracers say that they are not one."""
    if isinstance(x, (bool, int, float)) or getattr(x, "symbolic", False):
        return x
    dtype = dtype_of(x)
    if dtype.kind == "c":
        raise ArgumentError(f"arange with the complex number {x}", "pass real numbers, and `dtype` for a complex array")
    return int(x) if dtype.kind in "iub" else float(x)


__all__ = [
    "arange", "array", "asarray", "copy", "empty", "empty_like", "from_dlpack", "frombuffer", "fromfile",
    "fromiter", "fromstring", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like",
]  # fmt: skip
