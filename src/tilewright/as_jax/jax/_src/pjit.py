"""`jax._src.pjit`, for quax: the primitive of calls of compiled functions."""

from ....core.jit.jit import jit
from ....core.primitives.control_flow.jit_primitive import jit_p
from ...missing import not_adapted

pjit = jit
__all__ = ["jit_p", "pjit"]
__getattr__ = not_adapted("jax._src.pjit")
