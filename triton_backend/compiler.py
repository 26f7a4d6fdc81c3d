"""From the text of a Triton program to machine code, in processes of their own, several at a time.

Triton's compiler ends its process on some bad input, so it runs in workers (`worker.py`, `lang/toolchain/pool.py`).
What they answer is kept in memory, and on disk where a cache is handed in by `set_cache`.
"""

from __future__ import annotations

import base64
import math
import re
from collections.abc import Callable
from concurrent.futures import Future
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.support.errors import CompileError, ResourceError, Source, UnsupportedError, VersionError
from ..core.support.runtime import runtime
from ..lang.gpu.code import Compiled
from ..lang.targets.target import Target
from ..lang.toolchain.pool import Answer, Workers
from .module import TritonModule

TRITON = "3.6.0"
CACHE_VERSION = "1"  # raised when the meaning of what is kept on disk changes
PIP = "pip install 'tilewright[cuda]'"


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


def machine_code(
    module: TritonModule, machine: Target, source: Source | None = None, workers: Workers | None = None
) -> Compiled:
    """The machine code of a Triton program.

    Raises:
      VersionError: Triton is missing or of another version.
      ResourceError: a value in it has more elements than Triton takes.
      CompileError: Triton refused the program otherwise, or its process ended.
    """
    answer = start(module, machine, workers or WORKERS).result()
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


def _first(error: str) -> str:
    """What matters of an exception's text: ptxas's message is wrapped in a report of a page."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("ptxas ")]
    return "; ".join(said[:3] or lines[:2])


WORKERS = runtime.part("Triton's workers", Workers(
    "Triton's compiler", f"{CACHE_VERSION} {TRITON}", Path(__file__).with_name("worker.py"),
    {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_DUMP_PTXAS_LOG": "1"}, _first))  # fmt: skip


def set_cache(cache: Callable[[], Any]) -> None:
    """Hand in what gives the disk cache: an object with `load(name)` and `store(name, bytes)`, or None."""
    WORKERS.cache = cache


def start(module: TritonModule, machine: Target, workers: Workers = WORKERS) -> Future[Answer]:
    """Begin to compile a program, unless that is done or under way; the answer of the worker."""
    check_installed()
    options = {"num_warps": module.num_warps, "num_stages": module.num_stages}
    return workers.start({"text": module.text, **architecture(machine), "options": options})
