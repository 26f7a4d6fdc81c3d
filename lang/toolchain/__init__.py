"""Worker processes that run device compilers, so that a crash ends a worker and not the program; checks of packages.

Imports `core`.
Start with `pool.py`.
"""
