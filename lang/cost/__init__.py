"""Static cost of kernels: operations and bytes, and the roofline of a target.

Imports `core`, and `lang` up to `call`.
Start with `estimate.py`.
"""
