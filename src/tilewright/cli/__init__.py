"""The command line: `tilewright`, `tilewright launch`, and the report of the environment.

Imports all of the package.
Start with `main.py`.
"""
