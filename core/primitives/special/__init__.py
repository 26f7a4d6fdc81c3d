"""Special functions as primitives, cumulative operations, and reference values by NumPy and SciPy.

Imports what is below `core.primitives`, and rooms of it that do not import this one.
Start with `functions.py`.
"""
