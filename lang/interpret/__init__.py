"""The reference interpreter: program instances, warpgroups and devices, with a race detector.

Imports `core`, and `lang` up to `autodiff`.
Start with `interpreter.py`.
"""
