"""From the text of a module to machine code, in processes of their own, several at a time; answers are kept."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from ..core.support.errors import CompileError, Source
from ..core.support.runtime import runtime
from ..core.support.version import JAXLIB
from ..lang.gpu.code import PTX_VERSION, Compiled
from ..lang.gpu.target_config import description
from ..lang.targets.target import Target, target_of
from ..lang.toolchain.packages import Packages
from ..lang.toolchain.pool import Answer, Workers
from .module import MosaicGpuModule

PACKAGES = Packages("Mosaic GPU's kernels", {
    "jax-cuda13-pjrt": "jax_plugins.xla_cuda13", "jax-cuda13-plugin": "jax_cuda13_plugin", "triton": "triton",
}, "cuda", {"jax-cuda13-pjrt": JAXLIB, "jax-cuda13-plugin": JAXLIB})  # fmt: skip
installed: Callable[[], bool] = PACKAGES.installed
# The target that describes an architecture to XLA; the kernels depend on the architecture alone.
TARGETS = {"90a": "cuda:sm_90", "100a": "cuda:sm_100"}
SERIAL = re.compile(r"wgmma.mma_async instructions are serialized due to (.*?) in (?:the )?function")


WORKERS = runtime.part("Mosaic GPU's workers", Workers(
    "Mosaic GPU's compiler", Path(__file__).with_name("worker.py"), PACKAGES, pattern="ptxas|error:"))  # fmt: skip
set_cache: Callable[..., None] = WORKERS.set_cache


def start(module: MosaicGpuModule, workers: Workers = WORKERS) -> Future[Answer]:
    """Begin to compile a module, unless that is done or under way; the answer of the worker."""
    arch = module.architecture
    request = {"text": module.text, "name": module.name, "arch": arch, "ptx_version": PTX_VERSION,
               "config": description(target_of(TARGETS[arch]))}  # fmt: skip
    return workers.start(request, arch)  # a process compiles for one architecture


def machine_code(
    module: MosaicGpuModule, machine: Target, source: Source | None = None, workers: Workers | None = None
) -> Compiled:
    """The machine code of a module.

    Raises:
      VersionError: a package is missing or of another version.
      CompileError: the pipeline or the assembler refused it, its process ended, or products wait for each other.
    """
    answer = start(module, workers or WORKERS).result()
    what = f"kernel {module.name} for {machine.name}"
    remedy = "compile it by Triton: the setting kernel_route, or `lang.triton.CompilerParams`"
    if "error" in answer:
        raise CompileError(f"{what}: {answer['error']}", remedy, source)
    serial = SERIAL.search(answer["log"])
    if serial is not None:
        raise CompileError(f"{what}: the assembler lets products wait for each other: {serial[1]}", remedy, source)
    scratch = module.scratch // max(math.prod(module.grid), 1)
    return Compiled.of(module, machine.name, answer, module.shared, module.threads // 32, scratch)
