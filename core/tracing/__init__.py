"""Tracing: from Python functions and arrays to programs, and evaluation of programs in NumPy.

Imports `core.support` and `core.ir`.
Start with `trace.py`.
"""
