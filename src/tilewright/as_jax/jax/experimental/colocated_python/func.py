"""`jax.experimental.colocated_python.func`, which orbax imports and asks for names that may be missing."""

from ....missing import not_adapted

__getattr__ = not_adapted("jax.experimental.colocated_python.func")
