"""`kernel_call`: from a Python body to a kernel, and the primitive that holds one.

Imports `core`, and `lang` up to `partition`.
Start with `kernel_call.py`, then `primitive.py`.
"""
