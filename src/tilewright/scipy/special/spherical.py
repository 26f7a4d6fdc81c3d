"""Associated Legendre functions and spherical harmonics."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from ... import lax
from ...core.api.transformations import jvp
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from ...numpy.elementwise import where3
from ...numpy.util import (
    Array,
    ArrayLike,
    broadcast_to_shape,
    concrete,
    dtype_of,
    inline_jit,
    promote_dtypes_inexact,
    shape_of,
    value,
)


def _coefficients(top: int, normalized: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the recurrence over degrees l (rows) for each order m (DLMF 14.10.3), and of the functions with m = l.

    Those of spherical harmonics have the norm of these in them: T. Limpanuparb, J. Milthorpe, "Associated Legendre
    polynomials and spherical harmonics computation for chemistry applications", arXiv:1410.1748.
    """
    degree, order = np.arange(top + 1.0)[:, None], np.arange(top + 1.0)[None, :]
    inner = order < degree
    gap = np.where(inner, degree - order, 1.0)
    if normalized:
        square = gap * np.where(inner, degree + order, 1.0)
        first = np.sqrt((4 * degree**2 - 1) / square, where=inner, out=np.zeros(square.shape))
        rest = (2 * degree + 1) * ((degree - 1) ** 2 - order**2) / ((2 * degree - 3) * square)
        second = -np.sqrt(np.where(inner, np.maximum(rest, 0), 0))
        steps = [-math.sqrt((2 * m + 1) / (2 * m)) for m in range(1, top + 1)]
        diagonal = np.cumprod([math.sqrt(0.25 / math.pi), *steps])
    else:
        first, second = np.where(inner, (2 * degree - 1) / gap, 0), np.where(inner, -(degree + order - 1) / gap, 0)
        diagonal = np.cumprod([1.0, *(-(2.0 * m - 1) for m in range(1, top + 1))])
    return first, second, diagonal


def _legendre(top: int, z: Array, normalized: bool) -> Array:
    """The functions (orders, degrees, points) up to a degree, zero where the order is above the degree."""
    dtype, n = dtype_of(z), shape_of(z)[0]
    first, second, diagonal = (c.astype(dtype) for c in _coefficients(top, normalized))
    order = np.arange(top + 1)[:, None]
    power = lax.pow(broadcast_to_shape(1 - z * z, (top + 1, n)),
                    broadcast_to_shape(np.maximum(order / 2, 0.5).astype(dtype), (top + 1, n)))  # fmt: skip
    edge = diagonal[:, None] * where3(broadcast_to_shape(order == 0, (top + 1, n)), 1.0, power)
    here = np.eye(top + 1, dtype=bool)

    def step(carry: Any, of_degree: Any) -> Any:
        before, last = carry
        a, b, at = of_degree
        inside = lax.expand_dims(a, (1,)) * lax.expand_dims(z, (0,)) * last + lax.expand_dims(b, (1,)) * before
        row = where3(broadcast_to_shape(lax.expand_dims(at, (1,)), (top + 1, n)), edge, inside)
        return (last, row), row

    nothing = lax.full_like(edge, 0)
    _, rows = lax.scan(step, (nothing, nothing), tuple(map(value, (first, second, here))))
    return lax.transpose(rows, (1, 0, 2))


def _checked(name: str, m: int, n: int, z: Any) -> tuple[int, Array]:
    z = value(z, name)
    if dtype_of(z) not in (np.dtype(np.float32), np.dtype(np.float64)):
        raise DtypeError(f"{name} at points of dtype {dtype_of(z)}", "float32 or float64")
    if len(shape_of(z)) != 1:
        raise ShapeError(f"{name} at points of shape {shape_of(z)}", "pass a vector")
    if operator.index(m) != operator.index(n):
        raise UnsupportedError(f"{name} up to order {m} and degree {n}", "pass the same number for both")
    if operator.index(n) < 0:
        raise ArgumentError(f"{name} up to degree {n}", "0 or more")
    return operator.index(n), z


