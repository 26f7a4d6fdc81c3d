"""The last errors of host callbacks, so that the user's own exception can be raised again."""

from __future__ import annotations

import collections

from ...core.support.runtime import runtime

KEPT = 8  # several callbacks may fail before the first is reported

_failed: collections.deque[BaseException] = runtime.part("callbacks.failed", collections.deque(maxlen=KEPT))


def note(error: BaseException) -> None:
    """Remember an error that a callback raised."""
    _failed.append(error)


def found(text: str) -> BaseException | None:
    """Pop the error that an XLA error message refers to; None if no callback raised it."""
    for error in reversed(_failed):
        if f"{type(error).__name__}: {error}".splitlines()[0] in text:
            _failed.remove(error)
            return error
    return None
