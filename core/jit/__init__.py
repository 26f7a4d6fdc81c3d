"""Compilation on call: dispatch cache, ahead-of-time stages, cache-miss reports, eager composite functions.

Imports `core.api`, `core.arrays`, `core.random` and what is below them.
Start with `jit.py`, then `dispatch_cache.py`.
"""
