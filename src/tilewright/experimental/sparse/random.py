"""Random sparse arrays."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import numpy as jnp
from ... import random
from ...core.api.transformations import vmap
from ...core.ir.array import DTypeLike
from ...core.support.call_errors import public
from ...core.support.errors import ArgumentError
from .base import Array
from .bcoo import BCOO


@public
def random_bcoo(
    key: Array, shape: Sequence[int], *, dtype: DTypeLike = float, indices_dtype: Any = None, nse: float | int = 0.2,
    n_batch: int = 0, n_dense: int = 0, unique_indices: bool = True, sorted_indices: bool = False,
    generator: Callable[..., Array] = random.uniform, **kwds: Any,
) -> BCOO:  # fmt: skip
    """A random BCOO array: `nse` elements, or that fraction of the sparse axes' places, at each place of batch axes.

    `generator(key, shape=..., dtype=..., **kwds)` draws the values. Places are drawn without replacement where they are
    to be unique.

    Raises:
      ArgumentError: no such layout, or more elements than there are places.

    >>> from tilewright import random
    >>> from tilewright.experimental import sparse
    >>> sparse.random_bcoo(random.key(0), (4, 5))
    BCOO(float32[4, 5], nse=4)
    """
    shape = tuple(operator.index(n) for n in shape)
    n_sparse = len(shape) - n_batch - n_dense
    if min(n_batch, n_dense, n_sparse) < 0:
        raise ArgumentError(f"n_batch={n_batch} and n_dense={n_dense} for shape {shape}", "they leave 0 or more axes")
    batch, sizes, dense = shape[:n_batch], shape[n_batch : n_batch + n_sparse], shape[n_batch + n_sparse :]
    places = math.prod(sizes)
    if not 0 <= nse < places:
        raise ArgumentError(f"nse={nse} of {places} places", "0 <= nse < places, or a fraction")
    count = math.ceil(nse * places) if 0 < nse < 1 else operator.index(nse)  # type: ignore[arg-type]
    kind = jnp.empty(0, int if indices_dtype is None else indices_dtype).dtype
    if places > np.iinfo(kind).max:
        raise ArgumentError(f"{places} places for indices of dtype {kind}", "name a wider `indices_dtype`")

    def drawn(key: Array) -> Array:
        flat = random.choice(key, places, (count,), replace=not unique_indices).astype(kind)
        return jnp.stack(jnp.unravel_index(flat, sizes), -1).astype(kind)

    keys = random.split(key, math.prod(batch) + 1)
    data = generator(keys[0], shape=(*batch, count, *dense), dtype=dtype, **kwds)
    indices = vmap(drawn)(keys[1:]) if sizes else jnp.zeros((math.prod(batch), count, 0), kind)
    indices = jnp.reshape(indices, (*batch, count, n_sparse))
    mat = BCOO((data, indices), shape=shape, unique_indices=unique_indices)
    return mat.sort_indices() if sorted_indices else mat


__all__ = ["random_bcoo"]
