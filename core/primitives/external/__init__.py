"""Calls out of the program: host callbacks, foreign functions, exported programs.

Imports what is below `core.primitives`, `control_flow` and rooms below that.
Start with `host_callback.py`.
"""
