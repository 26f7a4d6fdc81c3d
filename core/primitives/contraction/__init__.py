"""Contractions: dot products, convolutions, Fourier transforms, products of sparse matrices.

Imports `elementwise`, `movement`, `reduction` and what is below `core.primitives`.
Start with `dot_general.py`.
"""
