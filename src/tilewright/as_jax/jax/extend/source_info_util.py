"""`jax.extend.source_info_util`: the lines of the user's that messages name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from ....core.support.errors import Source, exclude, user_source
from ...missing import not_adapted

SourceInfo = Source


def register_exclusion(path: str) -> None:
    """Have messages name no line of the files below a path."""
    exclude(path)


def current() -> Any:
    """The user's line."""
    return user_source()


def summarize(source_info: Any, num_frames: int = 1) -> str:
    """A line as text."""
    return "unknown" if source_info is None else str(source_info)


@contextlib.contextmanager
def user_context(*_: Any, **__: Any) -> Iterator[None]:
    """A `with` block without an effect: each equation keeps its own line."""
    yield


__all__ = ["SourceInfo", "current", "register_exclusion", "summarize", "user_context"]
__getattr__: Callable[..., Any] = not_adapted("jax.extend.source_info_util")
