"""Matrices of a given form."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ... import lax
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, ShapeError
from ...numpy.create import asarray
from ...numpy.select import where
from ...numpy.util import (
    Array,
    ArrayLike,
    DTypeLike,
    broadcast_to_shape,
    default_float,
    dtype_argument,
    dtype_of,
    inline_jit,
    promote_dtypes,
    promote_dtypes_inexact,
    shape_of,
    strong,
    value,
)


def _size(name: str, n: Any, least: int = 0) -> int:
    n = operator.index(n)
    if n < least:
        raise ArgumentError(f"{name} of size {n}", f"a size of at least {least}")
    return n


def _vector(x: ArrayLike, name: str) -> Array:
    x = value(x, name)
    return x if shape_of(x) else lax.reshape(x, (1,))


def _grid(batch: tuple[int, ...], m: int, n: int) -> tuple[Array, Array]:
    """The row and the column of each element."""
    shape = (*batch, m, n)
    return (lax.broadcasted_iota(np.int32, shape, len(batch)), lax.broadcasted_iota(np.int32, shape, len(batch) + 1))


# ---------------------------------------------------------------------------- from vectors


@inline_jit()
def toeplitz(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices with equal elements along each diagonal: first column `c` (..., m), first row `r` (..., n).

    By default `r` is the conjugate of `c`; its first element is passed over.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.toeplitz(jnp.array([1, 2]), jnp.array([9, 3]))
    Array([[1, 3],
           [2, 1]], dtype=int32)
    """
    c = _vector(c, "toeplitz")
    if r is None:
        r = lax.conj(c) if np.issubdtype(dtype_of(c), np.complexfloating) else c
    c, r = promote_dtypes(c, _vector(r, "toeplitz"))
    m, n = shape_of(c)[-1], shape_of(r)[-1]
    batch = lax.broadcast_shapes(shape_of(c)[:-1], shape_of(r)[:-1])
    c, r = (broadcast_to_shape(x, (*batch, shape_of(x)[-1])) for x in (c, r))
    if not m or not n:
        return lax.full((*batch, m, n), 0, dtype_of(c))
    line = lax.concatenate([lax.rev(c, (len(batch),)), lax.slice_in_dim(r, 1, None, axis=len(batch))], len(batch))
    return strong(_windows(line, m, n, True))


def _windows(line: Array, m: int, n: int, backwards: bool) -> Array:
    """Row i of each matrix is `n` elements of `line` from place i on, or (backwards) from m - 1 - i on."""
    places = np.arange(m)[:, None] * (-1 if backwards else 1) + np.arange(n)[None, :] + (m - 1 if backwards else 0)
    return line[..., places]


@inline_jit()
def hankel(c: ArrayLike, r: ArrayLike | None = None) -> Array:
    """Matrices with equal elements across each diagonal: first column `c`, last row `r` (zeros by default).

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.hankel(jnp.array([1, 2]))
    Array([[1, 2],
           [2, 0]], dtype=int32)
    """
    c = _vector(c, "hankel")
    c, r = promote_dtypes(c, lax.full_like(c, 0) if r is None else _vector(r, "hankel"))
    m, n = shape_of(c)[-1], shape_of(r)[-1]
    batch = lax.broadcast_shapes(shape_of(c)[:-1], shape_of(r)[:-1])
    c, r = (broadcast_to_shape(x, (*batch, shape_of(x)[-1])) for x in (c, r))
    if not m or not n:
        return lax.full((*batch, m, n), 0, dtype_of(c))
    line = lax.concatenate([c, lax.slice_in_dim(r, 1, None, axis=len(batch))], len(batch))
    return strong(_windows(line, m, n, False))


@inline_jit()
def circulant(c: ArrayLike) -> Array:
    """Matrices whose columns are `c` (..., n) turned by one place more each.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.circulant(jnp.array([1, 2, 3]))
    Array([[1, 3, 2],
           [2, 1, 3],
           [3, 2, 1]], dtype=int32)
    """
    c = _vector(c, "circulant")
    n = shape_of(c)[-1]
    return c[..., (np.arange(n)[:, None] - np.arange(n)[None, :]) % max(n, 1)]


def _first_row(name: str, a: ArrayLike, least: int = 2) -> Array:
    (a,) = promote_dtypes_inexact(_vector(a, name))
    if shape_of(a)[-1] < least:
        raise ShapeError(f"{name} of coefficients of shape {shape_of(a)}",
                         f"{least} at least, the leading one first")  # fmt: skip
    return -a[..., 1:] / a[..., :1]


@inline_jit()
def companion(a: ArrayLike) -> Array:
    """The companion matrices of polynomials, coefficients (..., n) from the leading one: their eigenvalues are roots.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.companion(jnp.array([1., 2., 3.]))
    Array([[-2., -3.],
           [ 1.,  0.]], dtype=float32)
    """
    first = _first_row("companion", a)
    n = shape_of(first)[-1]
    rows, columns = _grid(shape_of(first)[:-1], n, n)
    return where(rows == 0, first[..., None, :], (rows == columns + 1).astype(dtype_of(first)))


