"""Polynomials as vectors of coefficients, the highest power first."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ... import lax
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError
from .. import linalg
from ..contract import convolve
from ..create import asarray
from ..dtypes import finfo
from ..join import concatenate
from ..manipulation.roll import roll
from ..matrices import eye, vander
from ..reductions import sum as sum_of
from ..select import where
from ..shape import atleast_1d, ravel
from ..util import (
    Array,
    ArrayLike,
    as_weak_as,
    astype,
    broadcast_to_shape,
    concrete,
    dtype_of,
    inline_jit,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
    strong,
    typeof,
    value,
)


@public
def polyval(p: ArrayLike, x: ArrayLike, *, unroll: int = 16) -> Array:
    """The value of a polynomial, highest power first, by Horner's rule.

    >>> from tilewright import numpy as jnp
    >>> jnp.polyval(jnp.array([1., 0., 1.]), 2.)
    Array(5., dtype=float32)
    """
    return _polyval(p, x, operator.index(unroll))


@inline_jit("unroll")
def _polyval(p: Any, x: Any, unroll: int) -> Array:
    p, x = promote_dtypes(value(p, "polyval"), value(x, "polyval"))
    rest = shape_of(p)[1:]
    shape = np.broadcast_shapes(rest, shape_of(x))
    x = broadcast_to_shape(x, shape)
    start = lax.full(shape, 0, dtype_of(p))
    n = shape_of(p)[0]

    def step(result: Array, coefficient: Array) -> Array:
        return result * x + broadcast_to_shape(coefficient, shape)

    if n <= 2 * unroll:
        for i in range(n):
            start = step(start, p[i])
        return start
    return lax.scan(lambda carry, c: (step(carry, c), None), start, p, unroll=unroll)[0]


def _vectors(*args: ArrayLike) -> list[Array]:
    arrays = promote_dtypes(*(asarray(a) for a in args))
    return [atleast_1d(a) for a in arrays]


def _combined(name: str, combine: Any) -> Any:
    def function(a1: Any, a2: Any) -> Array:
        a1, a2 = _vectors(a1, a2)
        n = max(shape_of(a1)[0], shape_of(a2)[0])
        rest = max((shape_of(a)[1:] for a in (a1, a2)), key=len)
        zero = np.zeros((), dtype_of(a1))[()]
        a1, a2 = (broadcast_to_shape(a, (shape_of(a)[0], *rest)) for a in (a1, a2))
        a1, a2 = (lax.pad(a, zero, ((n - shape_of(a)[0], 0, 0), *((0, 0, 0) for _ in rest))) for a in (a1, a2))
        return combine(a1, a2)

    function.__name__ = name
    return inline_jit()(function)


_polyadd, _polysub = _combined("polyadd", lax.add), _combined("polysub", lax.sub)


def polyadd(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The sum of two polynomials.

    >>> from tilewright import numpy as jnp
    >>> jnp.polyadd(jnp.array([1, 2]), jnp.array([1]))
    Array([1, 3], dtype=int32)
    """
    return as_weak_as(_polyadd(a1, a2), a1, a2)


def polysub(a1: ArrayLike, a2: ArrayLike) -> Array:
    """The difference of two polynomials.

    >>> from tilewright import numpy as jnp
    >>> jnp.polysub(jnp.array([1, 2]), jnp.array([1]))
    Array([1, 1], dtype=int32)
    """
    return as_weak_as(_polysub(a1, a2), a1, a2)


@public
def polyfit(
    x: ArrayLike, y: ArrayLike, deg: int, rcond: float | None = None, full: bool = False, w: ArrayLike | None = None,
    cov: bool | str = False,
) -> Any:  # fmt: skip
    """The polynomial of degree `deg` closest to points in the least squares sense, highest power first.

    `x` and the weights `w` are (m,), `y` (m,) or (m, k). With `full` also the residuals, rank, singular values and
    `rcond`; with `cov` also the covariance of the coefficients, not scaled by the residuals for "unscaled".

    Raises:
      ArgumentError: shapes do not fit, or there are too few points for a covariance.

    >>> from tilewright import numpy as jnp
    >>> jnp.polyfit(jnp.array([0., 1., 2.]), jnp.array([1., 3., 5.]), 1).round(4)
    Array([2., 1.], dtype=float32)
    """
    x, y, *weights = promote_dtypes_inexact(*(value(v, "polyfit") for v in (x, y, w) if v is not None))
    deg, points = operator.index(deg), typeof(x).size
    if deg < 0:
        raise ArgumentError(f"polyfit of degree {deg}", "deg is 0 or more")
    if len(shape_of(x)) != 1 or len(shape_of(y)) not in (1, 2) or not points or shape_of(y)[0] != points:
        raise ArgumentError(
            f"polyfit: x of shape {shape_of(x)}, y of shape {shape_of(y)}", "x is (m,), y (m,) or (m, k), m at least 1"
        )
    w = weights[0] if weights else None
    if w is not None and shape_of(w) != (points,):
        raise ArgumentError(f"polyfit: weights of shape {shape_of(w)} for {points} points", "give one for each")
    if cov and cov != "unscaled" and points <= deg + 1:
        raise ArgumentError(f"the covariance of degree {deg} from {points} points", "give more points, or 'unscaled'")
    return _polyfit(x, y, deg, rcond, bool(full), w, cov if cov == "unscaled" else bool(cov))


