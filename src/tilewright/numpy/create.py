"""Making arrays: from data, of constants, of sequences, of patterns.

Outside a trace these are made in NumPy and handed to the device, which compiles nothing; inside one
they become iotas and broadcasts, so that programs carry no large constants.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import ml_dtypes
import numpy as np

from .. import lax
from ..core.errors import ArgumentError, ArgumentTypeError, IntegerOverflowError
from ..core.types import is_integer
from . import util
from .util import (
    Array,
    ArrayLike,
    DTypeLike,
    Value,
    as_array,
    canonical_dtype,
    composite,
    dtype_argument,
    dtype_of,
    is_bool,
    is_evaluating,
    make_array,
    promote_types,
    put,
    shape_argument,
    shape_of,
    typeof,
    value,
)

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
    result = _from_object(object, dtype_argument(dtype))
    if copy and result is object and is_evaluating() and isinstance(object, Value):
        result = lax.copy_p.bind(result)
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
    return array(a, dtype, copy=bool(copy), order=order, device=device)


def _from_object(x: Any, dtype: Any) -> Array:
    if not isinstance(x, Value):
        if hasattr(x, "__jax_array__"):
            return _from_object(x.__jax_array__(), dtype)
        if isinstance(x, (list, tuple)):
            return _from_sequence(x, dtype)
        if x is None:
            raise ArgumentTypeError("None is not an array", "pass numbers or an array")
        if type(x) is int:
            _check_fits(np.asarray(x), canonical_dtype(int) if dtype is None else dtype)
        if dtype is not None:
            return _from_numpy(np.asarray(x), dtype)
        if type(x) not in (bool, int, float, complex):
            x = np.asarray(x)
            _check_numeric(x)
        return as_array(x)
    return x if dtype is None else util.astype(x, dtype)


def _from_numpy(x: np.ndarray, dtype: Any) -> Array:
    _check_numeric(x)
    kind: Any = canonical_dtype(x.dtype) if dtype is None else dtype
    return make_array(np.array(x, dtype=kind, order="C"))


def _check_numeric(x: np.ndarray) -> None:
    if x.dtype.kind in "OUSMm":
        raise ArgumentTypeError(f"data of dtype {x.dtype} is not numeric", "pass numbers, booleans or arrays of them")


def _from_sequence(items: Any, dtype: Any) -> Array:
    if _has_value(items):
        return _stacked(items, dtype)
    try:
        data = np.asarray(items)
    except ValueError as error:
        raise ArgumentError(f"nested sequences of unequal lengths: {error}", "make every row of one length") from None
    if dtype is None and data.dtype.kind in "iufcb" and data.dtype.itemsize == 8 and not _has_numpy(items):
        # Python numbers have no width of their own.
        kind = {"i": int, "f": float, "c": complex, "u": int, "b": bool}[data.dtype.kind]
        dtype = canonical_dtype(kind)
    if dtype is not None and not _has_numpy(items):
        _check_fits(data, dtype)
    return _from_numpy(data, dtype)


def _check_fits(data: np.ndarray, dtype: Any) -> None:
    """Raise where a Python integer does not fit an integer dtype: wrapping round would be a wrong value."""
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


def _stacked(items: Any, dtype: Any) -> Array:
    if dtype is None:
        dtype = promote_types([typeof(v) for v in _leaves(items)])[0]  # type: ignore[misc]
    parts = [
        _stacked(v, dtype) if isinstance(v, (list, tuple)) else util.astype(_from_object(v, None), dtype) for v in items
    ]
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


def frombuffer(buffer: Any, dtype: DTypeLike = float, count: int = -1, offset: int = 0) -> Array:
    """An array of the bytes of a buffer.

    >>> from tilewright import numpy as jnp
    >>> jnp.frombuffer(bytes([1, 2]), dtype=jnp.uint8)
    Array([1, 2], dtype=uint8)
    """
    return asarray(np.frombuffer(buffer, dtype=np.dtype(dtype), count=count, offset=offset))


def fromfile(*args: Any, **kwargs: Any) -> Array:
    """An array of the contents of a file, read by NumPy."""
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


def full(
    shape: Any, fill_value: ArrayLike, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """An array of one value, or of one array broadcast.

    >>> from tilewright import numpy as jnp
    >>> jnp.full((2,), 7.0)
    Array([7., 7.], dtype=float32)
    """
    shape, dtype = shape_argument(shape), dtype_argument(dtype)
    fill = _from_object(fill_value, None)
    dtype = dtype_of(fill) if dtype is None else dtype
    return put(_filled(shape, fill_value if not shape_of(fill) else fill, dtype), device)


def _filled(shape: tuple[int, ...], fill: Any, dtype: Any) -> Array:
    known = not isinstance(fill, Value)
    if known and is_evaluating():
        return make_array(np.full(shape, fill, dtype))
    fill = np.asarray(fill).astype(dtype)[()] if known else util.astype(fill, dtype)
    dims = tuple(range(len(shape) - len(shape_of(fill)), len(shape)))
    return lax.broadcast_in_dim_p.bind(fill, shape=shape, broadcast_dimensions=dims)


def zeros(shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of zeros.

    >>> from tilewright import numpy as jnp
    >>> jnp.zeros(3)
    Array([0., 0., 0.], dtype=float32)
    """
    return put(_filled(shape_argument(shape), 0, dtype_argument(dtype, float)), device)


