"""`install`: from here on, `import jax` gives this package; `uninstall` undoes it."""

from __future__ import annotations

import sys
from typing import Any

from ..core.support import native_protocols
from ..core.support.config import config
from ..core.support.errors import RealJaxError
from ..core.support.runtime import runtime
from ..core.support.version import JAX_API, __version__
from . import aliases
from .finder import Finder

_settings: dict[str, Any] = runtime.part("as_jax.settings", {})  # as they were before `install`


def _finders() -> list[Finder]:
    return [finder for finder in sys.meta_path if isinstance(finder, Finder)]


def _is_jax(name: str) -> bool:
    return name == "jax" or name.startswith("jax.")


def install(quiet: bool = False) -> None:
    """Give this process the package under the name `jax`; says so once on the standard error, unless `quiet`.

    A second call does nothing. Import no library that imports jax before this.

    Raises:
      RealJaxError: the real jax is loaded already.

    >>> install(quiet=True)  # doctest: +SKIP
    >>> import jax  # doctest: +SKIP
    """
    if _finders():
        return
    if "jax" in sys.modules:
        real = getattr(sys.modules["jax"], "__file__", "jax")
        raise RealJaxError(f"the real jax is loaded already, from {real}",
                           "call `tilewright.as_jax.install()` before anything imports jax")  # fmt: skip
    sys.meta_path.insert(0, Finder())
    aliases.add()
    _settings["parallel_writes"] = config.read("parallel_writes")
    config.update("parallel_writes", "order")  # as a TPU of one core runs the kernels that were written for one
    native_protocols.hide(True)  # NumPy's functions give NumPy's arrays, which may be changed
    if not quiet:
        sys.stderr.write(f"tilewright {__version__} is `jax` {JAX_API} in this process\n")


def uninstall() -> None:
    """Undo `install`: `import jax` finds the real one again, if there is one.

    Modules that imported jax meanwhile keep what they have; import them anew. Without `install` it does nothing.

    >>> uninstall()
    """
    for finder in _finders():
        sys.meta_path.remove(finder)
        for name in filter(_is_jax, [*sys.modules]):
            finder.restore(sys.modules.pop(name))
    while _settings:
        config.update(*_settings.popitem())
    aliases.remove()
    native_protocols.hide(False)
