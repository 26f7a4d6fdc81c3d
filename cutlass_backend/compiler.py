"""From C++ over CUTLASS's headers to machine code, by NVRTC in processes of their own; answers are kept.

A product takes NVRTC about a minute, so that a wait is told of, and what was compiled is kept on disk.
"""

from __future__ import annotations

import base64
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as Late
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.support.errors import CompileError, ResourceError, Source, VersionError
from ..core.support.memo import once
from ..core.support.runtime import runtime
from ..lang.gpu.code import Compiled
from ..lang.targets.target import Target
from ..lang.toolchain.pool import Answer, Workers
from .module import CutlassModule

CACHE_VERSION = "1"  # raised when the meaning of what is kept on disk changes
PIP = "pip install 'tilewright[cutlass]'"
# Packages, what is looked for of each, and the versions that are worked with.
PACKAGES = {
    "nvidia-cutlass": ("cutlass_library", "4.2."),
    "nvidia-cuda-nvrtc": ("nvidia", "13.0."),
    "nvidia-cuda-cccl": ("nvidia", "13.0."),
    "nvidia-cuda-runtime": ("nvidia", "13.0."),
    "nvidia-cuda-crt": ("nvidia", "13.0."),
    "cuda-python": ("cuda", "13."),
}
PATIENCE, AGAIN = 5.0, 30.0  # seconds until a wait is told of, and told of again
logger = logging.getLogger("tilewright")


@once
def versions() -> dict[str, str | None]:
    """The version of each package, None where it is not installed."""
    found: dict[str, str | None] = {}
    for package, (module, _) in PACKAGES.items():
        try:
            found[package] = metadata.version(package) if find_spec(module) is not None else None
        except metadata.PackageNotFoundError:
            found[package] = None
    return found


def check_installed() -> None:
    """Raise a `VersionError` unless CUTLASS's headers, CUDA's and NVRTC are there, of the versions worked with."""
    found = versions()
    missing = [package for package in PACKAGES if found[package] is None]
    if missing:
        raise VersionError(f"CUTLASS's kernels need {', '.join(missing)}, not installed here", PIP)
    for package, (_, wanted) in PACKAGES.items():
        if not str(found[package]).startswith(wanted):
            raise VersionError(f"{package} {found[package]} is installed; this version works with {wanted}*", PIP)


def _first(error: str) -> str:
    """What matters of an exception's text."""
    return "; ".join([line.strip() for line in error.splitlines() if line.strip()][:3])


@once
def workers() -> Workers:
    """The processes that compile."""
    known = " ".join(f"{package} {version}" for package, version in versions().items())
    script = Path(__file__).with_name("worker.py")
    made = Workers("NVRTC", f"{CACHE_VERSION} {known}", script, {}, _first, seconds=1800.0)
    made.cache = lambda: _cache.get()
    return runtime.part("NVRTC's workers", made)


class _Cache:
    """What gives the disk cache, once it is handed in."""

    def __init__(self) -> None:
        self.get: Callable[[], Any] = lambda: None


_cache = runtime.part("the cache of NVRTC's workers", _Cache())


def set_cache(cache: Callable[[], Any]) -> None:
    """Hand in what gives the disk cache: an object with `load(name)` and `store(name, bytes)`, or None."""
    _cache.get = cache


def start(module: CutlassModule, pool: Workers | None = None) -> Future[Answer]:
    """Begin to compile a source, unless that is done or under way; the answer of the worker."""
    check_installed()
    request = {"text": module.text, "name": module.name, "arch": module.architecture, "measured": module.measured}
    return (pool or workers()).start(request)


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
    answer = _awaited(start(module, pool), what)
    if "error" in answer:
        raise CompileError(f"{what}: {answer['error']}",
                           "another tile: `lang.cutlass.CompilerParams(tile=...)`; or another route, `kernel_route`",
                           source)  # fmt: skip
    shared, threads = answer["layout"][:2] if module.measured else (module.shared, module.threads)
    if shared > machine.fast_bytes:
        raise ResourceError(f"{what} needs {shared} bytes of shared memory; a block has {machine.fast_bytes}",
                            "a smaller tile, or fewer stages: `lang.cutlass.CompilerParams(...)`", source)  # fmt: skip
    programs = max(math.prod(module.grid), 1)
    return Compiled(
        module.name, machine.name, module.grid, base64.b64decode(answer["binary"]), answer["assembly"], shared,
        threads // 32, 32, -(-module.scratch // programs), 128, answer["log"])  # fmt: skip


def stages(module: CutlassModule, pool: Workers | None = None) -> int:
    """How many tiles a compiled source loads ahead."""
    answer = start(module, pool).result()
    return answer["layout"][2] if module.measured and "layout" in answer else module.stages
