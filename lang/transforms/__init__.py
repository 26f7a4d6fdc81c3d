"""Kernel-to-kernel passes: batching, block splitting, state discharge, desugaring, bounds checks.

Imports `core`, and `lang` up to `analysis`.
Start with `rebuild.py`, then `vmap.py`.
"""
