"""`jax._src.flatten_util`, for blackjax: what the public `flatten_util` has."""

from ....flatten_util import ravel_pytree as ravel_pytree
from ...missing import not_adapted

__getattr__ = not_adapted("jax._src.flatten_util")
