"""Special functions as primitives, cumulative operations, and reference values by NumPy and SciPy.

Imports `core.primitives` up to `control_flow`, and what is below.
Start with `functions.py`.
"""
