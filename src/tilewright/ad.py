"""`jax.ad`'s names: what a pullback is told about the cotangent of an input, and what stands in its place."""

from .core.api.vjp_functions import DidntWant, DontWant, GradRef, GradValue

__all__ = ["DidntWant", "DontWant", "GradRef", "GradValue"]
