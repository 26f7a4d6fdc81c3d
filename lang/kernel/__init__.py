"""The kernel IR: grid, block specifications, body; walkers, equation builders, canonical forms.

Imports `core`.
Start with `kernel.py`, then `block_spec.py`.
"""
