"""Tracebacks of errors that end a program, without this package's own frames: the setting `traceback_filtering`.

    auto, remove_frames     frames of this package are left out, and a note says so
    quiet_remove_frames     the same without the note
    off                     everything is shown
"""

from __future__ import annotations

import functools
import sys
from types import TracebackType
from typing import Any

from .config import watched
from .errors import is_internal

NOTE = "(frames of tilewright are left out; TILEWRIGHT_TRACEBACK_FILTERING=off shows them)"


def filtered(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without this package's frames; itself where no other is left."""
    links = []
    link = trace
    while link is not None:
        if not is_internal(link.tb_frame.f_code):
            links.append(link)
        link = link.tb_next
    made: TracebackType | None = None
    for link in reversed(links):
        made = TracebackType(made, link.tb_frame, link.tb_lasti, link.tb_lineno)
    return trace if made is None else made


def _length(trace: TracebackType | None) -> int:
    return 0 if trace is None else 1 + _length(trace.tb_next)


def clean(error: BaseException, note: bool) -> None:
    """Leave this package's frames out of an error's traceback, and out of those of the errors behind it."""
    seen: set[int] = set()
    behind: BaseException | None = error
    while behind is not None and id(behind) not in seen:
        seen.add(id(behind))
        before = behind.__traceback__
        behind.__traceback__ = filtered(before)
        if behind is error and note and _length(behind.__traceback__) < _length(before):
            behind.add_note(NOTE)
        behind = behind.__cause__ or behind.__context__


def _hook(before: Any, kind: Any, error: BaseException, trace: Any) -> None:
    if watched.traceback_filtering != "off":
        error.__traceback__ = trace
        clean(error, watched.traceback_filtering != "quiet_remove_frames")
    before(kind, error, error.__traceback__ if watched.traceback_filtering != "off" else trace)


def install() -> None:
    """Filter the tracebacks of errors that nothing catches."""
    sys.excepthook = functools.partial(_hook, sys.excepthook)
