"""The intermediate representation: types, variables, equations, programs, primitives, and passes over them.

Imports `core.support`.
Start with `program.py`, then `types.py` and `primitive.py`.
"""
