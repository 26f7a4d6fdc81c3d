"""The transformations as users call them: `grad`, `vmap`, `vjp`, `jacobian`, custom rules, associative scans.

Imports `core.primitives` and what is below it.
Start with `transformations.py`.
"""
