"""`install`: from here on, `import jax` gives this package."""

from __future__ import annotations

import sys

from ..core.ir.typeof import Value
from ..core.support.config import config
from ..core.support.errors import RealJaxError
from ..core.support.runtime import runtime
from ..core.support.version import JAXLIB as FOLLOWED
from ..core.support.version import __version__
from ..xla_backend.arrays.array import Array
from .finder import Finder
from .jaxprs import view


def install(quiet: bool = False) -> None:
    """Give this process the package under the name `jax`; says so once on the standard error, unless `quiet`.

    Nothing undoes it. A second call does nothing. Import no library that imports jax before this.

    Raises:
      RealJaxError: the real jax is loaded already.

    >>> install(quiet=True)  # doctest: +SKIP
    >>> import jax  # doctest: +SKIP
    """
    if any(isinstance(finder, Finder) for finder in sys.meta_path):
        return
    if "jax" in sys.modules:
        real = getattr(sys.modules["jax"], "__file__", "jax")
        raise RealJaxError(f"the real jax is loaded already, from {real}",
                           "call `tilewright.as_jax.install()` before anything imports jax")  # fmt: skip
    sys.meta_path.insert(0, Finder())
    runtime.as_jaxpr = view
    config.update("parallel_writes", "order")  # as a TPU of one core runs the kernels that were written for one
    del Array.__jax_array__  # the real jax asks for it, to make an array of its own
    del Value.__array_function__, Value.__array_ufunc__  # NumPy's functions give NumPy's arrays, which may be changed
    if not quiet:
        sys.stderr.write(f"tilewright {__version__} is `jax` {FOLLOWED} in this process\n")
