"""Compiled XLA for kernels on the CPU: grids as loops, blocks as slices and reshapes.

Imports `core`, `lang`, and `xla_backend` up to `cpu_passes`.
Start with `cpu_lowering.py`.
"""
