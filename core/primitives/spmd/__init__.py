"""Collectives over named axes, and the types of values that vary along these axes.

Imports `elementwise`, `movement`, `reduction` and what is below `core.primitives`.
Start with `collective.py`.
"""
