"""Branches, loops and other primitives that hold programs.

Imports what is below `core.primitives`, and rooms of it that do not import this one.
Start with `subprograms.py`, then `cond.py`.
"""
