"""`jax.interpreters.pxla`: imported by libraries for what older versions of jax had there."""

from ...missing import not_adapted

__getattr__ = not_adapted("jax.interpreters.pxla")
