"""`jax.experimental.mosaic`, for the kernels that come with jax: the way to its part for GPUs."""

from ....missing import not_adapted

__getattr__ = not_adapted("jax.experimental.mosaic", submodules=("gpu",))
