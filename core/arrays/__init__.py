"""Operators, methods and NumPy-style indexing of arrays and tracers.

Imports `core.primitives` and what is below it.
Start with `operators.py`.
"""
