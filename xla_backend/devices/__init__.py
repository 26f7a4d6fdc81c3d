"""Clients and devices: the CPU, plugins of GPUs and TPUs, several processes, absent targets.

Imports `core`, `xla_backend.jaxlib` and `host`.
Start with `client.py`.
"""
