"""State of the process and helpers of every layer: errors, settings, memo tables, pytrees, events.

Imports nothing else of the package.
Start with `runtime.py` (the one mutable value) and `errors.py`.
"""
