"""`jax._src.interpreters.ad`: the error where a derivative is asked for that a `custom_vjp` rule does not give."""

from .....core.support.errors import DifferentiationError as CustomVJPException
from ....missing import not_adapted

__all__ = ["CustomVJPException"]
__getattr__ = not_adapted("jax._src.interpreters.ad")
