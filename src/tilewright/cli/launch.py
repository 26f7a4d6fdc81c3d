"""`tilewright launch`: several processes of one script on this machine; when one dies, the rest is stopped."""

from __future__ import annotations

import argparse
import os
import queue
import re
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TextIO

from ..distributed.coordinator import Coordinator
from ..distributed.protocol import TOKEN

if TYPE_CHECKING:
    from subprocess import Popen
    from threading import Thread


GRACE = 0.5  # seconds between SIGTERM and SIGKILL
RAISED = re.compile(r"[\w.]+(Error|Exception|Interrupt)\b")  # whose message may go on in indented lines
DRAIN = 0.2  # seconds to wait for what a dead process wrote, of which a child of its own may hold the pipe


class Process:
    """One of the processes: its number, its output line by line with the number before it, and its last line."""

    rank: int
    out: TextIO
    popen: Popen[bytes]

    def __init__(self, rank: int, command: Sequence[str], environment: dict[str, str], out: TextIO):
        self.rank, self.out, self.last = rank, out, ""
        self.popen = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.pump: Thread = threading.Thread(target=self._pump, daemon=True)
        self.pump.start()

    def _pump(self) -> None:
        assert self.popen.stdout is not None
        with self.popen.stdout as lines:
            for line in lines:
                text = line.decode(errors="replace").rstrip()
                if text and not (RAISED.match(self.last) and text[0] == " "):
                    self.last: Any = text
                self.out.write(f"[{self.rank}] {text}\n")
                self.out.flush()

    def wait(self, ended: queue.SimpleQueue[Process]) -> None:
        self.popen.wait()
        ended.put(self)

    def how(self) -> str:
        """How the process ended."""
        code = self.popen.returncode
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with status {code}"


def launch(
    command: Sequence[str], count: int, devices: int | None = None, out: TextIO | None = None,
    stall: int | None = None, stall_limit: int | None = None, grace: int = 0,
) -> int:  # fmt: skip
    """Run a command `count` times at once until all have ended, or one has failed; gives the status to exit with.

    Each process has `devices` virtual CPU devices, and finds in its environment what `distributed.initialize` takes;
    the coordinator is here. When one fails the others are stopped within a second. When one waits for others for
    `stall` seconds it is said where each of them is; after `stall_limit` seconds all are ended. None is as the settings
    `stall_seconds` and `stall_limit` say. A SIGTERM is a notice of preemption to all processes, which have `grace`
    seconds to save and end.

    >>> launch([sys.executable, "-c", "print('here')"], 1, out=sys.stdout)
    [0] here
    0
    """
    shown: TextIO = sys.stdout if out is None else out

    def say(text: str) -> None:
        shown.write("".join(f"tilewright launch: {line}\n" for line in text.splitlines()))
        shown.flush()

    token = secrets.token_hex(32)
    seen_here = lambda process, how: None  # noqa: E731 (deaths)
    coordinator = Coordinator(count, "127.0.0.1", 0, say, seen_here, token=token)
    shared = os.environ | {"PYTHONUNBUFFERED": "1", "TILEWRIGHT_NUM_PROCESSES": str(count), TOKEN: token,
                           "TILEWRIGHT_COORDINATOR": f"127.0.0.1:{coordinator.port}"}  # fmt: skip
    asked = {"NUM_CPU_DEVICES": devices, "STALL_SECONDS": stall, "STALL_LIMIT": stall_limit}
    shared |= {f"TILEWRIGHT_{name}": str(value) for name, value in asked.items() if value is not None}
    ended: queue.SimpleQueue[Process] = queue.SimpleQueue()
    running: set[Process] = set()
    if grace:
        _on_notice(coordinator.preempt, grace)
    try:
        for rank in range(count):
            process = Process(rank, command, shared | {"TILEWRIGHT_PROCESS_ID": str(rank)}, shown)
            running.add(process)
            threading.Thread(target=process.wait, args=(ended,), daemon=True).start()
        while running:
            process = ended.get()
            running.discard(process)
            process.pump.join(DRAIN)
            coordinator.ended.add(process.rank)
            if process.popen.returncode:
                stopped = ", ".join(str(p.rank) for p in sorted(running, key=lambda p: p.rank))
                _stop(running, ended)
                said = f"; its last line: {process.last}" if process.last else ", and wrote nothing"
                others = f"; stopped {stopped}" if stopped else ""
                say(f"process {process.rank} of {count} {process.how()}{others}{said}")
                code = process.popen.returncode
                return code if code > 0 else 128 - code
    finally:
        _stop(running, ended)
        coordinator.close()
    return 0


def _on_notice(preempt: Callable[[], None], grace: int) -> None:
    """Take the next SIGTERM as a notice of preemption: the end comes after `grace` seconds, or with the next one."""

    def noticed(number: int, frame: object) -> None:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGALRM, lambda *_: sys.exit(128 + signal.SIGTERM))
        signal.alarm(grace)
        preempt()

    before = signal.signal(signal.SIGTERM, noticed) or signal.SIG_DFL


def _stop(running: set[Process], ended: queue.SimpleQueue[Process]) -> None:
    """End processes: politely first, by force after a moment."""
    for process in running:
        process.popen.terminate()
    limit = time.monotonic() + GRACE
    try:
        while running:
            running.discard(ended.get(timeout=max(0.0, limit - time.monotonic())))
    except queue.Empty:
        for process in running:
            process.popen.kill()
            process.popen.wait()
        running.clear()


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is not a number of one or more")
    return int(text)


def _seconds(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} is not an integer number of seconds")
    return int(text)


def add_to(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command `launch`."""
    parser = commands.add_parser("launch", help="several processes of one script; when one dies, the rest is stopped")
    parser.add_argument("-n", type=_positive, required=True, metavar="COUNT", help="how many processes")
    parser.add_argument("--devices", type=_positive, help="virtual CPU devices of each process")
    parser.add_argument("--stall", type=_seconds, metavar="SECONDS",
                        help="of waiting, after which each process's location is reported (60; 0: never)")  # fmt: skip
    parser.add_argument("--stall-limit", type=_seconds, metavar="SECONDS",
                        help="of waiting, after which all processes are ended (0: never)")  # fmt: skip
    parser.add_argument("--grace", type=_seconds, metavar="SECONDS", default=0,
                        help="after a SIGTERM, in which the processes may save a checkpoint and end (0)")  # fmt: skip
    parser.add_argument("script", help="a file of Python")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what the script is given")


def run(options: argparse.Namespace) -> int:
    """Run the command `launch`; the processes end with it when it is interrupted or asked to end."""

    def asked(number: int, _: object) -> None:
        sys.exit(128 + number)

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        command = [sys.executable, options.script, *options.arguments]
        return launch(command, options.n, options.devices, stall=options.stall, stall_limit=options.stall_limit,
                      grace=options.grace)  # fmt: skip
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
