"""`jax.experimental.jet`'s names: Taylor mode."""

from ..core.jet.taylor_mode import jet

__all__ = ["jet"]
__dir__ = __all__.copy
