"""`jax._src.core`, for flax.linen.fp8_ops: types of arrays."""

from ...missing import not_adapted
from ..core import ShapedArray, Tracer, eval_jaxpr

__all__ = ["ShapedArray", "Tracer", "eval_jaxpr"]
__getattr__ = not_adapted("jax._src.core")
