"""`jax.lib`: the version of jaxlib."""

from collections.abc import Callable
from typing import Any

from ...core.support.version import JAXLIB as __version__
from ..missing import not_adapted

__all__ = ["__version__"]
__getattr__: Callable[..., Any] = not_adapted("jax.lib")
