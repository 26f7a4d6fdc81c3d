"""Program transformations: forward mode, linearization, transposition, batching.

Imports `core.support`, `core.ir` and `core.tracing`.
Start with `jvp.py`, then `linearize.py` and `transpose.py`.
"""
