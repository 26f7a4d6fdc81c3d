"""The errors that host callbacks raised last, so that what reports them can hand on the user's own exception."""

from __future__ import annotations

import collections

from ...core.support.runtime import runtime

KEPT = 8  # several callbacks may fail before the first is reported

_failed: collections.deque[BaseException] = runtime.part("callbacks.failed", collections.deque(maxlen=KEPT))


def note(error: BaseException) -> None:
    """Remember an error that a callback raised."""
    _failed.append(error)


def found(text: str) -> BaseException | None:
    """The error that a report of XLA's tells of, which is forgotten then; None if it is of no callback."""
    for error in reversed(_failed):
        if f"{type(error).__name__}: {error}".splitlines()[0] in text:
            _failed.remove(error)
            return error
    return None
