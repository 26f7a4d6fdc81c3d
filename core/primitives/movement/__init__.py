"""Data movement: shapes, slices, gathers, scatters, sorting, bit packing.

Imports what is below `core.primitives`, and rooms of it that do not import this one.
Start with `shape.py`, then `gather_scatter.py`.
"""
