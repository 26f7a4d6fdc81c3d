"""`jit` under its name of before it took shardings."""

from ..core.jit.jit import jit as pjit

__all__ = ["pjit"]
