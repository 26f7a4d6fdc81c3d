"""`jax.experimental.mosaic.gpu.profiler`, for the kernels that come with jax: their benchmarks use it, and are refused.

Measure with `tilewright.benchmark`.
"""

from collections.abc import Callable
from typing import Any

from .....missing import not_adapted

__getattr__: Callable[..., Any] = not_adapted("jax.experimental.mosaic.gpu.profiler")
