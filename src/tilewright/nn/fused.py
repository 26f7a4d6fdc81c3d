"""Operations as one kernel or a few, with derivatives of their own: see `tilewright.kernels.fused`."""

from ..kernels.fused.adamw import adamw
from ..kernels.fused.adamw import init as adamw_init
from ..kernels.fused.attention import dot_product_attention
from ..kernels.fused.cross_entropy import cross_entropy, linear_cross_entropy
from ..kernels.fused.mlp import geglu, swiglu
from ..kernels.fused.norms import group_norm, layer_norm, rms_norm
from ..kernels.fused.rotary import rotary_embedding
from ..kernels.fused.softmax import log_softmax, softmax

__all__ = [
    "adamw", "adamw_init", "cross_entropy", "dot_product_attention", "geglu", "group_norm", "layer_norm",
    "linear_cross_entropy", "log_softmax", "rms_norm", "rotary_embedding", "softmax", "swiglu",
]  # fmt: skip
