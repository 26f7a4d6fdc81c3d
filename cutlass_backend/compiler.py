"""From C++ over CUTLASS's headers to machine code, by NVRTC in processes of their own; answers are kept.

A product takes NVRTC about a minute, so that a wait is told of, and what was compiled is kept on disk.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.support.errors import CompileError, ResourceError, Source
from ..core.support.runtime import runtime
from ..lang.gpu.code import Compiled
from ..lang.targets.target import Target
from ..lang.toolchain.packages import Packages
from ..lang.toolchain.pool import Answer, Workers
from .module import CutlassModule

if TYPE_CHECKING:
    from logging import Logger


PACKAGES = Packages("CUTLASS's kernels", {
    "nvidia-cutlass": "cutlass_library", "nvidia-cuda-nvrtc": "nvidia", "nvidia-cuda-cccl": "nvidia",
    "nvidia-cuda-runtime": "nvidia", "nvidia-cuda-crt": "nvidia", "cuda-python": "cuda",
}, "cutlass")  # fmt: skip
check_installed: Callable[[], None] = PACKAGES.check
WORKERS = runtime.part("NVRTC's workers", Workers(
    "NVRTC", Path(__file__).with_name("worker.py"), PACKAGES, seconds=1800.0))  # fmt: skip
set_cache: Callable[..., None] = WORKERS.set_cache
PATIENCE, AGAIN = 5.0, 30.0  # seconds until a wait is told of, and told of again
logger: Logger = logging.getLogger("tilewright")


def start(module: CutlassModule, pool: Workers = WORKERS) -> Future[Answer]:
    """Begin to compile a source, unless that is done or under way; the answer of the worker."""
    request = {"text": module.text, "name": module.name, "arch": module.architecture, "measured": module.measured}
    return pool.start(request)


def _awaited(asked: Future[Answer], what: str) -> Answer:
    """The answer; who waits for it is told so."""
    begun, patience = time.perf_counter(), PATIENCE
    while True:
        try:
            answer = asked.result(patience)
        except Late:
            waited = time.perf_counter() - begun
            logger.warning("%s is compiled by NVRTC, for %.0f s until now; about a minute is usual, and the result is "
                           "kept", what, waited)  # fmt: skip
            patience = AGAIN
            continue
        if patience != PATIENCE:
            logger.warning("%s is compiled, in %.0f s", what, time.perf_counter() - begun)
        return answer


def machine_code(
    module: CutlassModule, machine: Target, source: Source | None = None, pool: Workers | None = None
) -> Compiled:
    """The machine code of a source.

    Raises:
      VersionError: a package is missing or of another version.
      CompileError: NVRTC refused it, or its process ended.
      ResourceError: it takes more shared memory than there is.
    """
    what = f"kernel {module.name} for {machine.name}"
    answer = _awaited(start(module, pool or WORKERS), what)
    if "error" in answer:
        raise CompileError(f"{what}: {answer['error']}",
                           "another tile: `lang.cutlass.CompilerParams(tile=...)`; or another route, `kernel_route`",
                           source)  # fmt: skip
    shared, threads = answer["layout"][:2] if module.measured else (module.shared, module.threads)
    if shared > machine.fast_bytes:
        raise ResourceError(f"{what} needs {shared} bytes of shared memory; a block has {machine.fast_bytes}",
                            "a smaller tile, or fewer stages: `lang.cutlass.CompilerParams(...)`", source)  # fmt: skip
    programs = max(math.prod(module.grid), 1)
    return Compiled.of(module, machine.name, answer, shared, threads // 32, -(-module.scratch // programs))


def stages(module: CutlassModule, pool: Workers | None = None) -> int:
    """How many tiles a compiled source loads ahead."""
    answer = start(module, pool or WORKERS).result()
    return answer["layout"][2] if module.measured and "layout" in answer else module.stages
