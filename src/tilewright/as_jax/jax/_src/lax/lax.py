"""`jax._src.lax.lax`, for jax's page on primitives: the operations of `lax`."""

from ..... import lax


def __getattr__(name: str) -> object:
    return getattr(lax, name)
