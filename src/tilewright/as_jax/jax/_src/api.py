"""`jax._src.api`, for jax's page on primitives: the transformations."""

from ....core.api.transformations import grad, jacfwd, jacrev, jvp, linearize, vjp, vmap
from ....core.jit.jit import jit
from ...missing import not_adapted

__all__ = ["grad", "jacfwd", "jacrev", "jit", "jvp", "linearize", "vjp", "vmap"]
__getattr__ = not_adapted("jax._src.api")
