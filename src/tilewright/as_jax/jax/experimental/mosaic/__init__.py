"""`jax.experimental.mosaic`, for the kernels that come with jax: the way to its part for GPUs."""

from collections.abc import Callable
from typing import Any

from ....missing import not_adapted

__getattr__: Callable[..., Any] = not_adapted("jax.experimental.mosaic", submodules=("gpu",))
