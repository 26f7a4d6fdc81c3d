"""Looking at values from inside compiled programs."""

from .core.primitives.callback import debug_callback as callback
from .core.primitives.callback import debug_print as print

__all__ = ["callback", "print"]
