"""`pallas.ops.gpu.layer_norm`: rows normalised, scaled and shifted."""

from __future__ import annotations

from typing import Any

from .... import numpy as jnp
from ....nn import fused


def layer_norm(
    x: Any, weight: Any, bias: Any, num_warps: int | None = None, num_stages: int | None = 3, eps: float = 1e-5,
    backward_pass_impl: str = "triton", interpret: bool = False,
) -> Any:  # fmt: skip
    """`(x - mean) / sqrt(variance + eps) * weight + bias` along the last axis.

    >>> from tilewright import numpy as tnp
    >>> layer_norm(tnp.ones((2, 8)), tnp.ones(8), tnp.zeros(8)).shape
    (2, 8)
    """
    return fused.layer_norm(x, weight, bias, epsilon=eps)


def layer_norm_reference(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """The same by array operations."""
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt(jnp.square(centred).mean(-1, keepdims=True) + eps) * weight + bias