@inline_jit("deg", "rcond", "full", "cov")
def _polyfit(x: Any, y: Any, deg: int, rcond: Any, full: bool, w: Any, cov: Any) -> Any:
    points = shape_of(x)[0]
    left, right = vander(x, deg + 1), y
    if w is not None:
        w = w[:, None]
        left, right = left * w, right * (w if len(shape_of(y)) == 2 else w[:, 0])
    scale = lax.sqrt(sum_of(left * left, 0))
    left = left / scale[None, :]
    rcond = points * float(finfo(dtype_of(x)).eps) if rcond is None else rcond
    found, residuals, rank, singular = linalg.lstsq(left, right, rcond)
    found = found / (scale[:, None] if len(shape_of(y)) == 2 else scale)
    if full:
        return found, residuals, rank, singular, asarray(rcond)
    if not cov:
        return found
    base = linalg.inv(left.T @ left) / (scale[:, None] * scale[None, :])
    if cov != "unscaled":
        rest = residuals / (points - deg - 1)
        base = base[:, :, None] * rest[None, None, :] if len(shape_of(y)) == 2 else base * rest[None, :]
    elif len(shape_of(y)) == 2:
        base = base[:, :, None]
    return found, base


@public
def roots(p: ArrayLike, *, strip_zeros: bool = True) -> Array:
    """The roots of a polynomial, highest power first: the eigenvalues of its companion matrix, complex.

    Zeros at either end are taken off before, for which the values must be known. Within `jit` pass
    `strip_zeros=False`: NaN then stands for each root that zeros in front leave out.

    Raises:
      ArgumentError: `p` is no vector.

    >>> from tilewright import numpy as jnp
    >>> jnp.roots(jnp.array([1., 0., 1.]))
    Array([0.+1.j, 0.-1.j], dtype=complex64)
    """
    (p,) = promote_dtypes_inexact(atleast_1d(value(p, "roots")))
    if len(shape_of(p)) != 1:
        raise ArgumentError(f"roots of an array of shape {shape_of(p)}", "give the coefficients as a vector")
    zeros_at_end = 0
    if strip_zeros and shape_of(p)[0] > 1:
        hits = np.flatnonzero(concrete(p, "roots", "pass strip_zeros=False"))
        zeros_at_end = shape_of(p)[0] - 1 - int(hits[-1]) if hits.size else 0
        p = p[int(hits[0]) : int(hits[-1]) + 1] if hits.size else p[:0]
    return _roots(p, zeros_at_end) if strip_zeros else _roots_of_all(p)


@inline_jit("zeros_at_end")
def _roots(p: Any, zeros_at_end: int) -> Array:
    kind = np.result_type(dtype_of(p), np.complex64)
    degree = max(shape_of(p)[0] - 1, 0)
    if not degree:
        return lax.full((zeros_at_end,), 0, kind)
    below = eye(degree - 1, degree, dtype=dtype_of(p))
    companion = lax.concatenate([lax.expand_dims(-p[1:] / p[0], (0,)), below], 0)
    return lax.concatenate([linalg.eigvals(companion), lax.full((zeros_at_end,), 0, kind)], 0)


@inline_jit()
def _roots_of_all(p: Array) -> Array:
    """As many values as coefficients but one: the roots, and NaN for each zero in front."""
    size = shape_of(p)[0]
    if size < 2:
        return _roots(p, 0)
    lead = sum_of(lax.cumprod(lax.convert_element_type(lax.eq(p, lax.full_like(p, 0)), np.dtype(np.int32))))
    rolled = roll(where(lead == size, lax.full_like(p, 1), p), -lead)  # zeros in front become roots that are zero
    found = _roots(rolled, 0)
    last = lax.convert_element_type(lax.eq(found, lax.full_like(found, 0)), np.dtype(np.int32))
    found = lax.sort_key_val(last, found)[1]
    return where(lax.iota(np.dtype(np.int32), size - 1) < size - 1 - lead, found, complex(np.nan, np.nan))


def _trimmed(p: Array) -> Array:
    data = concrete(p, "a polynomial without its leading zeros", "leave them")
    hits = np.flatnonzero(data)
    return p[int(hits[0]) if hits.size else len(data) - 1 :]


