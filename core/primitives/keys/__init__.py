"""Typed random keys and the threefry counter generator, as primitives.

Imports what is below `core.primitives`, `elementwise` and `movement`.
Start with `threefry.py`.
"""
