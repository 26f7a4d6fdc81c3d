"""Meshes, shardings as part of types, `shard_map`, and unreduced (deferred) reductions.

Imports `core.jit` and what is below it.
Start with `mesh.py`, then `sharding_in_types.py`.
"""
