"""Numerical calculus and polynomials.

Imports the function modules of `tilewright.numpy` and `numpy.linalg`.
Start with `calculus.py`.
"""
