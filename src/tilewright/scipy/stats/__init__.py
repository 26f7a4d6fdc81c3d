"""`jax.scipy.stats`: distributions, a module each."""

from . import norm

__all__ = ["norm"]
