"""Events of tracing and compilation: counted, timed, sent to listeners, and logged on request.

    Event ::= kind (TRACE, LOWER, COMPILE, ...), the name of the function, seconds

`stats()` adds up what happened; `log_compiles` has each event logged; `explain_cache_misses` has it logged why a
function was traced again.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from .config import watched
from .runtime import runtime

if TYPE_CHECKING:
    from logging import Logger


TRACE = "trace"  # a function was run with tracers
LOWER = "lower"  # a Program became a module
COMPILE = "compile"  # XLA compiled a module
LOAD = "load"  # an executable came from the disk
HIT = "hit"  # an executable of another function, or of an earlier call, was the same
KINDS = (TRACE, LOWER, COMPILE, LOAD, HIT)

logger: Logger = logging.getLogger("tilewright")
Listener = Callable[[str, str, float], object]


class Count(NamedTuple):
    """How often something happened, and how long it took in all."""

    times: int
    seconds: float


class _Events:
    def __init__(self) -> None:
        self.counts: dict[str, Count] = {kind: Count(0, 0.0) for kind in KINDS}
        self.listeners: tuple[Listener, ...] = ()


_events = runtime.part("events", _Events())
_DONE = {
    TRACE: "traced {name} in {ms:.2f} ms",
    LOWER: "made a module of {name} in {ms:.2f} ms",
    COMPILE: "compiled {name} in {ms:.2f} ms",
    LOAD: "loaded {name}, compiled before, from the disk in {ms:.2f} ms",
    HIT: "{name} is the same program as one in memory",
}


def record(kind: str, name: str, seconds: float = 0.0) -> None:
    """Count an event, log it if enabled, and notify the listeners."""
    times, before = _events.counts[kind]
    _events.counts[kind] = Count(times + 1, before + seconds)
    if watched.log_compiles:
        logger.warning(_DONE[kind].format(name=name, ms=seconds * 1e3))
    for listener in _events.listeners:
        listener(kind, name, seconds)


@contextlib.contextmanager
def recorded(kind: str, name: str) -> Iterator[None]:
    """Record what a block does, with the time it took; nothing where it raises."""
    start = time.perf_counter()
    yield
    record(kind, name, time.perf_counter() - start)


def listen(listener: Listener) -> Callable[[], None]:
    """Have a function called with the kind, name and seconds of each event; gives what ends that."""
    _events.listeners = (*_events.listeners, listener)

    def end() -> None:
        _events.listeners = tuple(x for x in _events.listeners if x is not listener)

    return end


def stats() -> dict[str, Count]:
    """How often, and for how long in seconds, this process has traced, lowered and compiled, loaded and reused.

    >>> before = stats()["trace"].times
    >>> from tilewright import jit
    >>> float(jit(lambda x: x * 2.0)(3.0)), stats()["trace"].times - before
    (6.0, 1)
    """
    return dict(_events.counts)
