"""`pallas.ops.gpu.rms_norm`: rows normalised, scaled and shifted."""

from __future__ import annotations

from typing import Any

from .... import numpy as jnp
from ....nn import fused


def rms_norm(
    x: Any, weight: Any, bias: Any, num_warps: int | None = None, num_stages: int | None = 3, eps: float = 1e-5,
    backward_pass_impl: str = "triton", interpret: bool = False,
) -> Any:  # fmt: skip
    """`x / sqrt(mean(x * x) + eps) * weight + bias` along the last axis.

    >>> from tilewright import numpy as tnp
    >>> rms_norm(tnp.ones((2, 8)), tnp.ones(8), tnp.zeros(8)).shape
    (2, 8)
    """
    return fused.rms_norm(x, weight, epsilon=eps) + bias


def rms_norm_reference(x: Any, weight: Any, bias: Any, *, eps: float = 1e-5) -> Any:
    """The same by array operations."""
    return x / jnp.sqrt(jnp.square(x).mean(-1, keepdims=True) + eps) * weight + bias
