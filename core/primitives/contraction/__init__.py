"""Contractions: dot products, convolutions, Fourier transforms, products of sparse matrices.

Imports what is below `core.primitives`, and rooms of it that do not import this one.
Start with `dot_general.py`.
"""
