"""`jax.extend.ifrt_programs`: programs that jaxlib hands to a runtime as they are; orbax imports it for Pathways."""

from collections.abc import Callable
from typing import Any

from jaxlib._jax import ifrt_programs

from ...missing import not_adapted

__all__ = ["ifrt_programs"]
__getattr__: Callable[..., Any] = not_adapted("jax.extend.ifrt_programs")
