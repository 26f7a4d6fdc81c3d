"""Kernels as loop nests, free of targets: parallel axes, carried loops, peeling, loop bounds, staged operands.

Imports `core`, and `lang` up to `transforms`; read by the GPU backends and the CPU's.
Start with `plan.py`; `peeling.py` and `bounds.py` then transform the innermost loop's body.
"""
