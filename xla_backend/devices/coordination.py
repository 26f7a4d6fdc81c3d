"""Coordination of processes: one process's view of the collective steps of its group.

A *step* is anything several processes do collectively: the first run of a program over their mesh, a barrier, the
creation of an array. Before each step they compare its description through the key-value store of XLA's coordination
service; each of them raises where it differs. XLA itself would compute a wrong sum, or hang.
"""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ...core.support.errors import CoordinatorError, ProcessMismatchError, Source, is_internal, user_source
from ...core.support.memo import cached
from ...core.support.pytree import leaves
from ...core.support.runtime import runtime
from ..host.digest import digest
from ..jaxlib import shim

SLICE = 1000  # milliseconds of waiting in compiled code before Python looks for signals again
ORDER_EVERY = 32  # calls after which processes compare their order
SHOWN = 300  # letters of a description in a message
SAME = "every process runs the same programs, on the same values, in the same order"


class Doing(NamedTuple):
    """What a thread waits in, since when."""

    what: str
    since: float
    thread: int


class Result(NamedTuple):
    """The result of a call that may still be computed."""

    array: weakref.ref[Any]
    doing: Doing


class Group:
    """This process within its group. `store` is None while there is no group."""

    def __init__(self) -> None:
        self.store: Any = None  # jaxlib's client of the coordination service
        self.host: str | None = None  # by which others reach this process; None: as the system says
        self.local_device_ids: tuple[int, ...] | None = None
        self.fault: str | None = None
        self.calls = 0
        self.called = ""
        self.result: Result | None = None
        self.waits: dict[int, Doing] = {}
        self.agreed: set[str] = set()
        self.steps: dict[tuple[int, ...], int] = {}
        self.read: dict[tuple[int, ...], list[str]] = {}  # keys that can go at the next step
        self.orders: dict[tuple[int, ...], tuple[int, str]] = {}
        self.marks: list[tuple[tuple[int, ...], int, str]] = []
        self.lock: threading.Lock = threading.Lock()

    # ------------------------------------------------------------ waiting

    @contextlib.contextmanager
    def waiting(self, what: str) -> Iterator[Doing]:
        """Say of this thread, as long as the block lasts, what it is waiting in."""
        thread = threading.get_ident()
        outer = self.waits.get(thread)
        doing = self.waits[thread] = Doing(what, time.monotonic(), thread)
        try:
            yield doing
        finally:
            if outer is None:
                del self.waits[thread]
            else:
                self.waits[thread] = outer

    def longest(self) -> Doing | None:
        """What has been waited in for longest; None if nothing is."""
        found = list(self.waits.values())
        if self.result is not None:
            array = self.result.array()
            if array is not None and not array.is_deleted() and not array.is_ready():
                found.append(self.result.doing)
            else:
                self.result = None
        return min(found, key=lambda d: d.since, default=None)

    def where(self) -> dict[str, Any]:
        """Where this process is: its calls, what it waits in and since when, and the user's line."""
        doing = self.longest()
        thread = doing.thread if doing else threading.main_thread().ident
        return {
            "calls": self.calls, "last": self.called, "waits": doing and doing.what,
            "seconds": round(time.monotonic() - doing.since, 1) if doing else 0.0, "line": line_of(thread),
        }  # fmt: skip

    def positions(self) -> list[tuple[tuple[int, ...], int, int]]:
        """For each set of processes how many steps, and how many calls, this one has begun with them."""
        keys = {**self.steps, **self.orders}
        return [(m, self.steps.get(m, 0), self.orders.get(m, (0, ""))[0]) for m in keys]

    def check_fault(self) -> None:
        """Raise where the coordinator has found that the processes do different things."""
        if self.fault is not None:
            raise ProcessMismatchError(self.fault, SAME)

    # ------------------------------------------------------------ steps

    def exchange(self, key: str, value: str, members: Sequence[int], what: str) -> dict[int, str]:
        """Give each of some processes a text, and take theirs; waits until all have come to the same `key`."""
        with self.waiting(what):
            try:
                self.store.key_value_set(f"{key}/{runtime.process_index}", value)
                while True:
                    given = self.store.key_value_dir_get(f"{key}/")
                    found = {int(name.rsplit("/", 1)[1]): text for name, text in given}
                    missing = next((m for m in members if m not in found), None)
                    if missing is None:
                        return found
                    with contextlib.suppress(TimeoutError):
                        self._wait_for(f"{key}/{missing}")
                    self.check_fault()
            except shim.RuntimeFault as error:
                raise CoordinatorError(f"the coordination service failed while this process waited in {what}: {error}",
                                       "look at the output of the process that coordinates") from None  # fmt: skip

    def _wait_for(self, key: str) -> None:
        try:
            self.store.blocking_key_value_get(key, SLICE)
        except shim.RuntimeFault as error:
            if "DEADLINE_EXCEEDED" not in str(error):
                raise
            raise TimeoutError from None

    def step(self, what: str, about: dict[str, str], members: tuple[int, ...]) -> int:
        """Hold what this process is about to do against what the others are; gives the number of the step.

        Raises:
          ProcessMismatchError: another process does something else, or the same with other things.
        """
        with self.lock:
            number = self.steps[members] = self.steps.get(members, 0) + 1
        mine = {"what": what, "at": str(user_source() or ""), **about}
        prefix = f"steps/{'-'.join(map(str, members))}"
        found = self.exchange(f"{prefix}/{number}", json.dumps(mine), members, f"step {number}: {what}")
        for key in self.read.get(members, ()):  # who has come here has read what was before
            self.store.key_value_delete(f"{key}/{runtime.process_index}")
        self.read[members] = [f"{prefix}/{number}"]
        told = {m: json.loads(found[m]) for m in members}
        differing = [k for k in mine if k != "at" and any(t.get(k) != mine[k] for t in told.values())]
        if differing:
            raise ProcessMismatchError(_difference(number, told, differing), SAME)
        return number

    def agree(self, what: str, about: dict[str, str], members: tuple[int, ...]) -> str:
        """A step that is taken once for all that is equal to it; gives its fingerprint."""
        name = digest(what, json.dumps(about), str(members))
        if name not in self.agreed:
            self.step(what, about, members)
            self.agreed.add(name)
        return name

    # ------------------------------------------------------------ calls

    def counted(
        self, run: Callable[..., Any], name: str, mark: str, members: tuple[int, ...], own: Callable[..., Any]
    ) -> Callable[..., Any]:
        """A runner of a multi-process program that counts its calls and watches them while they run.

        Before the first call, process-local arguments, as described by `own`, are compared across processes.
        """
        key = f"arguments of {mark}"

        def call(*given: Any) -> Any:
            self.check_fault()
            if key not in self.agreed:
                self.agreed.add(key)
                if about := own(given):
                    self.step(f"the first call of {name}", about, members)
            self.calls += 1
            self.called = name
            self._note(members, mark)
            with self.waiting(f"call {self.calls} of {name}") as doing:
                out = run(*given)
            first = next((x for x in leaves(out) if hasattr(x, "is_ready")), None)
            if first is not None:
                self.result = Result(weakref.ref(first), doing)
            return out

        return call

    def _note(self, members: tuple[int, ...], mark: str) -> None:
        number, before = self.orders.get(members, (0, ""))
        number, after = number + 1, digest(before, mark)[:16]
        self.orders[members] = number, after
        if number % ORDER_EVERY == 0:
            self.marks.append((members, number, after))
            del self.marks[:-64]  # where nobody takes them


