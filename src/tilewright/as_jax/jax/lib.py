"""`jax.lib`: the version of jaxlib."""

from ...core.support.version import JAXLIB as __version__
from ..missing import not_adapted

__all__ = ["__version__"]
__getattr__ = not_adapted("jax.lib")
