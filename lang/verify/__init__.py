"""The verifier of kernels: aliasing, races, semaphores, limits of targets.

Imports `core`, and `lang` up to `warpgroups`.
Start with `verify.py`.
"""
