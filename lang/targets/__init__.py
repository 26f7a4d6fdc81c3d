"""Hardware descriptions (sizes, rates, limits) and compiler parameters.

Imports `core`, `lang.kernel` and `lang.ops`.
Start with `target.py`.
"""
