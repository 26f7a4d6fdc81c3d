"""`jax._src.traceback_util`, for equinox and flax: whose frames messages name."""

from __future__ import annotations

from typing import Any

from ....core.support.errors import exclude as register_exclusion
from ....core.support.errors import excluded, is_internal
from ...missing import not_adapted


def api_boundary(fun: Any, **_: Any) -> Any:
    """The function itself: errors name the user's line, and their tracebacks are whole."""
    return fun


def include_frame(frame: Any) -> bool:
    """Whether a frame is the user's."""
    return not is_internal(frame.f_code)


class _Paths:
    """The excluded folders, as the list that flax changes."""

    append = staticmethod(register_exclusion)
    remove = staticmethod(excluded.discard)
    __contains__ = staticmethod(excluded.__contains__)


_exclude_paths = _Paths()
__all__ = ["api_boundary", "include_frame", "register_exclusion"]
__getattr__ = not_adapted("jax._src.traceback_util")
