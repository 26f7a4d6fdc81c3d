"""Typed random keys and the threefry counter generator, as primitives.

Imports `elementwise`, `movement` and what is below `core.primitives`.
Start with `threefry.py`.
"""
