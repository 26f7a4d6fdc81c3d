"""From the text of a module to machine code, in processes of their own, several at a time; answers are kept."""

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

from ..core.support.errors import CompileError, Source, VersionError
from ..core.support.runtime import runtime
from ..core.support.version import JAXLIB
from ..lang.gpu.boards import description
from ..lang.gpu.code import Compiled
from ..lang.targets.target import Target, target_of
from ..lang.toolchain.pool import Answer, Workers
from .module import MosaicGpuModule

CACHE_VERSION = "1"  # raised when the meaning of what is kept on disk changes
PIP = "pip install 'tilewright[cuda]'"
PACKAGES = {"jax_plugins.xla_cuda13": "jax-cuda13-pjrt", "jax_cuda13_plugin": "jax-cuda13-plugin", "triton": "triton"}
# The target by which XLA is told of an architecture; the kernels depend on the architecture alone.
TARGETS = {"90a": "cuda:sm_90", "100a": "cuda:sm_100"}
SERIAL = re.compile(r"wgmma.mma_async instructions are serialized due to (.*?) in (?:the )?function")


def installed() -> bool:
    """Whether the packages that compile are there."""
    try:
        return all(find_spec(package) is not None for package in PACKAGES)
    except ModuleNotFoundError:
        return False


def check_installed() -> None:
    """Raise a `VersionError` unless the packages that compile are there, of this version."""
    if not installed():
        needed = ", ".join(PACKAGES.values())
        raise VersionError(f"Mosaic GPU's kernels are compiled by {needed}, which are not all installed", PIP)
    found = metadata.version(PACKAGES["jax_cuda13_plugin"])
    if found != JAXLIB:
        raise VersionError(f"jax-cuda13-plugin {found} is installed; this version works with {JAXLIB}", PIP)


def _first(error: str) -> str:
    """What matters of an exception's text."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    said = [line for line in lines if "ptxas" in line or "error:" in line]
    return "; ".join(said[:3] or lines[:2])


def _workers() -> Workers:
    script = Path(__file__).with_name("worker.py")
    return Workers("Mosaic GPU's compiler", f"{CACHE_VERSION} {JAXLIB}", script, {}, _first)


# A process compiles for one architecture.
WORKERS: dict[str, Workers] = {
    arch: runtime.part(f"Mosaic GPU's workers for sm_{arch}", _workers()) for arch in TARGETS
}


def set_cache(cache: Callable[[], Any]) -> None:
    """Hand in what gives the disk cache: an object with `load(name)` and `store(name, bytes)`, or None."""
    for workers in WORKERS.values():
        workers.cache = cache


def start(module: MosaicGpuModule, workers: Workers | None = None) -> Future[Answer]:
    """Begin to compile a module, unless that is done or under way; the answer of the worker."""
    check_installed()
    arch = module.architecture
    request = {"text": module.text, "name": module.name, "arch": arch, "config": description(target_of(TARGETS[arch]))}
    return (workers or WORKERS[arch]).start(request)


def machine_code(
    module: MosaicGpuModule, machine: Target, source: Source | None = None, workers: Workers | None = None
) -> Compiled:
    """The machine code of a module.

    Raises:
      VersionError: a package is missing or of another version.
      CompileError: the pipeline or the assembler refused it, its process ended, or products wait for each other.
    """
    answer = start(module, workers).result()
    what = f"kernel {module.name} for {machine.name}"
    remedy = "compile it by Triton: the setting kernel_route, or `lang.triton.CompilerParams`"
    if "error" in answer:
        raise CompileError(f"{what}: {answer['error']}", remedy, source)
    serial = SERIAL.search(answer["log"])
    if serial is not None:
        raise CompileError(f"{what}: the assembler lets products wait for each other: {serial[1]}", remedy, source)
    return Compiled(
        module.name, machine.name, module.grid, base64.b64decode(answer["binary"]), answer["assembly"], module.shared,
        module.threads // 32, 32, module.scratch // max(math.prod(module.grid), 1), 128, answer["log"])  # fmt: skip
