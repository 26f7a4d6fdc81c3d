"""`jax._src.core`, for flax.linen.fp8_ops (types of arrays) and numpyro (whether a transformation is under way)."""

from ....core.ir.binding import is_evaluating as trace_state_clean
from ...missing import not_adapted
from ..core import ShapedArray, Tracer, eval_jaxpr

__all__ = ["ShapedArray", "Tracer", "eval_jaxpr", "trace_state_clean"]
__getattr__ = not_adapted("jax._src.core")
