"""Lowering of typed random keys to their words, and the checker of key reuse.

Imports `core.primitives` and what is below it.
Start with `key_lowering.py`.
"""
