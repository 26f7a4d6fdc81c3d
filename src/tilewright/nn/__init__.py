"""`jax.nn`'s names: activations, normalisation, attention, and initializers."""

from collections.abc import Callable

from ..numpy.elementwise import tanh
from . import fused, initializers
from .activations import (
    celu,
    elu,
    gelu,
    glu,
    hard_sigmoid,
    hard_silu,
    hard_swish,
    hard_tanh,
    identity,
    leaky_relu,
    log1mexp,
    log_sigmoid,
    mish,
    relu,
    relu6,
    selu,
    sigmoid,
    silu,
    soft_sign,
    softplus,
    sparse_plus,
    sparse_sigmoid,
    squareplus,
    swish,
)
from .attention import dot_product_attention
from .fused import (
    adamw,
    adamw_init,
    cross_entropy,
    geglu,
    group_norm,
    layer_norm,
    linear_cross_entropy,
    rms_norm,
    rotary_embedding,
    swiglu,
)
from .normalisation import (
    log_softmax,
    logmeanexp,
    logsumexp,
    normalize,
    one_hot,
    softmax,
    standardize,
)
from .scaled import get_scaled_dot_general_config, scaled_dot_general, scaled_matmul

__all__ = [
    "get_scaled_dot_general_config", "scaled_dot_general", "scaled_matmul",
    "adamw", "adamw_init", "cross_entropy", "fused", "geglu", "group_norm", "layer_norm", "linear_cross_entropy",
    "rms_norm", "rotary_embedding", "swiglu",
    "celu", "dot_product_attention", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh",
    "identity", "initializers", "leaky_relu", "log1mexp", "log_sigmoid", "log_softmax", "logmeanexp", "logsumexp",
    "mish", "normalize", "one_hot", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign", "softmax", "softplus",
    "sparse_plus", "sparse_sigmoid", "squareplus", "standardize", "swish", "tanh",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