def ones(shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array of ones.

    >>> from tilewright import numpy as jnp
    >>> jnp.ones((1, 2), dtype=int)
    Array([[1, 1]], dtype=int32)
    """
    return put(_filled(shape_argument(shape), 1, dtype_argument(dtype, float)), device)


def empty(shape: Any, dtype: DTypeLike = None, *, device: Any = None, out_sharding: Any = None) -> Array:
    """An array whose values are of no interest (zeros, as arrays have no uninitialised state).

    >>> from tilewright import numpy as jnp
    >>> jnp.empty(2).shape
    (2,)
    """
    return zeros(shape, dtype, device=device)


def full_like(
    a: Any, fill_value: ArrayLike, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None,
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
    return full(
        like if shape is None else shape, fill_value, canonical_dtype(kind) if dtype is None else dtype, device=device
    )


def zeros_like(
    a: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
) -> Array:
    """Zeros with the shape and dtype of another array.

    >>> from tilewright import numpy as jnp
    >>> jnp.zeros_like(jnp.arange(2))
    Array([0, 0], dtype=int32)
    """
    return full_like(a, 0, dtype, shape, device=device)


def ones_like(
    a: Any, dtype: DTypeLike = None, shape: Any = None, *, device: Any = None, out_sharding: Any = None
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
    dtype = dtype_argument(dtype)
    first, last, by = (0, start, 1) if stop is None else (start, stop, 1 if step is None else step)
    if stop is None and step is not None:
        by = step
    first, last, by = (_number(x) for x in (first, last, by))
    if by == 0:
        raise ArgumentError("arange with step 0 never ends", "give a step that is not zero")
    size = max(0, math.ceil((last - first) / by))
    if is_evaluating():
        work = np.float64 if dtype.kind not in "iufcb" or dtype.itemsize < 4 and dtype.kind == "f" else None
        return put(make_array(np.arange(first, last, by, dtype=work).astype(dtype)), device)
    result = lax.iota(dtype, size)
    if by != 1:
        result = result * np.asarray(by).astype(dtype)[()]
    if first != 0:
        result = result + np.asarray(first).astype(dtype)[()]
    return put(result, device)


def _number(x: Any) -> Any:
    """A bound of `arange` as a Python number; tracers say that they are not one."""
    if isinstance(x, (bool, int, float)):
        return x
    dtype = dtype_of(x)
    return int(x) if dtype.kind in "iub" else float(x)


def linspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, retstep: bool = False,
    dtype: DTypeLike = None, axis: int = 0, *, device: Any = None,
) -> Any:  # fmt: skip
    """Evenly spaced values over an interval; bounds may be arrays, spaced along `axis`.

    >>> from tilewright import numpy as jnp
    >>> jnp.linspace(0, 1, 5)
    Array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    num = operator.index(num)
    if num < 0:
        raise ArgumentError(f"linspace of num={num} values", "num is 0 or more")
    dtype = dtype_argument(dtype)
    if type(start) in (int, float) and type(stop) in (int, float) and is_evaluating():
        kind = canonical_dtype(float) if dtype is None else dtype
        data, gap = np.linspace(start, stop, num, endpoint, retstep=True)
        data = np.floor(data) if kind.kind in "iu" else data
        result = make_array(data.astype(kind))
        return (put(result, device), asarray(gap, dtype=canonical_dtype(float))) if retstep else put(result, device)
    result, gap = _linspace(value(start, "linspace"), value(stop, "linspace"), num, endpoint, dtype, axis)
    return (put(result, device), gap) if retstep else put(result, device)


@composite("num", "endpoint", "dtype", "axis")
def _linspace(start: Any, stop: Any, num: int, endpoint: bool, dtype: Any, axis: int) -> Any:
    start, stop = util.broadcast(util.promote_dtypes_inexact(start, stop), scalars=False)
    kind = dtype_of(start)
    shape = shape_of(start)
    axis = util.axis_of(axis, len(shape) + 1)
    parts = num - 1 if endpoint else num
    if num == 0:
        return full((*shape[:axis], 0, *shape[axis:]), 0, dtype or kind), full(shape, np.nan, kind)
    gap = (stop - start) / parts if parts else full(shape, np.nan, kind)
    low, high = lax.expand_dims(start, (axis,)), lax.expand_dims(stop, (axis,))
    sizes = [1] * (len(shape) + 1)
    sizes[axis] = num
    t = lax.reshape(lax.iota(kind, num), tuple(sizes)) / max(parts, 1)
    result = low * (1 - t) + high * t
    if endpoint and num > 1:  # the last value is the bound itself, not a rounding of it
        last = lax.broadcasted_iota(np.dtype(np.int32), shape_of(result), axis) == num - 1
        result = lax.select(last, util.broadcast_to_shape(high, shape_of(result)), result)
    if dtype is not None and dtype != kind:
        result = util.astype(lax.floor(result) if dtype.kind in "iu" else result, dtype)
    return result, gap


@composite("num", "endpoint", "dtype", "axis")
def logspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, base: ArrayLike = 10.0,
    dtype: DTypeLike = None, axis: int = 0,
) -> Array:  # fmt: skip
    """Values evenly spaced on a logarithmic scale: powers of `base` from `start` to `stop`.

    >>> from tilewright import numpy as jnp
    >>> jnp.logspace(0, 2, 3)
    Array([  1.,  10., 100.], dtype=float32)
    """
    from .arithmetic import power

    result = power(base, linspace(start, stop, num, endpoint, axis=axis))
    return result if dtype is None else util.astype(result, dtype_argument(dtype))


