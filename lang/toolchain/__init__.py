"""What device compilers need: worker processes, checks of installed packages, and MLIR's names of scalar operations.

A compiler runs in a worker, so that a crash ends the worker and not the program. Imports `core` and `lang.ops`.
Start with `pool.py`.
"""
