"""Settings of one compilation: target, tiles, XLA's options.

Imports `core`, `lang`, and `xla_backend` up to `devices`.
Start with `compile_options.py`.
"""
