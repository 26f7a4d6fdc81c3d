"""A process's end of the connection to the coordinator: a thread that answers, watches for stalls, ends the process.

Most of the time the main thread of a process that waits for another is in compiled code, where no exception reaches it.
So when the coordinator says that it is in vain, or is gone itself, the thread says why and ends the process.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, NoReturn

from ..core.support.config import current
from ..core.support.errors import CoordinatorError, ProcessError, ProcessMismatchError
from ..xla_backend.devices.coordination import Group
from .channel import Channel, GoneError
from .preemption import notice
from .protocol import MOST_MARKS, TEXT

if TYPE_CHECKING:
    from threading import Event, Thread


TICK = 0.25
SOON = 1.0  # seconds of waiting after which the coordinator is told where this process is
RAISING = 2.0  # seconds in which the main thread may raise an error itself, before the process is ended
PATIENCE = 5.0  # seconds that the coordinator has to answer, beyond what it was given
STATUS = 70  # of a process that was ended for another's sake
KINDS: dict[str, type[ProcessError]] = {"mismatch": ProcessMismatchError}


class Member:
    """This process, number `index` of `count`, at the coordinator `address`, with its `token`.

    Raises:
      CoordinatorError: it is not reached in time, or not all processes come to it in time.
      ProcessMismatchError: processes of different versions.
    """

    group: Group
    address: str
    index: int
    count: int
    fault_until: float
    told: float

    def __init__(
        self, group: Group, address: str, index: int, count: int, versions: Any, timeout: int, alive: int,
        token: str = "",
    ):  # fmt: skip
        self.group, self.address, self.index, self.count = group, address, index, count
        self.leaving = False
        self.done: Event = threading.Event()  # all processes have said goodbye
        self.told = self.fault_until = 0.0
        self.noticed = False  # whether the coordinator knows of a notice of preemption to this process
        self.asked: tuple[float, float] | None = None  # when the wait began that was reported, and when it was last
        limit = time.monotonic() + timeout
        self.channel: Channel = Channel(_connected(address, limit, index, count), alive)
        self.channel.send(join=index, count=count, versions=versions, timeout=timeout, alive=alive,
                          pid=os.getpid(), host=socket.gethostname()[:255], token=token)  # fmt: skip
        try:
            self._wait_for_start(limit + PATIENCE)
        except ProcessError:
            self.channel.close()
            raise
        self.thread: Thread = threading.Thread(target=self._run, name="tilewright member", daemon=True)

    def _wait_for_start(self, limit: float) -> None:
        try:
            while time.monotonic() < limit:
                for message in self.channel.receive(TICK):
                    if "start" in message:
                        return
                    why = message.get("refused") or message.get("end")
                    if why:
                        raise KINDS.get(message.get("kind", ""), CoordinatorError)(
                            f"process {self.index} of {self.count} cannot begin: {why}",
                            "start every process, with the same version, count and coordinator_address, and each with "
                            "a process_id of its own; initialization_timeout says how long to wait")  # fmt: skip
        except GoneError as error:
            raise CoordinatorError(
                f"the coordinator at {self.address} ended the connection of process {self.index} ({error})",
                "it may have begun without this process, or be of another kind; look at the output of process 0",
            ) from None
        raise CoordinatorError(f"the coordinator at {self.address} did not answer process {self.index} in time",
                               "look at the output of process 0")  # fmt: skip

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        while not self.leaving:
            try:
                for message in self.channel.receive(TICK):
                    self._take(message)
            except GoneError:
                if not self.leaving:
                    self._end(f"the coordinator at {self.address} is gone")
                return
            self._watch()

    def _take(self, message: dict[str, Any]) -> None:
        if "where" in message:
            self.channel.send(here=message["where"], **{k: _short(v) for k, v in self.group.where().items()})
        elif "mismatch" in message:
            self.group.fault, self.fault_until = message["mismatch"], time.monotonic() + RAISING
        elif "preempted" in message:
            self.channel.send(step=notice.report())
        elif "save" in message:
            notice.settle(message["save"])
        elif "done" in message:
            self.done.set()
        elif "end" in message:
            self._end(message["end"])

    def _watch(self) -> None:
        """Tell the coordinator of the order of calls, and of a wait that has become too long."""
        marks, self.group.marks = self.group.marks, []
        if marks:
            for first in range(0, len(marks), MOST_MARKS):
                part = marks[first : first + MOST_MARKS]
                self.channel.send(marks=[(_name(m), number, mark) for m, number, mark in part])
        if notice.came and not self.noticed:
            self.noticed: bool = True
            self.channel.send(preempted=True)
        settings, doing, now = current(), self.group.longest(), time.monotonic()
        if doing is None:
            self.asked = None
            return
        if self.group.fault is not None and now > self.fault_until:  # in code that no exception gets to
            self._end(self.group.fault)
        if now - doing.since > SOON and self.told != doing.since:
            self.told, here = doing.since, self.group.where()
            for members, steps, calls in self.group.positions():
                self.channel.send(at=_name(members), steps=steps, calls=calls, what=_short(doing.what),
                                  line=_short(here["line"]))  # fmt: skip
        waited, last = now - doing.since, self.asked[1] if self.asked and self.asked[0] == doing.since else doing.since
        over = bool(settings.stall_limit) and waited > settings.stall_limit
        if over and waited > settings.stall_limit + PATIENCE:
            self._end(f"process {self.index} has waited {waited:.0f} s in {doing.what}, and the coordinator does not "
                      "answer either")  # fmt: skip
        if over or settings.stall_seconds and now - last > settings.stall_seconds:
            self.asked = doing.since, now
            self.channel.send(stalled=_short(doing.what), seconds=waited, last=over)

    def _end(self, why: str) -> NoReturn:
        text = f"tilewright: process {self.index} of {self.count} was ended: {why}"
        for stream, last in ((sys.stdout, ""), (sys.stderr, text + "\n")):
            with contextlib.suppress(OSError, ValueError, AttributeError):  # closed, or nobody reads it
                stream.write(last)
                stream.flush()
        os._exit(STATUS)

    # ------------------------------------------------------------ the end

    def leave(self, failure: str | None, timeout: float) -> bool:
        """Say goodbye and wait until all others have, or say that this process fails; gives whether all are done."""
        if failure is None:
            self.channel.send(bye=True)
            with self.group.waiting("the end of its program, for that of the others"):
                self.done.wait(timeout)
        else:
            self.channel.send(failed=_short(failure))
        self.leaving: bool = True
        self.thread.join(2 * TICK)
        return self.done.is_set()


def _name(members: tuple[int, ...]) -> str:
    """A name of bounded length for a set of processes."""
    text = "-".join(map(str, members))
    return text if len(text) <= 256 else hashlib.sha256(text.encode()).hexdigest()


def _short(value: Any) -> Any:
    return value[:TEXT] if isinstance(value, str) else value


def _connected(address: str, limit: float, index: int, count: int) -> socket.socket:
    """A connection to an address, tried until it is there."""
    host, _, port = address.rpartition(":")
    while True:
        try:
            return socket.create_connection((host.strip("[]"), int(port)), timeout=max(0.1, limit - time.monotonic()))
        except OSError as error:
            if time.monotonic() > limit:
                raise CoordinatorError(
                    f"process {index} of {count} cannot reach the coordinator at {address}: {error}",
                    "is process 0 running, and its address and port open to this machine?",
                ) from None
            time.sleep(0.1)
