"""The command line: `tilewright` and `tilewright launch`.

Imports all of the package.
Start with `main.py`.
"""