@composite("num", "endpoint", "dtype", "axis")
def geomspace(
    start: ArrayLike, stop: ArrayLike, num: int = 50, endpoint: bool = True, dtype: DTypeLike = None, axis: int = 0
) -> Array:
    """Values evenly spaced on a logarithmic scale, the bounds given themselves.

    >>> from tilewright import numpy as jnp
    >>> jnp.geomspace(1, 16, 5).round(3)
    Array([ 1.,  2.,  4.,  8., 16.], dtype=float32)
    """
    from .ufuncs import exp, log

    start, stop = util.broadcast(util.promote_dtypes_inexact(start, stop), scalars=False)
    sign = lax.sign(start)
    result = exp(linspace(log(start / sign), log(stop / sign), num, endpoint, axis=axis))
    result = result * lax.expand_dims(sign, (util.axis_of(axis, len(shape_of(sign)) + 1),))
    return result if dtype is None else util.astype(result, dtype_argument(dtype))


# ---------------------------------------------------------------------------- patterns


def eye(N: int, M: int | None = None, k: Any = 0, dtype: DTypeLike = None, *, device: Any = None) -> Array:
    """A matrix with ones on diagonal number `k` and zeros elsewhere.

    >>> from tilewright import numpy as jnp
    >>> jnp.eye(2)
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    n, m = shape_argument((N, N if M is None else M))
    dtype = dtype_argument(dtype, float)
    if is_evaluating():
        return put(make_array(np.eye(n, m, operator.index(k)).astype(dtype)), device)
    rows, columns = (lax.broadcasted_iota(np.dtype(np.int32), (n, m), d) for d in (0, 1))
    return put(util.astype(rows + k == columns, dtype), device)


def identity(n: int, dtype: DTypeLike = None) -> Array:
    """The square identity matrix.

    >>> from tilewright import numpy as jnp
    >>> jnp.identity(1)
    Array([[1.]], dtype=float32)
    """
    return eye(n, dtype=dtype)


def tri(N: int, M: int | None = None, k: int = 0, dtype: DTypeLike = None) -> Array:
    """A matrix with ones at and below diagonal number `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.tri(2, dtype=int)
    Array([[1, 0],
           [1, 1]], dtype=int32)
    """
    n, m = shape_argument((N, N if M is None else M))
    dtype = dtype_argument(dtype, float)
    if is_evaluating():
        return make_array(np.tri(n, m, operator.index(k)).astype(dtype))
    return util.astype(_lower(n, m, k), dtype)


def _lower(n: int, m: int, k: int) -> Array:
    rows, columns = (lax.broadcasted_iota(np.dtype(np.int32), (n, m), d) for d in (0, 1))
    return rows + np.int32(k) >= columns


@composite("k")
def tril(m: ArrayLike, k: int = 0) -> Array:
    """The lower triangle of a matrix, or of each matrix of a stack; zeros above diagonal `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.tril(jnp.ones((2, 2)))
    Array([[1., 0.],
           [1., 1.]], dtype=float32)
    """
    return _triangle(value(m, "tril"), k, True)


@composite("k")
def triu(m: ArrayLike, k: int = 0) -> Array:
    """The upper triangle of a matrix, or of each matrix of a stack; zeros below diagonal `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.triu(jnp.ones((2, 2)))
    Array([[1., 1.],
           [0., 1.]], dtype=float32)
    """
    return _triangle(value(m, "triu"), k - 1, False)


def _triangle(m: Array, k: int, lower: bool) -> Array:
    shape = shape_of(m)
    if len(shape) < 2:
        raise ArgumentError(f"a triangle of an array of shape {shape}", "pass at least two dimensions")
    mask = util.broadcast_to_shape(_lower(shape[-2], shape[-1], k), shape)
    nothing = util.broadcast_to_shape(np.zeros((), dtype_of(m))[()], shape)
    return lax.select(mask, m, nothing) if lower else lax.select(mask, nothing, m)


@composite("k")
def diag(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with a vector on diagonal number `k`, or that diagonal of a matrix.

    >>> from tilewright import numpy as jnp
    >>> jnp.diag(jnp.array([1, 2]))
    Array([[1, 0],
           [0, 2]], dtype=int32)
    """
    v = value(v, "diag")
    if len(shape_of(v)) == 2:
        return diagonal(v, offset=k)
    if len(shape_of(v)) != 1:
        raise ArgumentError(f"diag of an array of shape {shape_of(v)}", "pass a vector or a matrix")
    n = shape_of(v)[0]
    size = n + abs(k)
    zero = np.zeros((), dtype_of(v))[()]
    row = lax.pad(v, zero, ((max(0, k), max(0, -k), 0),))
    mask = eye(size, size, k, dtype=bool)
    return lax.select(mask, util.broadcast_to_shape(row, (size, size)), util.broadcast_to_shape(zero, (size, size)))


def diagflat(v: ArrayLike, k: int = 0) -> Array:
    """A matrix with the flattened input on diagonal number `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.diagflat(jnp.array([[1, 2]])).shape
    (2, 2)
    """
    v = value(v, "diagflat")
    return diag(lax.reshape(v, (typeof(v).size,)), k)


@composite("offset", "axis1", "axis2")
def diagonal(a: ArrayLike, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """A diagonal of each matrix that two axes span, along a new last axis.

    >>> from tilewright import numpy as jnp
    >>> jnp.diagonal(jnp.arange(4).reshape(2, 2))
    Array([0, 3], dtype=int32)
    """
    from .shape import moveaxis

    a = value(a, "diagonal")
    a = moveaxis(a, (axis1, axis2), (-2, -1))
    *lead, n, m = shape_of(a)
    start, size = (max(0, -offset), max(0, offset)), max(0, min(n + min(offset, 0), m - max(offset, 0)))
    if size == 0:
        return full((*lead, 0), 0, dtype_of(a))
    # The diagonal of a square block is every (size+1)-th element of it laid flat.
    rank = len(lead)
    block = lax.slice(a, (*[0] * rank, *start), (*lead, start[0] + size, start[1] + size))
    flat = lax.reshape(block, (*lead, size * size))
    return lax.slice(flat, [0] * (rank + 1), (*lead, size * size), (*[1] * rank, size + 1))


def vander(x: ArrayLike, N: int | None = None, increasing: bool = False) -> Array:
    """The Vandermonde matrix of a vector: its powers in columns.

    >>> from tilewright import numpy as jnp
    >>> jnp.vander(jnp.array([1, 2]), 3)
    Array([[1, 1, 1],
           [4, 2, 1]], dtype=int32)
    """
    from .arithmetic import power

    x = value(x, "vander")
    n = shape_of(x)[0] if N is None else operator.index(N)
    powers = arange(n) if increasing else arange(n - 1, -1, -1)
    result = power(lax.expand_dims(x, (1,)), lax.expand_dims(powers, (0,)))
    return util.astype(result, util.default_int()) if is_bool(dtype_of(x)) else result


_WINDOWS = {
    "hanning": "The Hann window of `M` points.",
    "hamming": "The Hamming window of `M` points.",
    "blackman": "The Blackman window of `M` points.",
    "bartlett": "The Bartlett (triangular) window of `M` points.",
}


def _window(name: str) -> Any:
    def window(M: int) -> Array:
        return asarray(getattr(np, name)(operator.index(M)), dtype=canonical_dtype(float))

    window.__name__ = window.__qualname__ = name
    window.__doc__ = f"""{_WINDOWS[name]}

    >>> from tilewright import numpy as jnp
    >>> jnp.{name}(3).shape
    (3,)
    """
    return window


hanning, hamming, blackman, bartlett = (_window(name) for name in _WINDOWS)


def kaiser(M: int, beta: ArrayLike) -> Array:
    """The Kaiser window of `M` points with shape parameter `beta`.

    >>> from tilewright import numpy as jnp
    >>> jnp.kaiser(3, 0.0)
    Array([1., 1., 1.], dtype=float32)
    """
    from .bessel import i0
    from .ufuncs import sqrt

    M = operator.index(M)
    if M <= 1:
        return ones(M)
    centre = (M - 1) / 2
    n = arange(M, dtype=canonical_dtype(float))
    return i0(beta * sqrt(1 - ((n - centre) / centre) ** 2)) / i0(beta)
