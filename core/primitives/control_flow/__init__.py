"""Branches, loops and other primitives that hold programs.

Imports `core.primitives` up to `spmd` and `contraction`, and what is below.
Start with `subprograms.py`, then `cond.py`.
"""
