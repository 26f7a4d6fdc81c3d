"""Primitives with derivatives of the user's own, checkpoints, and implicit solves.

Imports `core.primitives` up to `control_flow`, and what is below.
Start with `custom_derivatives.py`.
"""