@public
def lpmn(m: int, n: int, z: ArrayLike) -> tuple[Array, Array]:
    """The associated Legendre functions of orders and degrees up to `m` = `n` at points, and their derivatives.

    Both are (m + 1, n + 1, points), zero where the order is above the degree.

    Raises:
      UnsupportedError: `m` is not `n`.
      DtypeError, ShapeError: points that are no vector of float32 or float64.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import special
    >>> special.lpmn(2, 2, jnp.array([0.5]))[0][0, :, 0]
    Array([ 1.   ,  0.5  , -0.125], dtype=float32)
    """
    return _with_derivatives(*_checked("lpmn", m, n, z))


@inline_jit("top")
def _with_derivatives(top: int, z: Array) -> tuple[Array, Array]:
    return jvp(lambda z: _legendre(top, z, False), (z,), (lax.full_like(z, 1),))


@public
def lpmn_values(m: int, n: int, z: ArrayLike, is_normalized: bool) -> Array:
    """The associated Legendre functions as `lpmn` has them, or with the norm of spherical harmonics.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import special
    >>> special.lpmn_values(1, 1, jnp.array([0.5]), False)[1, 1]
    Array([-0.866], dtype=float32)
    """
    return _values(*_checked("lpmn_values", m, n, z), bool(is_normalized))


@inline_jit("top", "normalized")
def _values(top: int, z: Any, normalized: bool) -> Array:
    return _legendre(top, z, normalized)


def sph_harm_y(
    n: ArrayLike, m: ArrayLike, theta: ArrayLike, phi: ArrayLike, diff_n: int | None = None, n_max: int | None = None
) -> Array:
    """The spherical harmonics of degrees `n` and orders `m` at polar angles `theta` and azimuths `phi`.

    The four are broadcast. `n_max` is the greatest degree, which has to be given where `n` is traced.

    Raises:
      UnsupportedError: `diff_n`.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy import special
    >>> special.sph_harm_y(jnp.array([1]), jnp.array([0]), jnp.array([0.]), jnp.array([0.])).real
    Array([0.489], dtype=float32)
    """
    if diff_n is not None:
        raise UnsupportedError(f"sph_harm_y with diff_n={diff_n}", "use `jacfwd` of the function")
    if n_max is None:
        degrees = concrete(n, "sph_harm_y: the greatest degree", "name it as `n_max`")
        n_max = int(degrees.max()) if degrees.size else 0
    if operator.index(n_max) < 0:
        raise ArgumentError(f"sph_harm_y of degree {n_max}", "degrees are 0 or more")
    return _harmonics(n, m, theta, phi, operator.index(n_max))


@inline_jit("top")
def _harmonics(n: Any, m: Any, theta: Any, phi: Any, top: int) -> Array:
    n, m = value(n, "sph_harm_y"), value(m, "sph_harm_y")
    theta, phi = promote_dtypes_inexact(value(theta, "sph_harm_y"), value(phi, "sph_harm_y"))
    shape = lax.broadcast_shapes(*map(shape_of, (n, m, theta, phi)))
    flat = [lax.reshape(broadcast_to_shape(v, shape), (math.prod(shape),)) for v in (n, m, theta, phi)]
    n, m, theta, phi = flat
    order = abs(m)
    values = _legendre(top, lax.cos(theta), True)
    size = values.at[order, n, lax.iota(np.int32, math.prod(shape))].get(mode="clip")
    angle = lax.convert_element_type(order, dtype_of(phi)) * phi
    real, imaginary = size * lax.cos(angle), size * lax.sin(angle)
    odd = lax.ne(lax.rem(order, lax.full_like(order, 2)), 0)
    below = m < 0
    out = lax.complex(where3(below & odd, -real, real), where3(below & ~odd, -imaginary, imaginary))
    return lax.reshape(out, shape)


__all__ = ["lpmn", "lpmn_values", "sph_harm_y"]
