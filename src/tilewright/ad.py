"""`jax.ad`'s names: requests of cotangents passed to a pullback, and their placeholders."""

from collections.abc import Callable

from .core.api.vjp_functions import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
__dir__: Callable[[], list[str]] = __all__.copy
