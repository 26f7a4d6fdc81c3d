"""Partitioning of programs and kernels over a mesh: Shardy's rules, halo exchange, collectives.

Imports `core`, `lang`, and `xla_backend` up to `execution`.
Start with `partition.py`.
"""
