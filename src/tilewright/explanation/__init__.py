"""`explain`: what was compiled, why, and at what cost, as text and as a page.

Imports `compiler` and what is below it.
Start with `report.py`.
"""
