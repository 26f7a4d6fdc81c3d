"""A pool of compiler processes whose results are cached in memory and on disk.

A compiler that ends its process on bad input ends only a worker. A worker (`worker_main.py`) asks a script for its
answers; one with "error" says what the compiler refused. Workers are started when first needed, and kept for the next
request.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...core.support import forks
from ...core.support.runtime import runtime
from .packages import Packages

if TYPE_CHECKING:
    from re import Pattern

    from ...core.support.runtime import Table


CACHE_VERSION = "2"  # incremented when the meaning of cached answers changes
SECONDS = 600.0  # the longest that one request may take
KEPT = 4096  # answers kept in memory
SERVE = Path(__file__).with_name("worker_main.py")
Answer = dict[str, Any]


class Workers:
    """A pool of processes of one compiler.

    `name` is the compiler's name in errors. Answers depend on the request, `version` and the versions of `packages`,
    which are checked first. Of an error's text the first lines that match `pattern` are shown, or else its first two.
    """

    name: str
    version: str
    script: Path
    packages: Packages | None
    pattern: Pattern[str]
    seconds: float
    lock: threading.Lock

    def __init__(
        self, name: str, script: Path, packages: Packages | None = None, environment: Mapping[str, str] | None = None,
        pattern: str = "", seconds: float = SECONDS, version: str = CACHE_VERSION,
    ):  # fmt: skip
        self.name, self.version, self.script, self.packages = name, version, script, packages
        self.pattern, self.seconds = re.compile(pattern), seconds
        self.environment: dict[str, str] = {**(environment or {}), "PYTHONUNBUFFERED": "1"}
        self.cache: Callable[[], Any] = lambda: None
        self.known: Table = runtime.cache(f"answers of {name}", KEPT)
        self.idle: list[_Worker] = []
        self.lock = threading.Lock()
        self.threads: ThreadPoolExecutor | None = None
        forks.at_exit(self.end)
        forks.in_child(self._forget)

    def _forget(self) -> None:
        """In a forked child: leave the parent's processes and threads to it."""
        for worker in self.idle:
            worker.process.returncode = 0  # so that nothing here waits for it
        self.idle, self.lock, self.threads = [], threading.Lock(), None

    def set_cache(self, cache: Callable[[], Any]) -> None:
        """Set what gives the disk cache: None, or an object with `load(name)` and `store(name, bytes)`.

        It is called on the thread of each request, so it may depend on that thread's settings.
        """
        self.cache = cache

    def start(self, request: Mapping[str, Any], group: str = "") -> Future[Answer]:
        """Start a request, unless it is answered or running; a process serves requests of one `group` only.

        Raises:
          VersionError: a package is missing or has an unsupported version.
        """
        versions = ""
        if self.packages is not None:
            self.packages.check()
            versions = str(self.packages.versions())
        line = json.dumps(request, sort_keys=True)
        key = hashlib.sha256(f"{self.version} {versions} {line}".encode()).hexdigest()
        with self.lock:
            found = self.known.touch(key)
            if found is None:
                if self.threads is None:
                    self.threads = ThreadPoolExecutor(min(os.cpu_count() or 1, 8), "tilewright-worker")
                found = self.known.keep(key, self.threads.submit(self._answer, key, line, group, self.cache()))
        return found

    def _answer(self, key: str, line: str, group: str, cache: Any) -> Answer:
        data = None if cache is None else cache.load(key)
        if data is not None:
            return json.loads(data)
        answer = self._ask(line, group)
        if cache is not None and "error" not in answer:
            cache.store(key, json.dumps(answer).encode())
        return answer

    def _ask(self, line: str, group: str) -> Answer:
        with self.lock:
            worker = next((w for w in reversed(self.idle) if w.group == group), None)
            if worker is not None:
                self.idle.remove(worker)
        worker = worker or _Worker(self, group)
        answer = worker.ask(line)
        if worker.alive():
            with self.lock:
                self.idle.append(worker)
        else:
            worker.end()
        return answer

    def end(self) -> None:
        """End the processes that wait for a request."""
        with self.lock:
            workers = self.idle[:]
            self.idle.clear()
        for worker in workers:
            worker.end()


class _Worker:
    """One process of a compiler."""

    def __init__(self, pool: Workers, group: str):
        self.pool, self.group = pool, group
        self.log = tempfile.TemporaryFile("a+b")
        # -P: the folder of the script may hold modules that must not be found by their bare names.
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(SERVE), str(pool.script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=self.log, text=True, env={**os.environ, **pool.environment},
        )  # fmt: skip

    def ask(self, line: str) -> Answer:
        """The answer to a request; where the process ends instead, an error that says how."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.log.truncate(0)
        watch = threading.Timer(self.pool.seconds, self.process.kill)
        watch.start()
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except OSError:
            answer = ""
        finally:
            late = not watch.is_alive()
            watch.cancel()
        if not answer:
            code = self.process.wait()
            how = f"was stopped after {self.pool.seconds:.0f} s" if late else f"ended with {_exit(code)}"
            return {"error": f"{self.pool.name} {how}{_tail(self.printed())}"}
        found = json.loads(answer)
        if "error" in found:
            lines = [line.strip() for line in found["error"].splitlines() if line.strip()]
            shown = "; ".join([line for line in lines if self.pool.pattern.search(line)][:3] or lines[:2])
            found["error"] = f"{self.pool.name} refused it: {shown}{_tail(self.printed())}"
        return found

    def printed(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")

    def alive(self) -> bool:
        return self.process.poll() is None

    def end(self) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        for pipe in (self.process.stdin, self.process.stdout):
            try:
                pipe.close()
            except OSError:
                pass
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def _exit(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"


def _tail(printed: str) -> str:
    """The diagnostics among what the compiler printed, else its last lines."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    said = [line[line.index("error:") :] for line in lines if "error:" in line]
    shown = said[:3] or [line for line in lines if "LLVM ERROR" in line or "Assertion" in line][:3] or lines[-3:]
    return "".join(f"\n    {line[:300]}" for line in shown)
