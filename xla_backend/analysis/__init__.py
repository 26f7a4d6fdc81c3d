"""Reports about compiled programs: fusions, peak memory, origins of instructions, cost on TPUs.

Imports `core`, `lang`, and `xla_backend` up to `execution`.
Start with `hlo_report.py`.
"""
