"""Worker processes that run device compilers, so that a crash ends a worker and not the program.

Imports `core`.
Start with `pool.py`.
"""
