"""`jax._src.core`, for flax.linen.fp8_ops (types of arrays), numpyro (is code traced?) and jax_md (primitives)."""

from ....core.ir.binding import is_evaluating as trace_state_clean
from ...missing import not_adapted
from ...primitive import Primitive
from ..core import ShapedArray, Tracer, eval_jaxpr

__all__ = ["Primitive", "ShapedArray", "Tracer", "eval_jaxpr", "trace_state_clean"]
__getattr__ = not_adapted("jax._src.core")
