"""Derivatives of kernels: forward mode, adjoints of bodies, loops, branches, reductions and carries.

Imports `core`, and `lang` up to `verify`.
Start with `jvp_vjp.py`, then `adjoint.py`.
"""
