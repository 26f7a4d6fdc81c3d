"""The only door to jaxlib's internals: clients, arrays, executables, foreign functions.

Imports `core`.
Start with `shim.py`.
"""
