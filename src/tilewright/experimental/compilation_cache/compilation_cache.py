"""The folder of compiled programs: the setting `cache_dir` by functions."""

from __future__ import annotations

import os
from collections.abc import Callable

from ...core.support.config import config
from ...core.support.runtime import runtime


def set_cache_dir(path: str | os.PathLike[str]) -> None:
    """Keep compiled programs in a folder from now on: `config.update("cache_dir", path)`."""
    config.update("cache_dir", os.fspath(path))


def reset_cache() -> None:
    """Forget what is loaded of the folder, so that the next compilation looks there again. Its files stay.

    >>> reset_cache()
    """
    runtime.clear_caches()


__all__ = ["reset_cache", "set_cache_dir"]
__dir__: Callable[[], list[str]] = __all__.copy
