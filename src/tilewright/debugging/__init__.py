"""The debugger behind `debug.breakpoint`.

Imports the layers.
Start with `debugger.py`.
"""
