"""Finds the equation and the line where a NaN or an infinity first appears.

Imports all of `core`.
Start with `nan_locator.py`.
"""
