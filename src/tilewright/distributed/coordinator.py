"""The coordinator: where processes meet, and what tells each of them when another is gone, stalls or does other things.

It is in a thread of process 0, or of `tilewright launch`, which no death of a process takes along. First it listens at
the coordinator's address itself. When all processes have come, and are of one version, it gives the address to XLA's
coordination service and tells them to begin; the connections stay, so that the end of one is noticed at once.

Anyone may connect to the port until then. A process is taken in only with the coordinator's token, and whatever is no
message of `protocol` costs its sender the connection, and nothing else.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..xla_backend.jaxlib import shim
from . import protocol
from .channel import Channel

if TYPE_CHECKING:
    from selectors import DefaultSelector
    from threading import Event, Thread


ANSWERS = 2.0  # seconds in which processes say where they are
CLOSING = 5.0  # seconds in which processes that are done close their connections
TICK = 0.2
JOINING = 10.0  # seconds that a connection has to join
MOST_WAITING = 512  # connections that have not joined; the one that waits for longest makes room
EVERY_INTERFACE = ("", "0.0.0.0", "::")
HOSTS_FILE = "127.0.1.1"  # which Debian writes there for the machine's own name


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens at an address of this machine: that of the host alone, unless it names every interface.

    Every interface are "", "0.0.0.0" and "::". So is a name that only this machine takes for itself (127.0.1.1 in its
    file of hosts), since others reach it elsewhere.

    Raises:
      OSError: the host is unknown, no address of this machine, or its port is in use.
    """
    name = host.strip("[]")
    if name in EVERY_INTERFACE:
        return _everywhere(port) if name != "0.0.0.0" else _at(socket.AF_INET, name, port)
    found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, address = min(((f, str(a[0])) for f, _, _, _, a in found), key=lambda pair: pair[0] != socket.AF_INET)
    if address == HOSTS_FILE and name != address:
        return _everywhere(port)
    return _at(family, address, port)


def _at(family: int, address: str, port: int) -> socket.socket:
    return socket.create_server((address, port), family=family, backlog=1024)


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024)
    return _at(socket.AF_INET, "", port)


class Report:
    """A question to every process where it is, and the answers so far."""

    number: int
    asker: int
    what: str
    seconds: float
    last: bool
    ended: set[int]
    count: int

    def __init__(self, number: int, asker: int, what: str, seconds: float, last: bool, ended: set[int], count: int):
        self.number, self.asker, self.what, self.seconds, self.last = number, asker, what, seconds, last
        self.ended, self.count = ended.copy(), count
        self.until: float = time.monotonic() + ANSWERS
        self.answers: dict[int, dict[str, Any]] = {}

    def complete(self) -> bool:
        """Whether there is nothing more to wait for."""
        return len(self.answers) == self.count - len(self.ended) or time.monotonic() > self.until

    def head(self) -> str:
        return f"process {self.asker} has waited {self.seconds:.0f} s in {self.what}"

    def text(self) -> str:
        every = "\n".join(f"  process {p}: {self._of(p)}" for p in range(self.count))
        return f"{self.head()}. The processes are:\n{every}\n  {self.culprit()}"

    def _of(self, process: int) -> str:
        a = self.answers.get(process)
        if process in self.ended:
            return "has ended"
        if a is None:
            return "does not answer: it is in code that holds Python's lock, or stopped"
        if a["waits"]:
            return f"for {a['seconds']:.0f} s in {a['waits']}, at {a['line']}"
        return f"not waiting, after call {a['calls']}{' of ' + a['last'] if a['last'] else ''}, at {a['line']}"

    def culprit(self) -> str:
        """For whom the others wait, as far as the answers tell."""
        late = [p for p in range(self.count) if p not in self.answers or not self.answers[p]["waits"]]
        if late:
            return f"the others wait for process {', '.join(map(str, late))}"
        waits: dict[str, list[int]] = {}
        for p, a in sorted(self.answers.items()):
            waits.setdefault(a["waits"], []).append(p)
        if len(waits) == 1:
            return "all wait in the same: it takes long, or its exchange is stuck"
        which = "; ".join(f"process {', '.join(map(str, ps))} in {what}" for what, ps in waits.items())
        return f"they wait in different things: {which}"


