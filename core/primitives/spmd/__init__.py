"""Collectives over named axes, and the types of values that vary along these axes.

Imports what is below `core.primitives`, and rooms of it that do not import this one.
Start with `collective.py`.
"""
