"""`pallas.ops.gpu.decode_attention`: one query of each sequence with all of its keys."""

from __future__ import annotations

import math
from typing import Any

from .... import numpy as jnp
from ..attend import attend, attend_by_operations, refuse


def _seen(start: Any, end: Any, keys: int) -> Any:
    place = jnp.arange(keys)[None, None, None, :]
    seen = None
    for bound, compare in ((start, jnp.greater_equal), (end, jnp.less)):
        if bound is not None:
            part = compare(place, jnp.asarray(bound)[:, None, None, None])
            seen = part if seen is None else seen & part
    return seen


def gqa(
    q: Any, k: Any, v: Any, start_idx: Any = None, kv_seq_len: Any = None, sm_scale: float | None = None,
    block_h: int = 16, block_k: int = 128, k_splits: int = 16, num_warps: int | None = None, num_stages: int = 2,
    grid: tuple[int, ...] | None = None, interpret: bool = False, debug: bool = False, return_residuals: bool = False,
    normalize_output: bool = True,
) -> Any:  # fmt: skip
    """Attention of q (batch, heads, width) with k and v (batch, keys, key heads, width), from a start to a length.

    >>> from tilewright import numpy as tnp
    >>> gqa(tnp.ones((2, 4, 8)), tnp.ones((2, 16, 2, 8)), tnp.ones((2, 16, 2, 8))).shape
    (2, 4, 8)
    """
    refuse("gqa", return_residuals=return_residuals, unnormalized_output=not normalize_output)
    k, v = (jnp.swapaxes(x, 1, 2) for x in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if sm_scale is None else sm_scale
    return attend(q[:, :, None], k, v, scale=scale, mask=_seen(start_idx, kv_seq_len, k.shape[2]))[:, :, 0]


def mqa(q: Any, k: Any, v: Any, *args: Any, **options: Any) -> Any:
    """The same of k and v (batch, keys, width), one head for all queries."""
    return gqa(q, k[:, :, None], v[:, :, None], *args, **options)


def gqa_reference(
    q: Any, k: Any, v: Any, start_idx: Any = None, kv_seq_len: Any = None, sm_scale: float | None = None,
    return_residuals: bool = False, normalize_output: bool = True,
) -> Any:  # fmt: skip
    """`gqa` by array operations."""
    refuse("gqa_reference", return_residuals=return_residuals, unnormalized_output=not normalize_output)
    k, v = (jnp.repeat(jnp.swapaxes(x, 1, 2), q.shape[1] // x.shape[2], 1) for x in (k, v))
    scale = 1 / math.sqrt(q.shape[-1]) if sm_scale is None else sm_scale
    mask = _seen(start_idx, kv_seq_len, k.shape[2])
    return attend_by_operations(q[:, :, None], k, v, scale=scale, mask=mask)[0][:, :, 0]


def mqa_reference(q: Any, k: Any, v: Any, *args: Any, **options: Any) -> Any:
    """`mqa` by array operations."""
    return gqa_reference(q, k[:, :, None], v[:, :, None], *args, **options)
