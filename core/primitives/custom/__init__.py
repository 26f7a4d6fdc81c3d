"""Primitives with derivatives of the user's own, checkpoints, and implicit solves.

Imports what is below `core.primitives`, `control_flow` and rooms below that.
Start with `custom_derivatives.py`.
"""
