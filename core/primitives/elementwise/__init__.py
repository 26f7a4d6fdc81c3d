"""Elementwise primitives: arithmetic, comparison, bitwise operations, conversion, and the builders of their rules.

Imports what is below `core.primitives`.
Start with `builders.py`, then `arithmetic.py`.
"""
