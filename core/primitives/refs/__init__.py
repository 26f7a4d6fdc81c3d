"""Primitives on mutable references: reads, writes, views, indexing, and their state discharge.

Imports what is below `core.primitives`, and rooms of it that do not import this one.
Start with `state_primitives.py`.
"""
