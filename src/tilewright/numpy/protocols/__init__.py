"""Protocols between arrays and NumPy: methods, `ufunc` objects, `__array_function__`, inspection.

Imports the function modules of `tilewright.numpy`.
Start with `array_function.py`.
"""