@inline_jit()
def fiedler_companion(a: ArrayLike) -> Array:
    """The companion matrices of polynomials with five diagonals, coefficients (..., n) from the leading one.

    M. Fiedler, "A note on companion matrices", Linear Algebra and its Applications 372 (2003).

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.fiedler_companion(jnp.array([1., 2., 3.]))
    Array([[-2., -3.],
           [ 1.,  0.]], dtype=float32)
    """
    first = _first_row("fiedler_companion", a, least=1)
    n = shape_of(first)[-1]
    rows, columns = _grid(shape_of(first)[:-1], n, n)
    one = lax.full_like(first, 1)[..., None, :]
    by_row, by_column = first[..., :, None], first[..., None, :]
    found = where((rows == 0) & (columns == 0), by_column, 0 * one)
    found = where((rows % 2 == 0) & (columns == rows + 1), by_column, found)
    found = where((rows % 2 == 0) & (columns == rows - 1), by_row, found)
    found = where((rows % 2 == 0) & (columns == rows + 2), one, found)
    return strong(where((rows % 2 == 1) & (columns == rows - 2) | (rows == 1) & (columns == 0), one, found))


@inline_jit()
def leslie(f: ArrayLike, s: ArrayLike) -> Array:
    """The Leslie matrices of fecundities `f` (..., n) and survivals `s` (..., n - 1).

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.leslie(jnp.array([1., 2.]), jnp.array([.5]))
    Array([[1. , 2. ],
           [0.5, 0. ]], dtype=float32)
    """
    f, s = promote_dtypes(_vector(f, "leslie"), _vector(s, "leslie"))
    n = shape_of(f)[-1]
    if shape_of(s)[-1] != n - 1 or n < 2:
        raise ShapeError(f"leslie of shapes {shape_of(f)} and {shape_of(s)}", "one survival less than fecundities")
    batch = lax.broadcast_shapes(shape_of(f)[:-1], shape_of(s)[:-1])
    f, s = (broadcast_to_shape(x, (*batch, shape_of(x)[-1])) for x in (f, s))
    rows, columns = _grid(batch, n, n)
    below = lax.concatenate([s, s[..., :1]], len(batch))[..., None, :]
    return where(rows == 0, f[..., None, :], where(rows == columns + 1, below, lax.full_like(below, 0)))


@inline_jit()
def fiedler(a: ArrayLike) -> Array:
    """The matrices of distances |a_i - a_j| between elements of `a` (..., n).

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.fiedler(jnp.array([1, 4]))
    Array([[0, 3],
           [3, 0]], dtype=int32)
    """
    a = _vector(a, "fiedler")
    return abs(a[..., :, None] - a[..., None, :])


