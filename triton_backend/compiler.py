"""From the text of a Triton program to machine code, in processes of their own, several at a time.

Triton's compiler ends its process on some bad input, so it runs in workers (`worker.py`) that are started when first
needed and kept for the next kernel. Results are kept in memory, and on disk where a cache is handed in by `set_cache`.
"""

from __future__ import annotations

import atexit
import base64
import hashlib
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.caches import once
from ..core.errors import CompileError, ResourceError, Source, UnsupportedError, VersionError
from ..lang.target import Target
from .module import TritonModule

TRITON = "3.6.0"
CACHE_VERSION = "1"  # raised when the meaning of what is kept on disk changes
WORKERS = min(os.cpu_count() or 1, 8)
SECONDS = 600.0  # the longest that one kernel may take
KEPT = 4096
PIP = "pip install 'tilewright[cuda]'"


@dataclass(frozen=True)
class Compiled:
    """A Triton program as machine code.

    `binary` is a cubin or an hsaco, `assembly` its PTX or AMD GPU assembly. A program takes `shared` bytes of shared
    memory, `num_warps` warps and `scratch` bytes of global memory aligned to `scratch_align`. `log` is the assembler's
    account.
    """

    name: str
    target: str
    grid: tuple[int, int, int]
    binary: bytes
    assembly: str
    shared: int
    num_warps: int
    warp_size: int
    scratch: int
    scratch_align: int
    log: str

    @property
    def threads(self) -> int:
        """The threads of one program."""
        return self.num_warps * self.warp_size

    @property
    def programs(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def scratch_bytes(self) -> int:
        """The global memory that a launch needs besides its operands and results, one program's after the other's."""
        return self.scratch * self.programs


def installed() -> str | None:
    """The version of Triton that is installed, None if there is none."""
    if find_spec("triton") is None:
        return None
    try:
        return metadata.version("triton")
    except metadata.PackageNotFoundError:
        return None


def check_installed() -> None:
    """Raise a `VersionError` unless the pinned Triton is there."""
    found = installed()
    if found is None:
        raise VersionError("kernels for GPUs are compiled by Triton, which is not installed", PIP)
    if found.split("+")[0] != TRITON:
        raise VersionError(f"triton {found} is installed; tilewright works with {TRITON}",
                           f"pip install 'triton=={TRITON}'")  # fmt: skip


def architecture(machine: Target) -> dict[str, Any]:
    """A target in Triton's words.

    Raises:
      UnsupportedError: a target whose kernels Triton does not compile.
    """
    arch = machine.name.split(":")[1]  # what may follow is a board
    if machine.kind == "cuda" and arch.startswith("sm_"):
        return {"backend": "cuda", "arch": int(arch[3:].rstrip("a")), "warp_size": 32}
    if machine.kind == "rocm" and arch.startswith("gfx"):
        return {"backend": "hip", "arch": arch, "warp_size": 64 if arch.startswith("gfx9") else 32}
    raise UnsupportedError(f"Triton does not compile for {machine.name}", "a target of the family cuda or rocm")


def machine_code(module: TritonModule, machine: Target, source: Source | None = None) -> Compiled:
    """The machine code of a Triton program.

    Raises:
      VersionError: Triton is missing or of another version.
      ResourceError: a value in it has more elements than Triton takes.
      CompileError: Triton refused the program otherwise, or its process ended.
    """
    answer = start(module, machine).result()
    if "error" in answer:
        raise _refusal(f"kernel {module.name} for {machine.name}", answer["error"], source)
    known = answer["metadata"]
    return Compiled(
        module.name, machine.name, module.grid, base64.b64decode(answer["binary"]), answer["assembly"],
        known.get("shared", 0), known["num_warps"], known["warp_size"], known.get("global_scratch_size", 0),
        known.get("global_scratch_align", 1), answer["log"],
    )  # fmt: skip


_TOO_LARGE = re.compile(r"Maximum allowed number of elements is (\d+), but .*tensor<([\dx]+)x[^<>]*>+ has more than")


def _refusal(kernel: str, text: str, source: Source | None) -> CompileError | ResourceError:
    """The error for what Triton said of a kernel."""
    large = _TOO_LARGE.search(text)
    if large is not None:
        shape = tuple(map(int, large[2].split("x")))
        return ResourceError(
            f"{kernel} holds a value of {math.prod(shape):,} elements, {shape} (sizes are rounded up to powers of "
            f"two); Triton takes at most {int(large[1]):,}", "use smaller blocks, and more cells", source)  # fmt: skip
    return CompileError(
        f"{kernel}: {text}",
        "`compile(f, ..., target=..., stop='module')` shows the program; unless the kernel is at the limits of "
        "Triton, the fault is tilewright's", source)  # fmt: skip


# ---------------------------------------------------------------------------- what is known, and what is under way

_lock = threading.Lock()
_known: OrderedDict[str, Future[dict[str, Any]]] = OrderedDict()
_cache: Callable[[], Any] | None = None


def set_cache(cache: Callable[[], Any]) -> None:
    """Hand in what gives the disk cache: an object with `load(name)` and `store(name, bytes)`, or None."""
    global _cache
    _cache = cache


def start(module: TritonModule, machine: Target) -> Future[dict[str, Any]]:
    """Begin to compile a program, unless that is done or under way; the answer of the worker."""
    check_installed()
    options = {"num_warps": module.num_warps, "num_stages": module.num_stages}
    request = {"text": module.text, **architecture(machine), "options": options}
    line = json.dumps(request, sort_keys=True)
    name = hashlib.sha256(f"{CACHE_VERSION} {TRITON} {line}".encode()).hexdigest()
    with _lock:
        found = _known.get(name)
        if found is None:
            found = _known[name] = _threads().submit(_answer, name, line)
            while len(_known) > KEPT:
                _known.popitem(last=False)
        else:
            _known.move_to_end(name)
    return found


def _answer(name: str, line: str) -> dict[str, Any]:
    cache = None if _cache is None else _cache()
    data = None if cache is None else cache.load(name)
    if data is not None:
        return json.loads(data)
    answer = _ask(line)
    if cache is not None and "error" not in answer:
        cache.store(name, json.dumps(answer).encode())
    return answer


def clear() -> None:
    """Forget what is compiled in memory."""
    with _lock:
        _known.clear()


# ---------------------------------------------------------------------------- workers


class _Worker:
    """One process of Triton's compiler."""

    def __init__(self) -> None:
        self.log = tempfile.TemporaryFile("a+b")
        settings = {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_DUMP_PTXAS_LOG": "1", "PYTHONUNBUFFERED": "1"}
        script = Path(__file__).with_name("worker.py")
        # -P: the folder of the script holds modules of this package, which must not be found by their bare names.
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(script)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, env={**os.environ, **settings},
        )  # fmt: skip

    def ask(self, line: str) -> dict[str, Any]:
        """The answer to a request; where the process ends instead, an error that says how."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.log.truncate(0)
        watch = threading.Timer(SECONDS, self.process.kill)
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
            how = f"was stopped after {SECONDS:.0f} s" if late else f"ended with {_exit(code)}"
            return {"error": f"Triton's compiler {how}{_tail(self.printed())}"}
        found = json.loads(answer)
        if "error" in found:
            found["error"] = f"Triton refused it: {_first(found['error'])}{_tail(self.printed())}"
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


def _first(error: str) -> str:
    """What matters of an exception's text: ptxas's message is wrapped in a report of a page."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("ptxas ")]
    return "; ".join(said[:3] or lines[:2])


def _tail(printed: str) -> str:
    """The diagnostics among what the compiler printed, else its last lines."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    said = [line[line.index("error:") :] for line in lines if "error:" in line]
    shown = said[:3] or [line for line in lines if "LLVM ERROR" in line or "Assertion" in line][:3] or lines[-3:]
    return "".join(f"\n    {line[:300]}" for line in shown)


_idle: list[_Worker] = []


@once
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(WORKERS, "tilewright-triton")


def _ask(line: str) -> dict[str, Any]:
    with _lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = _Worker()
    answer = worker.ask(line)
    if worker.alive():
        with _lock:
            _idle.append(worker)
    else:
        worker.end()
    return answer


@atexit.register
def _finish() -> None:
    with _lock:
        workers = _idle[:]
        _idle.clear()
    for worker in workers:
        worker.end()
