"""Reductions over axes and over windows.

Imports what is below `core.primitives`, and rooms of it that do not import this one.
Start with `reduce.py`.
"""
