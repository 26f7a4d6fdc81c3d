"""Reductions over axes and over windows.

Imports `elementwise`, `movement` and what is below `core.primitives`.
Start with `reduce.py`.
"""
