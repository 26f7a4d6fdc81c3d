"""Data movement: shapes, slices, gathers, scatters, sorting, bit packing.

Imports `elementwise` and what is below `core.primitives`.
Start with `shape.py`, then `gather_scatter.py`.
"""
