"""`jax.extend`: what extensions of jax may use."""

from ...missing import not_adapted

__getattr__ = not_adapted("jax.extend", submodules=("core", "linear_util", "source_info_util"))
