"""The methods of arrays and tracers that are named as NumPy's functions, and mean the same."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import lax
from ...core.arrays.operators import Operators
from ...core.ir.binding import with_out_sharding
from ...core.ir.types import itemsize_bits
from ...core.support.errors import ImmutableArrayError, ShapeError
from .. import (
    arithmetic,
    contract,
    create,
    cumulative,
    dtypes,
    elementwise,
    index,
    matrices,
    reductions,
    sorting,
)
from ..manipulation import repeat
from ..select import choose
from ..shape import ravel, squeeze, swapaxes
from ..shape import reshape as reshape_to
from ..shape import transpose as transpose_to
from ..util import Array, DTypeLike, dtype_argument, dtype_of, is_complex, shape_of
from .array_function import NumpyProtocols


def reshape(self: Array, *args: Any, order: str = "C", copy: bool | None = None, out_sharding: Any = None) -> Array:
    """`numpy.reshape` with the shape as one argument or several."""
    if out_sharding is not None:
        return with_out_sharding(out_sharding, reshape, self, *args, order=order, copy=copy)
    return reshape_to(self, args[0] if len(args) == 1 else args, order, copy=copy)


def byteswap(self: Array, inplace: bool = False) -> Array:
    """The elements with their bytes in reverse order; `inplace` is refused, for arrays do not change."""
    if inplace:
        raise ImmutableArrayError("byteswap(inplace=True)", "use the array that byteswap() gives")
    dtype = dtype_of(self)
    if dtype.itemsize == 1:
        return self
    if is_complex(dtype):
        return lax.complex(byteswap(lax.real(self)), byteswap(lax.imag(self)))
    as_bytes = lax.bitcast_convert_type(self, np.dtype(np.uint8))
    return lax.bitcast_convert_type(lax.rev(as_bytes, (len(shape_of(self)),)), dtype)


def transpose(self: Array, *args: Any) -> Array:
    """`numpy.transpose` with the axes as one argument or several."""
    one = len(args) == 1 and (args[0] is None or np.ndim(args[0]) == 1)
    return transpose_to(self, args[0] if one else args or None)


def view(self: Array, dtype: DTypeLike = None, type: None = None) -> Array:  # noqa: A002
    """The same bytes as another dtype; the last axis changes with its width."""
    wanted = dtype_argument(dtype)
    if wanted is None or wanted == dtype_of(self):
        return self
    old, new = itemsize_bits(dtype_of(self)), itemsize_bits(wanted)
    if wanted == np.bool_ or dtype_of(self) == np.bool_:
        as_bytes = lax.convert_element_type(self, np.dtype(np.uint8)) if dtype_of(self) == np.bool_ else self
        return view(as_bytes, np.uint8) != 0 if wanted == np.bool_ else view(as_bytes, wanted)
    if is_complex(dtype_of(self)) != is_complex(wanted):
        return _view_of_complex(self, wanted) if is_complex(dtype_of(self)) else _view_as_complex(self, wanted)
    if old == new:
        return lax.bitcast_convert_type(self, wanted)
    dims = shape_of(self)
    if not dims:
        raise ShapeError(f"a view of a scalar of {dtype_of(self)} as {wanted}", "give it an axis first")
    if old > new:
        wide = lax.bitcast_convert_type(self, wanted)
        return lax.reshape(wide, (*dims[:-1], dims[-1] * (old // new)))
    if dims[-1] * old % new:
        raise ShapeError(f"a last axis of {dims[-1]} elements of {dtype_of(self)} as {wanted}", "sizes must divide")
    return lax.bitcast_convert_type(lax.reshape(self, (*dims[:-1], dims[-1] * old // new, new // old)), wanted)


def _view_of_complex(x: Array, wanted: Any) -> Array:
    """Real and imaginary parts beside each other, as another dtype."""
    dims = shape_of(x)
    if not dims:
        raise ShapeError(f"a view of a scalar of {dtype_of(x)} as {wanted}", "give it an axis first")
    parts = [lax.expand_dims(part(x), (len(dims),)) for part in (lax.real, lax.imag)]
    return view(lax.reshape(lax.concatenate(parts, len(dims)), (*dims[:-1], 2 * dims[-1])), wanted)


def _view_as_complex(x: Array, wanted: Any) -> Array:
    """Pairs of real numbers as real and imaginary parts."""
    parts = view(x, np.dtype(f"float{4 * wanted.itemsize}"))
    if not shape_of(parts) or shape_of(parts)[-1] % 2:
        raise ShapeError(f"an array {shape_of(x)} of {dtype_of(x)} as {wanted}", "sizes must divide")
    return lax.complex(parts[..., ::2], parts[..., 1::2])


def astype(self: Array, dtype: DTypeLike, copy: bool = False, device: Any = None) -> Array:
    """`numpy.astype`."""
    return dtypes.astype(self, dtype, copy=copy, device=device)


def flatten(self: Array, order: str = "C", *, out_sharding: Any = None) -> Array:
    """The array laid flat."""
    if out_sharding is not None:
        return with_out_sharding(out_sharding, flatten, self, order)
    return ravel(self, order)


def nonzero(self: Array, *, size: int | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """`numpy.nonzero`."""
    return index.nonzero(self, size=size, fill_value=fill_value)


def compress(self: Array, condition: Any, axis: int | None = None, **how: Any) -> Array:
    """`numpy.compress`, the condition first."""
    return index.compress(condition, self, axis, **how)


class ArrayMethods(Operators, NumpyProtocols):
    """What arrays and tracers inherit: operators, methods, and the protocols that NumPy looks for."""

    __slots__ = ()

    all = reductions.all
    any = reductions.any
    argmax = reductions.argmax
    argmin = reductions.argmin
    argpartition = sorting.argpartition
    argsort = sorting.argsort
    astype = astype
    byteswap = byteswap
    choose = choose
    clip = arithmetic.clip
    compress = compress
    conj = elementwise.conjugate
    conjugate = elementwise.conjugate
    copy = create.copy
    cumprod = cumulative.cumprod
    cumsum = cumulative.cumsum
    diagonal = matrices.diagonal
    dot = contract.dot
    flat = property(ravel)
    flatten = flatten
    max = reductions.max
    mean = reductions.mean
    min = reductions.min
    nonzero = nonzero
    prod = reductions.prod
    ptp = reductions.ptp
    ravel = ravel
    repeat = repeat.repeat
    reshape = reshape
    round = elementwise.round
    searchsorted = sorting.searchsorted
    sort = sorting.sort
    squeeze = squeeze
    std = reductions.std
    sum = reductions.sum
    swapaxes = swapaxes
    take = index.take
    trace = contract.trace
    transpose = transpose
    var = reductions.var
    view = view
