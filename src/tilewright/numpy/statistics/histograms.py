"""Covariance and histograms."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import lax
from ...core.ir.binding import with_out_sharding
from ...core.ir.static_ints import integer
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError
from ..arithmetic import clip
from ..contract import matmul
from ..create import arange, ones
from ..elementwise import where3
from ..index import _bincount, ravel_multi_index
from ..join import concatenate, stack
from ..reductions import average
from ..reductions import max as max_of
from ..reductions import min as min_of
from ..reductions import sum as sum_of
from ..shape import atleast_2d, expand_dims
from ..sorting import searchsorted
from ..spaces import linspace
from ..util import (
    Array,
    ArrayLike,
    DTypeLike,
    Value,
    astype,
    computation_dtype,
    default_float,
    default_int,
    dtype_argument,
    dtype_of,
    inline_jit,
    is_complex,
    is_inexact,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)


@public
def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, dtype: DTypeLike = None,
) -> Array:  # fmt: skip
    """The covariance matrix of variables in rows (or columns), with weights of frequency and importance.

    >>> from tilewright import numpy as jnp
    >>> jnp.cov(jnp.array([[0., 2.], [0., 4.]]))
    Array([[2., 4.],
           [4., 8.]], dtype=float32)
    """
    if ddof is not None:
        ddof = integer(ddof, "ddof", "cov")
    dtype = dtype_argument(dtype)
    if not (dtype is None or is_inexact(dtype)):
        raise ArgumentError(f"a covariance in {dtype}", "name a float or complex dtype")
    return _cov(m, y, fweights, aweights, rowvar, bias, ddof, dtype)


@inline_jit("rowvar", "bias", "ddof", "dtype")
def _cov(
    m: Any, y: Any = None, fweights: Any = None, aweights: Any = None, rowvar: bool = True, bias: bool = False,
    ddof: Any = None, dtype: DTypeLike = None,
) -> Array:  # fmt: skip
    given = [value(v, "cov") for v in (m, y, aweights) if v is not None]
    if dtype is None:
        variables = promote_dtypes_inexact(*given[: 1 + (y is not None)])
        result_dtype = dtype_of(promote_dtypes_inexact(*variables, *given[len(variables) :])[0])
    else:
        result_dtype = dtype
    x = astype(given[0], computation_dtype(result_dtype))
    if len(shape_of(x)) > 2 or (y is not None and len(shape_of(given[1])) > 2):
        raise ArgumentError(f"cov of shape {shape_of(x)}", "pass a vector or a matrix")
    x = _variables_in_rows(x, rowvar or len(shape_of(x)) == 1)
    if y is not None:
        more = atleast_2d(astype(given[1], dtype_of(x)))
        x = concatenate([x, _variables_in_rows(more, rowvar or shape_of(more)[0] == 1)], 0)
    if not shape_of(x)[0]:
        return lax.full((0, 0), 0, result_dtype)
    taken = (0 if bias else 1) if ddof is None else ddof
    weights = None
    if fweights is not None:
        weights = astype(abs(value(fweights)), dtype_of(x))  # of negative weights the magnitude, as in JAX
    if aweights is not None:
        importance = astype(abs(given[-1]), dtype_of(x))
        weights = importance if weights is None else weights * importance
    centre, total = average(x, 1, weights, returned=True)
    gap = x - lax.expand_dims(centre, (1,))
    scaled = gap if weights is None else gap * weights[None, :]
    size: Any = shape_of(x)[1] - taken if weights is None else total[0] - taken
    if weights is not None and aweights is not None and taken:
        size = total[0] - taken * sum_of(weights * importance) / total[0]
    flipped = lax.transpose(scaled, (1, 0))
    product = matmul(gap, lax.conj(flipped) if is_complex(dtype_of(x)) else flipped)
    result = product / size if not isinstance(size, int) or size > 0 else product * np.inf
    result = astype(result, result_dtype)
    return lax.reshape(result, ()) if shape_of(result) == (1, 1) else result


def _variables_in_rows(x: Array, lie_in_rows: bool) -> Array:
    x = atleast_2d(x)
    return x if lie_in_rows else lax.transpose(x, (1, 0))


@inline_jit("rowvar", "dtype")
def corrcoef(x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, dtype: DTypeLike = None) -> Array:
    """The matrix of correlation coefficients.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.corrcoef(jnp.array([[0., 2.], [0., 4.]]))[0, 1])
    1.0
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not shape_of(c):
        return c / c
    n = shape_of(c)[0]
    variance = c[arange(n), arange(n)]
    deviation = astype(lax.sqrt(lax.real(variance) if is_complex(dtype_of(c)) else variance), dtype_of(c))
    c = c / lax.expand_dims(deviation, (1,)) / lax.expand_dims(deviation, (0,))
    if is_complex(dtype_of(c)):
        return lax.complex(_within_one(lax.real(c)), _within_one(lax.imag(c)))
    return _within_one(c)


def _within_one(x: Array) -> Array:
    return clip(x, -1, 1)


# ---------------------------------------------------------------------------- histograms


@public
def histogram_bin_edges(a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None) -> Array:  # noqa: A002
    """The edges of bins of equal width over the data, or over `range`.

    >>> from tilewright import numpy as jnp
    >>> jnp.histogram_bin_edges(jnp.array([0., 4.]), 2)
    Array([0., 2., 4.], dtype=float32)
    """
    if isinstance(bins, str):
        raise ArgumentError(f"bins {bins!r} chosen by a rule", "pass a number of bins or their edges")
    (a,) = promote_dtypes_inexact(value(a, "histogram"))
    given: Any = np.asarray(bins) if isinstance(bins, (list, tuple)) else bins
    edges = value(given) if isinstance(given, (Value, np.ndarray)) else None
    if edges is not None and shape_of(edges):
        return astype(edges, dtype_of(a))
    number: Any = bins
    return _edges(a, operator.index(number), None if range is None else tuple(range))


