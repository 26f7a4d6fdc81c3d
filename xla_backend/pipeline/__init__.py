"""Passes from a program to one StableHLO module: expansion, kernel emission, printing.

Imports `core`, `lang`, and `xla_backend` up to `stablehlo` and `kernels`.
Start with `stablehlo_module.py`.
"""
