"""`jax._src.lax`, for jax's page on primitives."""

from ....missing import not_adapted

__getattr__ = not_adapted("jax._src.lax", submodules=("lax",))
