"""`jax._src.dispatch`, for equinox: waiting for effects when the process ends."""

from ....xla_backend.execution.dispatch import effects_barrier as wait_for_tokens
from ...missing import not_adapted
from ..interpreters.xla import apply_primitive

__all__ = ["apply_primitive", "wait_for_tokens"]
__getattr__ = not_adapted("jax._src.dispatch")
