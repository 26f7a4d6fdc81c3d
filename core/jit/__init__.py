"""Compilation on call: dispatch cache, ahead-of-time stages, cache-miss reports, `inline_jit`.

Imports `core.api`, `core.arrays`, `core.random` and what is below them.
Start with `jit.py`, then `dispatch_cache.py`.
"""
