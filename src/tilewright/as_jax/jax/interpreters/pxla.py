"""`jax.interpreters.pxla`: the mesh in force, for libraries that read it here."""

from collections.abc import Callable
from typing import Any

from ...missing import not_adapted
from ...thread_resources import thread_resources

__all__ = ["thread_resources"]

__getattr__: Callable[..., Any] = not_adapted("jax.interpreters.pxla")
