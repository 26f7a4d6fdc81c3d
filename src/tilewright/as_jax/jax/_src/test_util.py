"""`jax._src.test_util`, for the kernels that come with jax: imported for options of their benchmarks; has no names."""

from ...missing import not_adapted

__getattr__ = not_adapted("jax._src.test_util")
