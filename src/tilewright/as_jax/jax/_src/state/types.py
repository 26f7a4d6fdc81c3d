"""`jax._src.state.types`, for flax.nnx: the type of a Ref."""

from .....core.ir.types import RefType as AbstractRef
from ....missing import not_adapted

__all__ = ["AbstractRef"]
__getattr__ = not_adapted("jax._src.state.types")