@inline_jit("bins")
def _edges(a: Any, bins: int, range: Any = None) -> Array:  # noqa: A002
    dtype = dtype_of(a)
    if range is not None:
        low, high = (astype(r, dtype) for r in range)
    elif 0 in shape_of(a):
        low, high = np.zeros((), dtype)[()], np.ones((), dtype)[()]
    else:
        low, high = min_of(a), max_of(a)
    low, high = value(low), value(high)
    flat = lax.eq(low, high)
    low, high = where3(flat, low - 0.5, low), where3(flat, high + 0.5, high)
    return astype(linspace(low, high, bins + 1), dtype)


@public
def histogram(
    a: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None, density: bool | None = None,  # noqa: A002
    out_sharding: Any = None,
) -> tuple[Array, Array]:  # fmt: skip
    """How many elements fall in each bin (or the sum of their weights), and the edges of the bins.

    >>> from tilewright import numpy as jnp
    >>> jnp.histogram(jnp.array([0., 1., 4.]), 2)[0]
    Array([2., 1.], dtype=float32)
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, histogram, a, bins, range, weights, density)
    edges = strong(histogram_bin_edges(a, bins, range, weights))
    counts = _counts([value(a, "histogram")], [edges], weights)
    if density:
        counts = counts / (lax.slice_in_dim(edges, 1, None) - lax.slice_in_dim(edges, 0, -1)) / sum_of(counts)
    return counts, edges


@inline_jit()
def _counts(columns: Any, edges: Any, weights: Any = None) -> Array:
    """Counts over the grid of bins; each bin has its left edge, the last one both."""
    sizes = tuple(shape_of(e)[0] - 1 for e in edges)
    places, inside = [], None
    for column, edge in zip(columns, edges, strict=True):
        x = astype(column, dtype_of(edge)) if dtype_of(column) != dtype_of(edge) else column
        n = shape_of(edge)[0] - 1
        place = searchsorted(edge, x, side="right") - 1
        place = where3(lax.eq(x, edge[n]), n - 1, place)
        within = lax.bitwise_and(lax.ge(place, 0), lax.lt(place, n))
        inside = within if inside is None else lax.bitwise_and(inside, within)
        places.append(place)
    total = math.prod(sizes)
    dtype = dtype_of(edges[0])
    flat = places[0] if len(places) == 1 else ravel_multi_index(places, sizes, mode="clip")
    flat = where3(inside, flat, total)
    if weights is None:
        share = ones(shape_of(flat), dtype)
    else:
        share = lax.reshape(value(weights), shape_of(flat))
        share = share if share.dtype.kind in "fc" else astype(share, default_float())
    return lax.reshape(_bincount(flat, share, total), sizes)


@public
def histogramdd(
    sample: ArrayLike,
    bins: Any = 10,
    range: Any = None,
    weights: ArrayLike | None = None,
    density: bool | None = None,  # noqa: A002
) -> tuple[Array, list[Array]]:
    """How many rows of a sample fall in each bin of a grid, and the edges along each dimension.

    >>> from tilewright import numpy as jnp
    >>> jnp.histogramdd(jnp.zeros((3, 2)), 2)[0].shape
    (2, 2)
    """

    (sample,) = promote_dtypes_inexact(value(sample, "histogramdd"))
    sample = expand_dims(sample, 1) if len(shape_of(sample)) == 1 else sample
    rank = shape_of(sample)[1]
    each = list(bins) if isinstance(bins, (list, tuple)) else [bins] * rank
    ranges: Sequence[Any] = [None] * rank if range is None else list(range)
    if len(each) != rank or len(ranges) != rank:
        raise ArgumentError(f"{len(each)} bins and {len(ranges)} ranges for {rank} dimensions", "give one of each")
    columns = [sample[:, d] for d, _ in enumerate(each)]
    edges = [histogram_bin_edges(c, b, r) for c, b, r in zip(columns, each, ranges, strict=True)]
    counts = _counts(columns, edges, weights)
    if weights is None and not density:
        return astype(counts, default_int()), edges
    if density:
        counts = counts / sum_of(counts)
        for d, edge in enumerate(edges):
            widths = lax.slice_in_dim(edge, 1, None) - lax.slice_in_dim(edge, 0, -1)
            counts = counts / lax.expand_dims(widths, [e for e, _ in enumerate(edges) if e != d])
    return counts, edges


@public
def histogram2d(
    x: ArrayLike, y: ArrayLike, bins: Any = 10, range: Any = None, weights: ArrayLike | None = None,  # noqa: A002
    density: bool | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """How many points fall in each bin of a plane, and the edges along both dimensions.

    >>> from tilewright import numpy as jnp
    >>> jnp.histogram2d(jnp.zeros(3), jnp.zeros(3), 2)[0].shape
    (2, 2)
    """

    x, y = promote_dtypes_inexact(value(x), value(y))
    shared = isinstance(bins, (list, tuple)) and len(bins) not in (1, 2) or isinstance(bins, (Value, np.ndarray))
    each = [bins, bins] if shared or not isinstance(bins, (list, tuple)) else [*bins, *bins][:2]
    counts, edges = histogramdd(stack([x, y], 1), each, range, weights, density)
    return counts, edges[0], edges[1]


__all__ = [
    "corrcoef", "cov", "histogram", "histogram2d", "histogram_bin_edges", "histogramdd",
]  # fmt: skip
