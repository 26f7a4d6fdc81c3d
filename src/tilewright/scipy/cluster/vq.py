"""`jax.scipy.cluster.vq`'s names."""

from __future__ import annotations

from collections.abc import Callable

from ... import numpy as tnp
from ...core.support.errors import ShapeError
from ...numpy.util import Array, ArrayLike, inline_jit, promote_dtypes_inexact, shape_of, value


@inline_jit()
def _nearest(obs: Array, code_book: Array) -> tuple[Array, Array]:
    distances = tnp.linalg.norm(obs[:, None] - code_book[None], axis=-1)
    return tnp.argmin(distances, -1), tnp.min(distances, -1)


def vq(obs: ArrayLike, code_book: ArrayLike, check_finite: bool = True) -> tuple[Array, Array]:
    """The nearest code of each observation: its number, and its Euclidean distance.

    `obs` has shape (M, N), `code_book` (K, N), and both results (M,); vectors are observations of one number each.
    Raises `ShapeError` for other shapes.

    >>> from tilewright import numpy as jnp
    >>> from tilewright.scipy.cluster.vq import vq
    >>> codes, distances = vq(jnp.array([[1., 1.], [4., 3.]]), jnp.array([[0., 1.], [4., 4.]]))
    >>> print(codes, distances)
    [0 1] [1. 1.]
    """
    obs, code_book = promote_dtypes_inexact(value(obs, "vq"), value(code_book, "vq"))
    shapes = shape_of(obs), shape_of(code_book)
    if len(shapes[0]) != len(shapes[1]) or len(shapes[0]) not in (1, 2) or shapes[0][1:] != shapes[1][1:]:
        raise ShapeError(f"vq of observations of shape {shapes[0]} and codes of shape {shapes[1]}",
                         "pass (M, N) and (K, N), or two vectors")  # fmt: skip
    if not shapes[1][0]:
        raise ShapeError(f"vq with codes of shape {shapes[1]}", "pass at least one code")
    return _nearest(obs, code_book) if len(shapes[0]) == 2 else _nearest(obs[:, None], code_book[:, None])


__all__ = ["vq"]
__dir__: Callable[[], list[str]] = __all__.copy
