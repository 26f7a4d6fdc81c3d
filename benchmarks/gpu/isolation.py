"""The benchmarks' cases on a GPU in a process of their own: a case that hangs it, or ends it, is one that fails.

A kernel that waits for what never comes, or writes where it must not, leaves its process without a GPU. So the process
that measures (`serve`) is asked for one case after the other; where it does not answer, or has lost its GPU, the next
case is asked of a new one. Lines of JSON go both ways.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

LONGEST = 120.0  # seconds that one case may take, its compilers' time included


class Apart:
    """The processes of a command that serves; the answers to its questions.

    Raises:
      RuntimeError: there was no answer in time, or the process ended.
    """

    def __init__(self, command: Sequence[str], seconds: float = LONGEST):
        self.command, self.seconds = list(command), seconds
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> dict[str, Any]:
        """Begin a process; what it tells first."""
        self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self.answer()

    def ask(self, question: Any) -> dict[str, Any]:
        """The answer to a question; a process is begun where there is none."""
        if self.process is None and "error" in (started := self.start()):
            return started
        assert self.process is not None and self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(question) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # the process has ended, as `answer` says
        return self.answer()

    def answer(self) -> dict[str, Any]:
        assert self.process is not None and self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], self.seconds)
        line = self.process.stdout.readline() if ready else ""
        found = json.loads(line) if line else {}
        if found and not found.get("lost"):
            return found
        code = self.end(kill=not ready)
        if not found:
            how = f"ended with {code}" if ready else f"gave no answer in {self.seconds:.0f} s"
            raise RuntimeError(f"the process that measured it {how}")
        return found

    def end(self, kill: bool = False) -> int:
        """End the process; its exit code."""
        process, self.process = self.process, None
        if process is None:
            return 0
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        if kill:
            process.kill()
        try:
            return process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait()


def serve(prepare: Callable[[], tuple[dict[str, Any], Callable[[Any], dict[str, Any]]]]) -> None:
    """Tell what `prepare` gives first, then answer each question by what it gives next, until the GPU is lost."""
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def tell(found: dict[str, Any]) -> bool:
        told.write(json.dumps(found) + "\n")
        told.flush()
        return not found.get("lost")

    first, answer = prepare()
    if tell(first):
        for line in sys.stdin:
            if not tell(answer(json.loads(line))):
                return
