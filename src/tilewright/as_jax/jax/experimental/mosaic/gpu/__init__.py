"""`jax.experimental.mosaic.gpu`, for the kernels that come with jax: the way to its profiler, which they import."""

from .....missing import not_adapted

__getattr__ = not_adapted("jax.experimental.mosaic.gpu", submodules=("profiler",))