class Coordinator:
    """The coordinator of `count` processes at an address; its port is chosen by the system where 0 is given.

    `say` prints a report; `lost` is told of a process that went without a word, and why. `token` is asked of each.
    """

    count: int
    timeout: int
    token: str
    interface: Any
    port: Any
    preempted: Event
    reports: int

    def __init__(
        self, count: int, host: str, port: int, say: Callable[[str], None] | None = None,
        lost: Callable[[int, str], None] | None = None, timeout: int = 300, token: str = "",
    ):  # fmt: skip
        self.count, self.timeout, self.token = count, timeout, token
        self.say: Callable[..., None] = say or _to_stderr
        self.lost: Callable[..., None] = lost or self._end_others
        self.listener: socket.socket | None = listening(host, port)
        bound = self.listener.getsockname()
        self.interface, self.port = f"[{bound[0]}]" if ":" in bound[0] else bound[0], bound[1]
        self.service: Any = None
        self.fault: Exception | None = None  # what ended the thread, which nothing should
        self.waiting: dict[Channel, float] = {}  # connected and not joined yet, the earliest first, and since when
        self.members: dict[int, Channel] = {}
        self.joined: dict[int, dict[str, Any]] = {}
        self.gone: set[int] = set()
        self.ended: set[int] = set()  # of which whoever started them knows that they have ended
        self.deadline: float | None = None
        self.report: Report | None = None
        self.reports = 0
        self.marks: dict[tuple[str, int], tuple[str, int]] = {}
        self.places: dict[int, dict[str, Any]] = {}
        self.mismatch = ""
        self.preempted, self.noticed = threading.Event(), False
        self.steps: dict[int, int] = {}  # the last step of each process at a notice of preemption
        self.selector: DefaultSelector = selectors.DefaultSelector()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.stopping: Event = threading.Event()
        self.thread: Thread = threading.Thread(target=self._run, name="tilewright coordinator", daemon=True)
        self.thread.start()

    def close(self) -> None:
        """End: wait until the processes that said goodbye have closed their connections, then stop the service."""
        limit = time.monotonic() + CLOSING
        while self.service is not None and self.members and time.monotonic() < limit:
            time.sleep(0.01)
        self.stopping.set()
        self.thread.join(5.0)
        if self.service is not None:
            self.service.shutdown()
            self.service = None

    def preempt(self) -> None:
        """Give all processes notice that they will be preempted."""
        self.preempted.set()

    # ------------------------------------------------------------ the thread

    def _run(self) -> None:
        try:
            self._serve()
        except Exception as error:
            self.fault = error
            _to_stderr(f"the coordinator ended with {type(error).__name__}: {error}")
            self._tell(end=f"the coordinator ended with {type(error).__name__}")
            raise

    def _serve(self) -> None:
        while not self.stopping.is_set():
            for key, _ in self.selector.select(TICK):
                if key.fileobj is self.listener:
                    self._accept()
                else:
                    self._read(key.fileobj)
            self._tick()
        for channel in (*self.waiting, *self.members.values()):
            channel.close()
        if self.listener is not None:
            self.listener.close()
        self.selector.close()

    def _accept(self) -> None:
        assert self.listener is not None
        while len(self.waiting) >= MOST_WAITING:
            self._drop(next(iter(self.waiting)))
        try:
            connection, _ = self.listener.accept()
        except OSError:  # it is gone again, or this process has no file descriptors left
            time.sleep(0.01)
            return
        channel = Channel(connection, kinds=protocol.FROM_PROCESS, longest=protocol.LONGEST_JOIN)
        self.waiting[channel] = time.monotonic()
        self.selector.register(channel, selectors.EVENT_READ)

    def _drop(self, channel: Channel) -> None:
        self.waiting.pop(channel, None)
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(channel)
        channel.close()

    def _read(self, channel: Any) -> None:
        if channel.fileno() < 0:  # dropped by what came before it
            return
        process = next((p for p, c in self.members.items() if c is channel), None)
        try:
            for message in channel.receive():
                if process is None:
                    process = self._join(channel, message)
                    if process is None:
                        return self._drop(channel)
                else:
                    self._take(process, message)
        except Exception as error:  # of its sender alone, whatever it is
            self._drop(channel)
            if process is not None and self.members.pop(process, None) is not None:
                self._left(process, f"died without a word ({error})")

    # ------------------------------------------------------------ meeting

    def _join(self, channel: Channel, message: dict[str, Any]) -> int | None:
        """Take a process in; gives its number, None where it is refused."""
        process = message.get("join")
        if process is None:
            return None
        if not protocol.same_token(message["token"], self.token):
            channel.send(kind="absent", refused="it does not have the token of the coordinator: set the same "
                                                f"{protocol.TOKEN} for every process, or for none")  # fmt: skip
            return None
        other = self.joined.get(process)
        if other is not None:
            channel.send(kind="taken", refused=f"process {process} is there already: process id {other['pid']} on "
                                               f"{other['host']}")  # fmt: skip
            return None
        if process >= self.count or message["count"] != self.count:
            channel.send(kind="taken", refused=f"process {process} of {message['count']} came to a coordinator of "
                                               f"{self.count} processes")  # fmt: skip
            return None
        self.waiting.pop(channel, None)
        channel.longest = protocol.LONGEST
        channel.keep_alive(message["alive"])
        self.members[process], self.joined[process] = channel, message
        if self.deadline is None:
            self.deadline = time.monotonic() + message["timeout"]
        if len(self.joined) == self.count:
            self._begin()
        return process

    def _begin(self) -> None:
        versions = {p: str(m["versions"]) for p, m in sorted(self.joined.items())}
        if len(set(versions.values())) > 1:
            each = "; ".join(f"process {p}: {v}" for p, v in versions.items())
            return self._refuse("mismatch", f"the processes are of different versions: {each}")
        assert self.listener is not None
        self.selector.unregister(self.listener)
        self.listener.close()
        self.listener, self.deadline = None, None
        where = f"{self.interface}:{self.port}"
        try:
            self.service = shim.coordination_service(where, self.count, self.timeout)
        except shim.RuntimeFault as error:
            return self._refuse("absent", f"XLA's coordination service could not begin at {where}: {error}")
        for channel in self.members.values():
            channel.send(start=True)

    def _refuse(self, kind: str, text: str) -> None:
        for process, channel in self.members.items():
            channel.send(kind=kind, refused=text)
            self.gone.add(process)
        self.deadline = None

    def _tick(self) -> None:
        now = time.monotonic()
        for channel in [c for c, since in self.waiting.items() if now - since > JOINING]:
            self._drop(channel)
        if self.deadline is not None and now > self.deadline:
            missing = [p for p in range(self.count) if p not in self.joined]
            self._refuse("absent", f"process {', '.join(map(str, missing))} of {self.count} did not come in time")
        early = sorted(self.ended.difference(self.joined))
        if self.deadline is not None and early:
            self._refuse("absent", f"process {early[0]} of {self.count} ended without `distributed.initialize`")
        if self.preempted.is_set() and not self.noticed:
            self.noticed: bool = True
            self._tell(preempted=True)
        report = self.report
        if report is not None and report.complete():
            self.report = None
            self.say(report.text())
            if report.last:
                self._tell(end=f"{report.head()}, which is more than the setting stall_limit; {report.culprit()}")

    # ------------------------------------------------------------ while they compute

    def _take(self, process: int, message: dict[str, Any]) -> None:
        if "bye" in message:
            self.gone.add(process)
            if len(self.gone) == self.count:
                for channel in self.members.values():
                    channel.send(done=True)
        elif "preempted" in message:
            self.preempted.set()
        elif "step" in message:
            self.steps[process] = message["step"]
            if self.steps.keys() >= self.members.keys() - self.gone:
                self._tell(save=max(self.steps.values()) + 1)
        elif "failed" in message:
            self._left(process, f"ended with {message['failed']}")
        elif "stalled" in message and self.report is None:
            self.reports += 1
            what, seconds, last = message["stalled"], message["seconds"], message["last"]
            self.report = Report(self.reports, process, what, seconds, last, self.gone, self.count)
            self._tell(where=self.reports)
        elif "here" in message and self.report is not None and message["here"] == self.report.number:
            self.report.answers[process] = message
        elif "at" in message:
            self._place(process, message)
        for members, number, mark in message.get("marks", ()):
            self._compare(process, members, number, mark)

    def _tell(self, **message: Any) -> None:
        for process, channel in self.members.items():
            if process not in self.gone:
                channel.send(**message)

    def _compare(self, process: int, members: str, number: int, mark: str) -> None:
        """Hold the order of the calls so far of a process against that of another."""
        before, other = self.marks.setdefault((members, number), (mark, process))
        while len(self.marks) > 4096:
            del self.marks[next(iter(self.marks))]
        if before != mark:
            self._mismatch(f"up to call {number}, processes {other} and {process} "
                           "called their programs in different orders")  # fmt: skip

    def _place(self, process: int, message: dict[str, Any]) -> None:
        """Hold how far a process is against how far others were: one has to have done all that the other has."""
        for other, m in self.places.items():
            ahead = message["steps"] - m["steps"], message["calls"] - m["calls"]
            if m["at"] == message["at"] and min(ahead) < 0 < max(ahead):
                each = (f"process {p} is in {a['what']}, at {a['line']}" for p, a in ((other, m), (process, message)))
                self._mismatch(f"the processes do not do the same in the same order: {'; '.join(each)}")
        self.places[process] = message

    def _mismatch(self, text: str) -> None:
        if not self.mismatch:
            self.mismatch: str = text
            self._tell(mismatch=text)

    def _left(self, process: int, how: str) -> None:
        if process not in self.gone:
            self.gone.add(process)
            self.lost(process, how)

    def _end_others(self, process: int, how: str) -> None:
        m = self.joined[process]
        self._tell(end=f"process {process} of {self.count} (process id {m['pid']} on {m['host']}) {how}")


def _to_stderr(text: str) -> None:
    print(f"tilewright: {text}", file=sys.stderr, flush=True)
