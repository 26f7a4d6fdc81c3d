"""Forked children of a process that has used a device: errors in place of waits for threads that they do not have.

A fork copies the memory of a process and the one thread that called it. XLA's client is in the child's memory, and none
of its threads, so a computation there would wait for ever. `guard` notes what starts one; in the child it raises.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable
from typing import Any, NoReturn

from .errors import ForkError
from .runtime import runtime


class _State:
    """What is known of forks in this process. `parent` is the process that this one was forked from, after its use."""

    def __init__(self) -> None:
        self.used = False
        self.parent = 0
        self.runners: weakref.WeakSet[Any] = weakref.WeakSet()


_state = runtime.part("forks", _State())
used_in_parent: list[int] = runtime.part("forks.used_in_parent", [])  # true in such a child; read before each wait


def mark_used() -> None:
    """A client is there, with threads of its own."""
    _state.used = True


def guard(runner: Callable[..., Any]) -> Any:
    """A function whose global `execute` starts a program; gives that function."""
    _state.runners.add(runner)
    return runner


def refuse(*_: Any, **__: Any) -> NoReturn:
    """Raise the error of a forked child."""
    raise ForkError(
        f"process {os.getpid()} was forked from process {_state.parent} after that had used a device; the threads that "
        "run programs are not in it",
        "start processes by multiprocessing.get_context('spawn') or 'forkserver', or fork before anything is computed")


def check() -> None:
    """Raise in a forked child of a process that has used a device.

    >>> check()
    """
    if used_in_parent:
        refuse()


def at_exit(function: Callable[[], Any]) -> None:
    """Call a function when this process ends; a forked child does not."""
    owner = os.getpid()
    atexit.register(lambda: function() if os.getpid() == owner else None)


def in_child(function: Callable[[], Any]) -> None:
    """Call a function in each forked child, first of all."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def _forked() -> None:
    if _state.used and not used_in_parent:
        _state.parent = os.getppid()
        used_in_parent.append(_state.parent)
        for runner in list(_state.runners):
            runner.__globals__["execute"] = refuse


in_child(_forked)
