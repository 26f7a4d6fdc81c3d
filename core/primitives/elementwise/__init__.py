"""Elementwise primitives: arithmetic, comparison, conversion, and the builders of their rules.

Imports what is below `core.primitives`, and `special`, `movement`'s shapes of it.
Start with `builders.py`, then `arithmetic.py`.
"""
