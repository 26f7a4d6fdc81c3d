"""Arrays on devices: the array type, operators, transfers, resharding, the generated fast path.

Imports `core`, and `xla_backend` up to `options`.
Start with `array.py`.
"""
