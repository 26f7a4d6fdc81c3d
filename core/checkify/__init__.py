"""Run-time checks as values: the check primitive, automatic checks, the transformation.

Imports `core.jit` and what is below it.
Start with `transform.py`.
"""
