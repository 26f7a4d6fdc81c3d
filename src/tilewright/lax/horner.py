"""Polynomials in `jax.lax`'s manner: by Horner's rule, with derivatives that are polynomials again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.primitives.custom.custom_derivatives import custom_jvp
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.shape import broadcast_shapes, full
from ..core.tracing.array_conversion import as_array
from ..core.tracing.trace import shape_of, typeof


def polynomial(x: Any, coeffs: Sequence[Any], *, unroll: int | None = None) -> Any:
    """`coeffs[0] + coeffs[1] * x + coeffs[2] * x**2 + ...`: the lowest power first, of the dtype of `x`.

    Coefficients are numbers or arrays that broadcast with `x`. `unroll` changes no value.

    >>> from tilewright import grad, lax
    >>> float(lax.polynomial(3.0, [1.0, 5.0, 2.0])), float(grad(lax.polynomial)(3.0, [1.0, 5.0, 2.0]))
    (34.0, 17.0)
    """
    x = as_array(x)
    dtype = typeof(x).dtype
    terms = [convert_element_type(c, dtype) for c in coeffs]
    total = full(broadcast_shapes(shape_of(x), *map(shape_of, terms)), 0, dtype)
    for term in reversed(terms):
        total = total * x + term
    return total


@custom_jvp
def _one_minus_square(x: Any) -> Any:
    return (1 + x) * (1 - x)


_one_minus_square.defjvps(lambda tangent, out, x: -2 * x * tangent)


def one_minus_square(x: Any) -> Any:
    """Elementwise `1 - x**2` as `(1 + x) * (1 - x)`, which keeps the digits near 1; its derivative is `-2 * x`.

    >>> from tilewright import lax
    >>> float(lax.one_minus_square(0.5))
    0.75
    """
    return _one_minus_square(as_array(x))
