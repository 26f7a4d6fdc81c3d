"""Preemption: after a notice to one process (SIGTERM) all processes save a checkpoint at one step."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, Any

from ..core.support.runtime import runtime
from ..xla_backend.devices.coordination import group

if TYPE_CHECKING:
    from threading import Condition


class Notice:
    """The notice of preemption, and the step at which all processes save.

    When the coordinator passes a notice on, the thread of each process that answers it reports the last step of its
    process, which begins no other until the coordinator has answered with the step after the last of all. The main
    threads need not come to it for that: they may wait for each other in compiled code.
    """

    def __init__(self) -> None:
        self.watching = self.came = False  # `came`: to this process, by a signal
        self.changed: Condition = threading.Condition()
        self.last = -1
        self.reported = False
        self.sync: int | None = None

    def watch(self) -> None:
        """Take the next SIGTERM as the notice; the one after it ends the process as before."""
        self.watching: bool = True
        if threading.current_thread() is not threading.main_thread():
            return  # signals are the main thread's

        def noticed(number: int, frame: Any) -> None:
            self.came = True
            signal.signal(signal.SIGTERM, before)

        before = signal.signal(signal.SIGTERM, noticed) or signal.SIG_DFL

    def report(self) -> int:
        """The last step of this process, which begins no other until `settle`."""
        with self.changed:
            self.reported: bool = True
            return self.last

    def settle(self, sync: int) -> None:
        """Let this process go on, up to the step at which all save."""
        with self.changed:
            self.sync = sync
            self.changed.notify_all()

    def begin(self, step: int) -> bool:
        """Begin a step; whether it is the one at which all save."""
        if runtime.process_count == 1 and self.came and self.sync is None:
            self.sync = step + 1
        with self.changed:
            if self.reported and self.sync is None:
                with group.waiting("reached_preemption_sync_point"):
                    while self.sync is None:
                        group.check_fault()
                        self.changed.wait(0.2)
            self.last: int = step
            return step == self.sync


notice: Notice = runtime.part("preemption", Notice())


def reached_preemption_sync_point(step_id: int) -> bool:
    """Whether all processes are to save a checkpoint at this step, since one of them will be preempted.

    Every process calls it at each step of a loop. After the first call the next SIGTERM to a process, or to `tilewright
    launch --grace SECONDS`, is a notice and does not end the process: all agree on the step after the last one that any
    of them has begun. In a single process that is the step after the notice.

    >>> reached_preemption_sync_point(1)
    False
    """
    if not notice.watching:
        notice.watch()
    return notice.begin(step_id)
