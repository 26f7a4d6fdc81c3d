"""Functions of square matrices: the exponential, square roots and any analytic function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import lax
from ...core.api.transformations import jvp
from ...core.primitives.custom.custom_derivatives import custom_jvp
from ...core.primitives.linalg.matrices import adjoint, diagonal, eye, product
from ...core.support.errors import ArgumentError, ShapeError, UnsupportedError
from ...numpy import linalg as numpy_linalg
from ...numpy.linalg.decompositions import square
from ...numpy.select import where
from ...numpy.util import Array, ArrayLike, dtype_of, inline_jit, promote_dtypes_inexact, shape_of, value
from .decompositions import to_complex
from .solving import by_schur, sylvester

# N. J. Higham, "The scaling and squaring method for the matrix exponential revisited", SIAM Journal on Matrix Analysis
# and Applications 26 (2005): the coefficients of Pade approximants by degree, and up to which norm each is exact.
_PADE = {
    3: (120.0, 60.0, 12.0, 1.0),
    5: (30240.0, 15120.0, 3360.0, 420.0, 30.0, 1.0),
    7: (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    9: (17643225600.0, 8821612800.0, 2075673600.0, 302702400.0, 30270240.0, 2162160.0, 110880.0, 3960.0, 90.0, 1.0),
    13: (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
         10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0),
}  # fmt: skip
# P. Bader, S. Blanes and F. Casas, "Computing the matrix exponential with an optimized Taylor polynomial
# approximation", Mathematics 7 (2019): degree 8 in three products and 12 in four. Of the solutions of the equations for
# degree 12 this is the one with the smallest terms: their sizes add up to 1.15 times exp(norm).
_ROOT = 177**0.5
_EIGHT = ((1 + _ROOT) / 132, (1 + _ROOT) / 528, (29 * _ROOT - 271) / 210, 11 * (_ROOT - 1) / 840,
          11 * (_ROOT - 9) / 3360, (89 - _ROOT) / 2240, (857 - 58 * _ROOT) / 630)  # fmt: skip
_TWELVE = (
    (1.0, -0.196998454004, 0.0428052220088, -0.0116089498532),
    (5.01948708802, 0.832383327845, 0.153155062208, -0.00150994324911),
    (0.0, 0.238470272563, 0.0228348578062, 0.0124061995561),
    (0.0, 0.131810610138, 0.0202785554059, 0.00675951846863),
)
# Up to which norm each degree is exact: Taylor's polynomials in single precision, where solving equations takes as long
# as several products, Pade's approximants in double.
_LIMITS = {
    "float32": ((8, 5.800524627688768e-1), (12, 1.4616615072090335)),
    "float64": ((3, 1.495585217958292e-2), (5, 2.539398330063230e-1), (7, 9.504178996162932e-1),
                (9, 2.097847961257068), (13, 5.371920351148152)),
}  # fmt: skip


@inline_jit("upper_triangular", "max_squarings")
def expm(A: ArrayLike, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The exponential of square matrices: of a scaled matrix, by a polynomial or Pade approximant, squared again.

    NaN where more than `max_squarings` would be needed. Leading axes are batched.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.expm(jnp.zeros((2, 2)))
    Array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    (a,) = promote_dtypes_inexact(value(A, "expm"))
    if len(shape_of(a)) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise ShapeError(f"expm of shape {shape_of(a)}", "pass square matrices")
    if not shape_of(a)[-1]:
        return a
    real = np.zeros((), dtype_of(a)).real.dtype
    limits = _LIMITS["float64" if real == np.float64 else "float32"]
    size = lax.stop_gradient(abs(a).sum(-2).max(-1))
    largest = limits[-1][1]
    squarings = lax.max(lax.ceil(lax.log2(size / largest)), lax.full_like(size, 0))
    scaled = a / lax.exp2(lax.min(squarings, lax.full_like(size, max_squarings)))[..., None, None].astype(dtype_of(a))
    chosen: Any = sum((size > limit).astype(np.int32) for _, limit in limits[:-1])
    found = _by_degree(scaled, chosen, [degree for degree, _ in limits], upper_triangular)
    found = _squared(found, squarings, max_squarings)
    return where((squarings > max_squarings)[..., None, None], np.nan, found)


def _by_degree(a: Array, chosen: Array, degrees: list[int], upper: bool) -> Array:
    """The approximant of the chosen degree: one of them for one matrix, selected among all for a batch."""
    if not shape_of(chosen):
        return lax.switch(chosen, [lambda x, d=d: _approximant(x, d, upper) for d in degrees], a)
    everyone = [_approximant(a, d, upper) for d in degrees]
    found = everyone[-1]
    for i, x in enumerate(everyone[:-1]):
        found = where((chosen == i)[..., None, None], x, found)
    return found


def _approximant(a: Array, degree: int, upper: bool) -> Array:
    """The approximant of a degree."""
    one, square_ = eye(shape_of(a), dtype_of(a)), product(a, a)
    if degree in _PADE:
        return _pade(a, square_, one, degree, upper)
    if degree == 8:
        b = _EIGHT
        fourth = product(square_, b[0] * a + b[1] * square_)
        right = b[2] * one + b[3] * a + b[4] * square_ + b[5] * fourth
        return one + a + b[6] * square_ + product(2 / 3 * square_ + fourth, right)
    third = product(square_, a)
    first, second, low, root = (b[0] * one + b[1] * a + b[2] * square_ + b[3] * third for b in _TWELVE)
    sixth = low + product(root, root)
    return first + product(second + sixth, sixth)


def _pade(a: Array, square_: Array, one: Array, degree: int, upper: bool) -> Array:
    """(V - U)^-1 (V + U), with U the odd and V the even part of the polynomial."""
    b = _PADE[degree]
    if degree == 13:
        fourth = product(square_, square_)
        sixth = product(square_, fourth)
        u = product(sixth, b[13] * sixth + b[11] * fourth + b[9] * square_)
        u = product(a, u + b[7] * sixth + b[5] * fourth + b[3] * square_ + b[1] * one)
        v = product(sixth, b[12] * sixth + b[10] * fourth + b[8] * square_)
        v = v + b[6] * sixth + b[4] * fourth + b[2] * square_ + b[0] * one
    else:
        u, v, power = b[1] * one, b[0] * one, None
        for i in range(2, degree, 2):
            power = square_ if power is None else product(power, square_)
            u, v = u + b[i + 1] * power, v + b[i] * power
        u = product(a, u)
    if upper:
        return lax.linalg.triangular_solve(v - u, v + u, left_side=True)
    return numpy_linalg.solve(v - u, v + u)


def _squared(x: Array, squarings: Array, most: int) -> Array:
    """As many squarings as each matrix needs."""

    def step(i: Any, x: Array) -> Array:
        needed = i < squarings
        if not shape_of(needed):
            return lax.cond(needed, lambda x: product(x, x), lambda x: x, x)
        return where(needed[..., None, None], product(x, x), x)

    return lax.fori_loop(0, most, step, x)


def expm_frechet(A: ArrayLike, E: ArrayLike, *, method: str | None = None, compute_expm: bool = True) -> Any:
    """The exponential of matrices and its derivative in a direction: `(expm(A), L)`, or L alone.

    `method` is taken for compatibility: the derivative is that of `expm`'s own steps.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.expm_frechet(jnp.zeros((1, 1)), jnp.ones((1, 1)), compute_expm=False)
    Array([[1.]], dtype=float32)
    """
    return _expm_frechet(A, E, bool(compute_expm))


@inline_jit("compute_expm")
def _expm_frechet(A: ArrayLike, E: ArrayLike, compute_expm: bool) -> Any:
    a, e = promote_dtypes_inexact(value(A, "expm_frechet"), value(E, "expm_frechet"))
    if shape_of(square(a, "expm_frechet")) != shape_of(square(e, "expm_frechet")):
        raise ShapeError(f"expm_frechet of shapes {shape_of(a)} and {shape_of(e)}", "they are equal")
    found, change = jvp(expm, (a,), (e,))
    return (found, change) if compute_expm else change


# ---------------------------------------------------------------------------- by Schur's form


def _columns(t: Array, column: Callable[[Any, Array, Array, Array, Array], Array], start: Array) -> Array:
    """An upper triangular function of upper triangular `t`, column after column.

    `column(found, ours, above, pivot, value)`: elements above the diagonal of the next column, from what is found so
    far, that column of `t` above the diagonal, and the diagonal elements of `t` and of the result.
    """
    n = shape_of(t)[-1]
    rows = lax.broadcasted_iota(np.int32, (n, 1), 0)

    def step(j: Any, found: Array) -> Array:
        ours = lax.dynamic_index_in_dim(t, j, 1)
        before = (rows < j) & (rows.T < j)
        pivot = lax.dynamic_index_in_dim(ours, j, 0)
        value = lax.dynamic_index_in_dim(lax.dynamic_index_in_dim(found, j, 1), j, 0)
        solved = column(where(before, found, 0), where(before, t, 0), where(rows < j, ours, 0), pivot, value)
        solved = where(rows < j, solved, where(rows == j, value, 0))
        return lax.dynamic_update_index_in_dim(found, solved, j, 1)

    return lax.fori_loop(1, n, step, start)


def _solved_upper(matrix: Array, right: Array) -> Array:
    """A triangular solution where a zero on the diagonal stands for 1, as quotients of zeros are taken for zero."""
    on = eye(shape_of(matrix), dtype_of(matrix))
    zero = (diagonal(matrix) == 0)[:, None]
    return lax.linalg.triangular_solve(where(zero & (on != 0), on, matrix), right, left_side=True)


@inline_jit("blocksize")
def sqrtm(A: ArrayLike, blocksize: int = 1) -> Array:
    """The principal square root of a square matrix, complex, by its Schur form.

    A. Bjorck, S. Hammarling, "A Schur method for the square root of a matrix", Linear Algebra and its Applications
    52/53 (1983). NaN where there is no square root.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.sqrtm(jnp.array([[4., 0.], [0., 9.]])).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if blocksize > 1:
        raise UnsupportedError(f"sqrtm in blocks of {blocksize}", "leave blocksize out")
    a = to_complex(_one_matrix(A, "sqrtm", narrow=True))
    t, z = lax.linalg.schur(lax.stop_gradient(a))
    on = eye(shape_of(t), dtype_of(t))
    roots = on * lax.sqrt(diagonal(t))[None, :]

    def column(found: Array, ours: Array, above: Array, pivot: Array, value: Array) -> Array:
        matrix = found + value * on
        solved = _solved_upper(matrix, above)
        impossible = (diagonal(matrix) == 0)[:, None] & (solved != 0)
        return where(impossible, np.nan, solved)

    root = _columns(t, column, roots) if shape_of(t)[0] > 1 else roots
    return _rooted(a, product(z, root, adjoint(z)), (root, z))


