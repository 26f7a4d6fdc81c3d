"""From the text of a Triton program to machine code, in processes of their own, several at a time.

Triton's compiler ends its process on some bad input, so it runs in workers (`worker.py`, `lang/toolchain/pool.py`).
Their answers are cached in memory, and on disk where `set_cache` was called.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from ..core.support.errors import CompileError, ResourceError, Source, UnsupportedError
from ..core.support.runtime import runtime
from ..lang.gpu.code import PTX_VERSION, Compiled
from ..lang.targets.target import Target
from ..lang.toolchain.packages import Packages
from ..lang.toolchain.pool import Answer, Workers
from .module import TritonModule
from .version_compat import adapted

PACKAGES = Packages("kernels for GPUs", {"triton": "triton"}, "cuda")
installed: Callable[[], bool] = PACKAGES.installed
WORKERS = runtime.part("Triton's workers", Workers(
    "Triton's compiler", Path(__file__).with_name("worker.py"), PACKAGES,
    {"TRITON_DISABLE_LINE_INFO": "1", "TRITON_DUMP_PTXAS_LOG": "1"}, "^ptxas "))  # fmt: skip
set_cache: Callable[..., None] = WORKERS.set_cache


def architecture(machine: Target) -> dict[str, Any]:
    """Triton's description of a target.

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
    return Compiled.of(
        module, machine.name, answer, known.get("shared", 0), known["num_warps"], known.get("global_scratch_size", 0),
        known.get("global_scratch_align", 1), known["warp_size"],
        known.get("allocations", ()))  # fmt: skip


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


def start(module: TritonModule, machine: Target, workers: Workers = WORKERS) -> Future[Answer]:
    """Begin to compile a program, unless that is done or under way; the answer of the worker."""
    options = {"num_warps": module.num_warps, "num_stages": module.num_stages}
    text = adapted(module.text, PACKAGES.versions()["triton"] or "")
    return workers.start({"text": text, **architecture(machine), "ptx_version": PTX_VERSION, "options": options})
