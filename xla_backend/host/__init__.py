"""The host process: disk cache, memory limits, allocator settings, errors of callbacks.

Imports `core` and `xla_backend.jaxlib`.
Start with `disk_cache.py`.
"""