@custom_jvp
def _rooted(a: Array, root: Array, form: Any) -> Array:
    """The square root of a matrix, and its Schur form; the matrix is there for the derivative."""
    return root


@_rooted.defjvp
def _rooted_jvp(primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """S dS + dS S = dA, Sylvester's equation."""
    root, form = _rooted(*primals), primals[2]
    return root, sylvester(by_schur, root, root, form, form, tangents[0])


def funm(A: ArrayLike, func: Callable[[Array], Array], disp: bool = True) -> Any:
    """An analytic function of a square matrix, complex, from its Schur form; without `disp` also an estimate of error.

    `func` takes an array of the eigenvalues. B. N. Parlett, "A recurrence among the elements of functions of triangular
    matrices", Linear Algebra and its Applications 14 (1976).

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import linalg
    >>> linalg.funm(jnp.array([[4., 0.], [0., 9.]]), jnp.sqrt).real
    Array([[2., 0.],
           [0., 3.]], dtype=float32)
    """
    if not callable(func):
        raise ArgumentError(f"funm: func {func!r}", "pass a function of arrays")
    a = _one_matrix(A, "funm")
    t, z = lax.linalg.schur(to_complex(a))
    on = eye(shape_of(t), dtype_of(t))
    values = on * func(diagonal(t))[None, :].astype(dtype_of(t))

    def column(found: Array, ours: Array, above: Array, pivot: Array, value: Array) -> Array:
        return _solved_upper(ours - pivot * on, product(found, above) - value * above)

    n = shape_of(t)[0]
    found = _columns(t, column, values) if n > 1 else values
    result = product(z, found, adjoint(z))
    if disp:
        return result
    eps = float(np.finfo(dtype_of(t)).eps)
    if n < 2:
        return result, abs(result).sum() * 0
    gaps = abs(diagonal(t)[:, None] - diagonal(t)[None, :])
    above = _above(n)
    least = where(above & (gaps != 0), gaps, abs(diagonal(t)[0])).min()
    least = where(least == 0, eps, least)
    error = lax.min(lax.full_like(least, 1), lax.max(lax.full_like(least, eps), eps / least * _upper_norm(t, above)))
    bad = ~lax.is_finite(abs(result)).all()
    return result, where(bad, np.inf, error)


def _above(n: int) -> Array:
    return lax.broadcasted_iota(np.int32, (n, n), 0) < lax.broadcasted_iota(np.int32, (n, n), 1)


def _upper_norm(t: Array, above: Array) -> Array:
    return abs(where(above, t, 0)).sum(0).max()


def _one_matrix(a: ArrayLike, name: str, narrow: bool = False) -> Array:
    a = square(a, name, narrow)
    if len(shape_of(a)) != 2:
        raise ShapeError(f"{name} of shape {shape_of(a)}", f"one matrix; use `vmap({name})` for many")
    return a