def polymul(a1: ArrayLike, a2: ArrayLike, *, trim_leading_zeros: bool = False) -> Array:
    """The product of two polynomials; one without coefficients is 0.

    >>> from tilewright import numpy as jnp
    >>> jnp.polymul(jnp.array([1., 1.]), jnp.array([1., 2.]))
    Array([1., 3., 2.], dtype=float32)
    """

    a1, a2 = promote_dtypes_inexact(*_vectors(a1, a2))
    if trim_leading_zeros and shape_of(a1)[0] > 1 and shape_of(a2)[0] > 1:
        a1, a2 = _trimmed(a1), _trimmed(a2)
    a1, a2 = (a if shape_of(a)[0] else lax.full((1,), 0, dtype_of(a)) for a in (a1, a2))
    return convolve(a1, a2)


@inline_jit("m")
def polyder(p: ArrayLike, m: int = 1) -> Array:
    """The derivative of a polynomial, taken `m` times.

    >>> from tilewright import numpy as jnp
    >>> jnp.polyder(jnp.array([1., 0., 1.]))
    Array([2., 0.], dtype=float32)
    """
    (p,) = promote_dtypes_inexact(value(p, "polyder"))
    if m < 0:
        raise ArgumentError(f"derivative number {m}", "m is 0 or more")
    n = shape_of(p)[0]
    if m == 0:
        return p
    factors = np.array([math.perm(n - 1 - i, m) for i in range(max(n - m, 0))], np.float64)
    return p[: max(n - m, 0)] * factors.astype(dtype_of(p))


@inline_jit("m")
def polyint(p: ArrayLike, m: int = 1, k: ArrayLike | None = None) -> Array:
    """The integral of a polynomial, taken `m` times, with constants `k`.

    >>> from tilewright import numpy as jnp
    >>> jnp.polyint(jnp.array([2., 0.]))
    Array([1., 0., 0.], dtype=float32)
    """
    (p,) = promote_dtypes_inexact(value(p, "polyint"))
    constants = lax.full((m,), 0, dtype_of(p)) if k is None else astype(ravel(asarray(k)), dtype_of(p))
    if shape_of(constants) == (1,) and m > 1:
        constants = broadcast_to_shape(constants, (m,))
    if m < 0 or shape_of(constants)[0] < m:
        raise ArgumentError(f"integral number {m} with {shape_of(constants)[0]} constants", "give one for each")
    for i in range(m):
        n = shape_of(p)[0]
        p = concatenate([p / np.arange(n, 0, -1).astype(dtype_of(p)), constants[i : i + 1]])
    return p


def polydiv(u: ArrayLike, v: ArrayLike, *, trim_leading_zeros: bool = False) -> tuple[Array, Array]:
    """The quotient and the remainder of two polynomials.

    >>> from tilewright import numpy as jnp
    >>> [a.tolist() for a in jnp.polydiv(jnp.array([1., 3., 2.]), jnp.array([1., 1.]))]
    [[1.0, 2.0], [0.0, 0.0, 0.0]]
    """
    given = _vectors(u, v)
    u, v = promote_dtypes_inexact(*given)
    quotient, rest = _polydiv(u, v)
    quotient, rest = strong(quotient), as_weak_as(rest, *given)
    if trim_leading_zeros and shape_of(rest)[0] > 1:
        rest = _trimmed(where(abs(rest) > 1e-14, rest, 0.0))
    return quotient, rest


@inline_jit()
def _polydiv(u: Any, v: Any) -> tuple[Array, Array]:
    m, n = shape_of(u)[0] - 1, shape_of(v)[0] - 1
    scale = 1 / v[0]
    quotient = lax.full((max(m - n + 1, 1),), 0, dtype_of(u))
    for k in range(m - n + 1):
        d = scale * u[k]
        quotient = quotient.at[k].set(d)
        u = u.at[k : k + n + 1].add(-d * v)
    return quotient, u


def poly(seq_of_zeros: ArrayLike) -> Array:
    """The polynomial with given roots, its leading coefficient 1; of a square matrix the characteristic polynomial.

    Raises:
      ArgumentError: neither a number, a vector nor a square matrix.

    >>> from tilewright import numpy as jnp
    >>> jnp.poly(jnp.array([1., 2.]))
    Array([ 1., -3.,  2.], dtype=float32)
    """
    (zeros,) = promote_dtypes_inexact(value(seq_of_zeros, "poly"))
    shape = shape_of(zeros)
    if len(shape) == 2 and shape[0] == shape[1]:
        zeros = linalg.eigvals(zeros)
    elif len(shape) > 1:
        raise ArgumentError(f"poly of shape {shape}", "pass a vector of roots or a square matrix")
    return _poly(atleast_1d(zeros))


@inline_jit()
def _poly(zeros: Any) -> Array:
    zeros = value(zeros)
    result = lax.full((1,), 1, dtype_of(zeros))
    one = np.zeros((), dtype_of(zeros))[()]
    for i in range(shape_of(zeros)[0]):
        result = lax.pad(result, one, ((0, 1, 0),)) - lax.pad(result, one, ((1, 0, 0),)) * zeros[i]
    return result


__all__ = [
    "poly", "polyadd", "polyder", "polydiv", "polyfit", "polyint", "polymul", "polysub", "polyval", "roots",
]  # fmt: skip
