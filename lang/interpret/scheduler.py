"""Cooperative scheduling: each member of a group is a thread, and one runs at a time.

A member goes on until it has to wait, or at every exchange with others where a seed asks for a random order.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.support.errors import DeadlockError, RaceError
from ..ops.interpret_params import InterpretParams, Run, run_as

if TYPE_CHECKING:
    from threading import Semaphore


class _Stopped(BaseException):
    """Ends the thread of a member because another one has failed."""


class Group:
    """The members, and the scheduler's semaphore."""

    members: Sequence[Member]
    what = "member"  # in messages
    remedy = "signal on every way to a wait, and before the wait"

    random: np.random.Generator | None

    def __init__(self, kernel: str, params: InterpretParams):
        self.label = kernel
        self.error: BaseException | None = None
        self.resume: Semaphore = threading.Semaphore(0)  # the scheduler's
        self.random = None if params.random_seed is None else np.random.default_rng(params.random_seed)

    def run_all(self) -> None:
        """Run all members to their end, and check what they leave; raises what goes wrong first."""
        self.begin(self.members)
        try:
            while self.error is None and not all(m.done for m in self.members):
                self.step()
            if self.error is None:
                self.check_ends()
        finally:
            for member in self.members:
                member.stopped = True
                member.resume.release()
        for member in self.members:
            assert member.thread is not None
            member.thread.join()
        if self.error is not None:
            raise self.error

    def begin(self, members: Sequence[Member]) -> None:
        """Start the threads of members, each of which waits to be resumed."""
        context = contextvars.copy_context()
        for member in members:
            target = contextvars.Context.run
            member.thread = threading.Thread(target=target, args=(context.copy(), member.main), daemon=True)
            member.thread.start()

    def step(self) -> None:
        """One member goes on until it has to wait, or is done."""
        ready = [m for m in self.members if not m.done and (m.waits is None or m.waits())]
        if not ready:
            self.error = self.deadlock()
            return
        member = ready[0 if self.random is None else int(self.random.integers(len(ready)))]
        member.waits = None
        member.resume.release()
        self.resume.acquire()

    def deadlock(self) -> DeadlockError:
        waiting = [m for m in self.members if not m.done]
        lines = "".join(f"\n  {m.title}, cell {m.cell}: {m.wanted()}, at {m.source}" for m in waiting)
        left = [str(n) for n, m in enumerate(self.members) if m.done]
        done = f"; {', '.join(left)} of them have left the kernel" if left else ""
        return DeadlockError(
            f"kernel {self.label}: no {self.what} can go on{done}:{lines}", self.remedy, waiting[0].source
        )

    def check_ends(self) -> None:
        """What must be so when all members are done."""


class Member(Run):
    """One member's run."""

    def __init__(self, group: Group, kernel: str, params: InterpretParams):
        super().__init__(kernel, params)
        self.group = group
        self.resume: Semaphore = threading.Semaphore(0)
        self.thread: threading.Thread | None = None
        self.done = self.stopped = False
        self.waits: Callable[[], bool] | None = None  # what it waits for; None: nothing
        self.wanted: Callable[[], str] = lambda: "waits"

    @property
    def title(self) -> str:
        """What messages call it."""
        return self.group.what

    def work(self) -> None:
        """What it does."""

    def main(self) -> None:
        self.resume.acquire()
        try:
            if not self.stopped:
                with run_as(self):
                    self.work()
        except _Stopped:
            pass
        except BaseException as error:
            self.group.error = error
        self.done: bool = True
        self.group.resume.release()

    def pause(self, waits: Callable[[], bool] | None, wanted: Callable[[], str]) -> None:
        """Let others go on, until something holds."""
        self.waits, self.wanted = waits, wanted
        self.group.resume.release()
        self.resume.acquire()
        if self.stopped:
            raise _Stopped

    def mixed(self) -> None:
        """In a random order, another member may go on here."""
        if self.group.random is not None:
            self.pause(None, lambda: "goes on")

    def race(self, what: str, remedy: str) -> RaceError:
        return RaceError(f"kernel {self.kernel}, {self.title}, cell {self.cell}: {what}", remedy, self.source)
