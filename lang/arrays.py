"""Arrays within bodies, under Pallas's names: without values yet, spread over a shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import tree
from ..core.errors import ShapeError
from ..core.primitives.shape import broadcast_in_dim
from ..core.primitives.staged import empty
from ..core.trace import shape_of


def empty_like(x: Any) -> Any:
    """A pytree of arrays of the shapes and dtypes of another's, whose elements are not specified."""
    return tree.map(lambda leaf: empty(leaf.shape, leaf.dtype), x)


def broadcast_to(a: Any, shape: Sequence[int]) -> Any:
    """An array repeated along the axes that it lacks, and those of size 1. Raises `ShapeError` where it does not fit.

    >>> import numpy as np
    >>> print(broadcast_to(np.array([1, 2], np.int32), (2, 2)))
    [[1 2]
     [1 2]]
    """
    given, sizes = shape_of(a), tuple(shape)
    if len(given) > len(sizes) or any(n not in (1, m) for n, m in zip(given[::-1], sizes[::-1], strict=False)):
        raise ShapeError(f"broadcast_to: an array of shape {given} to {sizes}", "its last axes must be 1, or as there")
    return broadcast_in_dim(a, sizes, tuple(range(len(sizes) - len(given), len(sizes))))


def strides_from_shape(shape: Sequence[int]) -> tuple[int, ...]:
    """How many elements apart the neighbours along each axis lie in row-major order.

    >>> strides_from_shape((2, 3, 4))
    (12, 4, 1)
    """
    strides = [1]
    for size in reversed(tuple(shape)[1:]):
        strides.append(strides[-1] * size)
    return tuple(reversed(strides[: len(shape)]))