group: Group = runtime.part("processes", Group())


def _difference(number: int, told: dict[int, dict[str, str]], differing: Sequence[str]) -> str:
    """The text of a mismatch: each process, or each set of those that say the same, with what differs."""
    same: dict[str, list[int]] = {}
    for process, said in told.items():
        details = "; ".join(f"{k}: {str(said.get(k))[:SHOWN]}" for k in differing if k != "what")
        text = f"{said['what']}, at {said['at']}" + (f" ({details})" if details else "")
        same.setdefault(text, []).append(process)
    lines = (f"\n    process {', '.join(map(str, ps))}: {text}" for text, ps in same.items())
    return f"the processes differ in collective step {number}:{''.join(lines)}"


def line_of(thread: int | None) -> str:
    """The line of the user's code that a thread is at."""
    frame = sys._current_frames().get(thread or 0)
    while frame is not None and is_internal(frame.f_code):
        frame = frame.f_back
    return "an unknown line" if frame is None else str(Source(frame.f_code, frame.f_lasti))


@cached(4096)
def members_of(devices: tuple[Any, ...]) -> tuple[int, ...]:
    """The processes that some devices belong to, in order."""
    return tuple(sorted({d.process_index for d in devices}))


def processes_of(devices: Sequence[Any] | None) -> tuple[int, ...]:
    """The processes that a program over some devices belongs to, none where it is of this process alone."""
    if runtime.process_count == 1 or devices is None:
        return ()
    found = members_of(tuple(devices))
    return found if len(found) > 1 else ()
