"""Taylor-mode differentiation: the transformation and its rules.

Imports `core.jit` and what is below it.
Start with `taylor_mode.py`.
"""