@inline_jit("n", "mode")
def convolution_matrix(a: ArrayLike, n: int, mode: str = "full") -> Array:
    """The matrices whose products with vectors of `n` elements are convolutions by `a` (..., m), as `mode` says.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.convolution_matrix(jnp.array([1, 2]), 2)
    Array([[1, 0],
           [2, 1],
           [0, 2]], dtype=int32)
    """
    a, n = value(a, "convolution_matrix"), _size("convolution_matrix", n, 1)
    m = shape_of(a)[-1] if shape_of(a) else 0
    if not m or mode not in ("full", "same", "valid"):
        raise ArgumentError(f"convolution_matrix of shape {shape_of(a)} and mode {mode!r}",
                            "an element at least; 'full', 'same' or 'valid'")  # fmt: skip
    first, count = {"full": (0, m + n - 1), "same": ((min(m, n) - 1) // 2, max(m, n)),
                    "valid": (min(m, n) - 1, max(m, n) - min(m, n) + 1)}[mode]  # fmt: skip
    places = np.arange(first, first + count)[:, None] - np.arange(n)[None, :]
    inside = (places >= 0) & (places < m)
    return where(inside, a[..., np.clip(places, 0, m - 1)], np.zeros((), dtype_of(a))[()])


def block_diag(*arrs: ArrayLike) -> Array:
    """The matrix with some matrices along its diagonal and zeros elsewhere; vectors are rows.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.block_diag(jnp.ones((1, 2)), jnp.ones((1, 1)))
    Array([[1., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    given = [value(x, "block_diag") for x in arrs] or [lax.full((1, 0), 0, default_float())]
    for x in given:
        if len(shape_of(x)) > 2:
            raise ShapeError(f"block_diag of an array of shape {shape_of(x)}", "matrices, vectors or numbers")
    return _block_diagonal(given)


@inline_jit()
def _block_diagonal(given: list[Array]) -> Array:
    blocks = [lax.reshape(x, (1,) * (2 - len(shape_of(x))) + shape_of(x)) for x in promote_dtypes(*given)]
    columns = sum(shape_of(x)[1] for x in blocks)
    rows, before = [], 0
    for x in blocks:
        after = columns - before - shape_of(x)[1]
        rows.append(lax.pad(x, np.zeros((), dtype_of(x))[()], [(0, 0, 0), (before, after, 0)]))
        before += shape_of(x)[1]
    return lax.concatenate(rows, 0)


# ---------------------------------------------------------------------------- of a size


@public
def hilbert(n: int) -> Array:
    """The matrix with elements 1 / (i + j + 1).

    >>> from tilewright.scipy import linalg
    >>> linalg.hilbert(2)[0]
    Array([1. , 0.5], dtype=float32)
    """
    places = np.arange(_size("hilbert", n))
    return asarray(1.0 / (places[:, None] + places[None, :] + 1), default_float())


@public
def invhilbert(n: int) -> Array:
    """The inverse of `hilbert(n)`, from integers.

    >>> from tilewright.scipy import linalg
    >>> linalg.invhilbert(2)[0]
    Array([ 4., -6.], dtype=float32)
    """
    n = _size("invhilbert", n)
    comb = math.comb
    found = [[(-1) ** (i + j) * (i + j + 1) * comb(n + i, n - j - 1) * comb(n + j, n - i - 1) * comb(i + j, i) ** 2
              for j in range(n)] for i in range(n)]  # fmt: skip
    return asarray(np.array(found, np.float64).reshape(n, n), default_float())


def _pascal(n: int, kind: str, name: str, sign: int) -> np.ndarray:
    if kind not in ("symmetric", "lower", "upper"):
        raise ArgumentError(f"{name}: kind {kind!r}", "one of 'symmetric', 'lower', 'upper'")
    lower = np.array([[math.comb(i, j) * sign ** (i + j) for j in range(n)] for i in range(n)], object).reshape(n, n)
    if kind == "symmetric":
        lower = lower.T @ lower if sign < 0 else lower @ lower.T
    return (lower.T if kind == "upper" else lower).astype(np.float64)


@public
def pascal(n: int, kind: str | None = None) -> Array:
    """Pascal's matrix of binomial coefficients: `kind` 'symmetric' (by default), 'lower' or 'upper'.

    >>> from tilewright.scipy import linalg
    >>> linalg.pascal(3)[2]
    Array([1., 3., 6.], dtype=float32)
    """
    return asarray(_pascal(_size("pascal", n), kind or "symmetric", "pascal", 1), default_float())


@public
def invpascal(n: int, kind: str | None = None) -> Array:
    """The inverse of `pascal(n, kind)`.

    >>> from tilewright.scipy import linalg
    >>> linalg.invpascal(2)[0]
    Array([ 2., -1.], dtype=float32)
    """
    return asarray(_pascal(_size("invpascal", n), kind or "symmetric", "invpascal", -1), default_float())


@public
def hadamard(n: int, dtype: DTypeLike = int) -> Array:
    """Sylvester's matrix of 1 and -1 with orthogonal rows; `n` is a power of 2.

    >>> from tilewright.scipy import linalg
    >>> linalg.hadamard(2)
    Array([[ 1,  1],
           [ 1, -1]], dtype=int32)
    """
    n = operator.index(n)
    if n < 1 or n & (n - 1):
        raise ArgumentError(f"hadamard of size {n}", "a power of 2")
    places = np.arange(n)
    odd = np.bitwise_count(places[:, None] & places[None, :]) % 2
    return asarray(1 - 2 * odd.astype(np.int8), dtype_argument(dtype))


@public
def helmert(n: int, full: bool = False) -> Array:
    """Helmert's matrix of orthonormal contrasts, without its first row unless `full`.

    >>> from tilewright.scipy import linalg
    >>> linalg.helmert(2)
    Array([[ 0.70710677, -0.70710677]], dtype=float32)
    """
    n = _size("helmert", n, 1)
    found = np.tril(np.ones((n, n)), -1) - np.diag(np.arange(n))
    found[0] = 1.0
    places = np.arange(n)
    scale = np.sqrt(np.where(places == 0, n, places * (places + 1)))
    return asarray((found / scale[:, None])[0 if full else 1 :], default_float())


@public
def dft(n: int, scale: str | None = None, *, dtype: DTypeLike | None = None) -> Array:
    """The matrix of the discrete Fourier transform; `scale` None, 'sqrtn' or 'n' divides it.

    >>> from tilewright.scipy import linalg
    >>> linalg.dft(2).real
    Array([[ 1.,  1.],
           [ 1., -1.]], dtype=float32)
    """
    if scale not in (None, "sqrtn", "n"):
        raise ArgumentError(f"dft: scale {scale!r}", "one of None, 'sqrtn', 'n'")
    n = _size("dft", n)
    places = np.arange(n)
    found = np.exp(-2j * np.pi * ((places[:, None] * places[None, :]) % max(n, 1)) / max(n, 1))
    found /= {None: 1.0, "sqrtn": math.sqrt(max(n, 1)), "n": max(n, 1)}[scale]
    return asarray(found, dtype_argument(complex if dtype is None else dtype))
