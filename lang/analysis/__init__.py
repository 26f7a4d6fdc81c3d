"""Analyses of kernels: affine index maps, value ranges, reductions, uninitialised memory. They change nothing.

Imports `core`, `lang.kernel`, `lang.ops` and `lang.targets`.
Start with `affine.py`, then `facts.py` (cached results).
"""
