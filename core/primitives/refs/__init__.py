"""Primitives on mutable references: reads, writes, views, indexing, and their state discharge.

Imports `elementwise`, `movement` and what is below `core.primitives`.
Start with `state_primitives.py`.
"""
