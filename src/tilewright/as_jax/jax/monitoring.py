"""`jax.monitoring`: events that programs report, and listeners that are told of them.

Listeners hear what the program and its libraries record here; events of this package are in
`core/support/compile_events.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.support.runtime import runtime
from ..missing import not_adapted

Listener = Callable[..., None]


class _Listeners:
    def __init__(self) -> None:
        self.of: dict[str, list[Listener]] = {"event": [], "duration": [], "scalar": [], "span": []}

    def tell(self, kind: str, *args: Any, **tags: Any) -> None:
        for listener in list(self.of[kind]):
            listener(*args, **tags)


_listeners = runtime.part("as_jax.listeners", _Listeners())


def record_event(event: str, **kwargs: Any) -> None:
    """Tell the listeners of an event."""
    _listeners.tell("event", event, **kwargs)


def record_event_duration_secs(event: str, duration: float, **kwargs: Any) -> None:
    """Tell the listeners how long something took."""
    _listeners.tell("duration", event, duration, **kwargs)


def record_event_time_span(event: str, start_time: float, end_time: float, **kwargs: Any) -> None:
    """Tell the listeners when something began and ended."""
    _listeners.tell("span", event, start_time, end_time, **kwargs)


def record_scalar(event: str, value: float, **kwargs: Any) -> None:
    """Tell the listeners a number."""
    _listeners.tell("scalar", event, value, **kwargs)


def register_event_listener(callback: Listener) -> None:
    """Have a function told of events."""
    _listeners.of["event"].append(callback)


def register_event_duration_secs_listener(callback: Listener) -> None:
    """Have a function told how long things took."""
    _listeners.of["duration"].append(callback)


def register_event_time_span_listener(callback: Listener) -> None:
    """Have a function told when things began and ended."""
    _listeners.of["span"].append(callback)


def register_scalar_listener(callback: Listener) -> None:
    """Have a function told of numbers."""
    _listeners.of["scalar"].append(callback)


def unregister_event_listener(callback: Listener) -> None:
    """Tell a function of events no more."""
    _listeners.of["event"].remove(callback)


def unregister_event_duration_listener(callback: Listener) -> None:
    """Tell a function of durations no more."""
    _listeners.of["duration"].remove(callback)


def unregister_event_time_span_listener(callback: Listener) -> None:
    """Tell a function of spans of time no more."""
    _listeners.of["span"].remove(callback)


def unregister_scalar_listener(callback: Listener) -> None:
    """Tell a function of numbers no more."""
    _listeners.of["scalar"].remove(callback)


def clear_event_listeners() -> None:
    """Tell nobody of anything any more."""
    for listeners in _listeners.of.values():
        listeners.clear()


__getattr__: Callable[..., Any] = not_adapted("jax.monitoring")
