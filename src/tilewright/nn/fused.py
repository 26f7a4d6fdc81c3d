"""Operations as one kernel or a few, with derivatives of their own: see `tilewright.kernels.fused`."""

from __future__ import annotations

import math
from typing import Any

from ..core.trace import shape_of
from ..kernels.fused.adamw import adamw
from ..kernels.fused.adamw import init as adamw_init
from ..kernels.fused.attention import dot_product_attention as _attention
from ..kernels.fused.cross_entropy import cross_entropy
from ..kernels.fused.cross_entropy import linear_cross_entropy as _linear_cross_entropy
from ..kernels.fused.mlp import geglu, swiglu
from ..kernels.fused.norms import group_norm, layer_norm, rms_norm
from ..kernels.fused.rotary import rotary_embedding
from ..kernels.fused.softmax import log_softmax, softmax
from ..lang.target import current_target
from ..tuning.autotuned import autotune
from ..tuning.space import powers_of_two

__all__ = [
    "adamw", "adamw_init", "cross_entropy", "dot_product_attention", "geglu", "group_norm", "layer_norm",
    "linear_cross_entropy", "log_softmax", "rms_norm", "rotary_embedding", "softmax", "swiglu",
]  # fmt: skip


def _blocks(rows: int, columns: int) -> list[dict[str, Any]]:
    """The function's own choice, and blocks of rows; of columns too where the compiler does not take whole arrays."""
    sizes = powers_of_two(16, rows)
    if current_target().whole_arrays:
        return [{}, *({"rows": r} for r in sizes)]
    return [{}, *({"rows": r, "columns": c} for r in sizes for c in powers_of_two(16, columns))]


dot_product_attention = autotune(
    lambda query, key, *args, **options: _blocks(shape_of(query)[1], shape_of(key)[1])
)(_attention)


linear_cross_entropy = autotune(
    lambda x, w, *args, **options: _blocks(math.prod(shape_of(x)[:-1]), shape_of(w)[1])
)(_linear_cross_entropy)
