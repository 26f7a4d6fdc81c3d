"""Calls out of the program: host callbacks, foreign functions, exported programs.

Imports `core.primitives` up to `custom`, and what is below.
Start with `host_callback.py`.
"""
