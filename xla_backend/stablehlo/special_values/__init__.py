"""Elementwise functions where XLA's values are wrong: infinities, poles, zeros of either sign.

Imports `stablehlo.emit` and what is below `xla_backend.stablehlo`.
Start with `limits.py`.
"""
