"""This package under the name `jax`, so that programs and libraries written for jax run on it unmodified.

    python -m tilewright.as_jax script.py ...        a script, and all that it imports
    python -m tilewright.as_jax -m pytest ...        a module
    tilewright.as_jax.install()                      first thing in a program; `uninstall` undoes it

`finder` gives Python the modules of that name, `table` says which these are, and the folder `jax` has those of jax's
own insides that libraries reach into, over the concepts of this package.
"""

from .install import install, uninstall

__all__ = ["install", "uninstall"]
