"""`jax._src.state`, for flax.nnx."""

from ....missing import not_adapted

__getattr__ = not_adapted("jax._src.state", submodules=("types",))
