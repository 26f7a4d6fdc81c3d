"""Attention with the heads before the positions, by the fused kernel or, with what that lacks, by array operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import numpy as jnp
from ...core.support.errors import UnsupportedError
from ...nn import fused

DEFAULT_MASK_VALUE: float = -0.7 * float(np.finfo(np.dtype("float32")).max)


def attend(q: Any, k: Any, v: Any, *, scale: float = 1.0, bias: Any = None, mask: Any = None, causal: bool = False,
           segments: tuple[Any, Any] | None = None) -> Any:  # fmt: skip
    """`softmax(q @ k.T * scale + bias) @ v` of (batch, heads, positions, width) by the fused kernel."""
    q_ids, kv_ids = segments or (None, None)
    q, k, v = (jnp.swapaxes(x, 1, 2) for x in (q, k, v))
    out = fused.dot_product_attention(q, k, v, bias, mask, scale=scale, is_causal=causal, query_segment_ids=q_ids,
                                      key_value_segment_ids=kv_ids)  # fmt: skip
    return jnp.swapaxes(out, 1, 2)


def attend_by_operations(
    q: Any, k: Any, v: Any, *, scale: float = 1.0, bias: Any = None, mask: Any = None, soft_cap: float | None = None,
    mask_value: float = DEFAULT_MASK_VALUE,
) -> tuple[Any, Any]:  # fmt: skip
    """The same by array operations in float32, and the logarithm of each row's sum of exponentials."""
    scores = jnp.einsum("...qd,...kd->...qk", q.astype("float32"), k.astype("float32")) * scale
    scores = scores if bias is None else scores + bias
    scores = scores if soft_cap is None else soft_cap * jnp.tanh(scores / soft_cap)
    scores = scores if mask is None else jnp.where(mask, scores, mask_value)
    top = scores.max(-1, keepdims=True)
    weights = jnp.exp(scores - top)
    sums = weights.sum(-1, keepdims=True)
    out = jnp.einsum("...qk,...kd->...qd", weights / sums, v.astype("float32"))
    return out.astype(q.dtype), (top + jnp.log(sums))[..., 0]


def same_segment(q: Any, kv: Any) -> Any:
    """Which pairs of positions are of one segment, for all heads."""
    return q[:, None, :, None] == kv[:, None, None, :]


def causal_mask(queries: int, keys: int) -> Any:
    """Which keys are not after a query."""
    return jnp.arange(queries)[:, None] >= jnp.arange(keys)[None, :]


def refuse(name: str, **options: Any) -> None:
    """Raise `UnsupportedError` where an option is given that has no meaning here."""
    given = [key for key, value in options.items() if value]
    if given:
        raise UnsupportedError(f"{name} is given {', '.join(given)}",
                               "leave it out, or compute what it returns by array operations")  # fmt: skip
