"""`jax.interpreters.pxla`: imported by libraries for what older versions of jax had there."""

from collections.abc import Callable
from typing import Any

from ...missing import not_adapted

__getattr__: Callable[..., Any] = not_adapted("jax.interpreters.pxla")
