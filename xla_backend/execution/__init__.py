"""Executables and their calls, on one device and on a mesh; the backend that core calls.

Imports `core`, `lang`, and `xla_backend` up to `pipeline`.
Start with `backend.py`.
"""
