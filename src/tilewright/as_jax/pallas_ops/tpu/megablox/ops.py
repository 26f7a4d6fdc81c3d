"""`pallas.ops.tpu.megablox`: products of groups of rows, each with a matrix of its own."""

from __future__ import annotations

from typing import Any

from ..... import numpy as jnp
from .....lax import dynamic_slice, ragged_dot


def gmm(
    lhs: Any, rhs: Any, group_sizes: Any, preferred_element_type: Any = "float32", tiling: Any = (128, 128, 128),
    group_offset: Any = None, existing_out: Any = None, transpose_rhs: bool = False, interpret: bool = False,
) -> Any:  # fmt: skip
    """Rows of `lhs`, (m, k), in groups of `group_sizes`, each times its matrix of `rhs`, (groups, k, n).

    `rhs` may have some of the groups, those from `group_offset` on; rows of others are 0, or those of `existing_out`.

    >>> from tilewright import numpy as tnp
    >>> gmm(tnp.ones((3, 2)), tnp.arange(2.0)[:, None, None] * tnp.ones((2, 2, 1)), tnp.array([1, 2]))[:, 0].tolist()
    [0.0, 2.0, 2.0]
    """
    rhs = jnp.swapaxes(rhs, 1, 2) if transpose_rhs else rhs
    sizes, count = jnp.asarray(group_sizes, "int32"), rhs.shape[0]
    first = jnp.int32(0) if group_offset is None else jnp.asarray(group_offset, "int32").reshape(())
    before = jnp.where(jnp.arange(sizes.shape[0]) < first, sizes, 0).sum()
    own = dynamic_slice(sizes, (first,), (count,))
    row = jnp.arange(lhs.shape[0])[:, None]
    inside = (row >= before) & (row < before + own.sum())
    if group_offset is not None:  # the rows before are a group with a matrix of zeros
        own = jnp.concatenate([before[None].astype("int32"), own])
        rhs = jnp.concatenate([jnp.zeros_like(rhs[:1]), rhs])
    out = ragged_dot(lhs, rhs, own, preferred_element_type=jnp.dtype(preferred_element_type))
    return jnp.where(inside, out, 0 if existing_out is None else existing_out)
