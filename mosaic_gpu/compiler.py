"""From the text of a module to machine code, in processes of their own, several at a time; answers are kept."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..core.errors import CompileError, Source, VersionError
from ..core.runtime import runtime
from ..core.version import JAXLIB
from ..lang.gpu.code import Compiled
from ..lang.target import Target
from ..lang.workers import Answer, Workers
from .module import MosaicGpuModule

CACHE_VERSION = "1"  # raised when the meaning of what is kept on disk changes
PIP = "pip install 'tilewright[cuda]'"
PACKAGES = {"jax_plugins.xla_cuda13": "jax-cuda13-pjrt", "jax_cuda13_plugin": "jax-cuda13-plugin", "triton": "triton"}
SERIAL = re.compile(r"wgmma.mma_async instructions are serialized due to (.*?) in (?:the )?function")


@dataclass(frozen=True)
class Board:
    """What XLA asks of the GPU that it compiles for; the kernels depend on the architecture alone."""

    name: str
    capability: tuple[int, int]


BOARDS = {"90a": Board("NVIDIA H100 80GB HBM3", (9, 0)), "100a": Board("NVIDIA B200", (10, 0))}


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


def config(arch: str) -> str:
    """XLA's description of a GPU, from which it compiles without one."""
    board = BOARDS[arch]
    major, minor = board.capability
    sizes = {
        "threads_per_block_limit": 1024, "threads_per_warp": 32, "shared_memory_per_block": 49152,
        "shared_memory_per_block_optin": 232448, "shared_memory_per_core": 233472, "threads_per_core_limit": 2048,
        "core_count": 132, "fpus_per_core": 128, "block_dim_limit_x": 2**31 - 1, "block_dim_limit_y": 65535,
        "block_dim_limit_z": 65535, "registers_per_core_limit": 65536, "registers_per_block_limit": 65536,
        "memory_bandwidth": 3350 * 10**9, "device_memory_size": 80 * 2**30, "l2_cache_size": 50 * 2**20,
        "clock_rate_ghz": 1.98, "device_address_bits": 64,
    }  # fmt: skip
    lines = [f"{name}: {value}" for name, value in sizes.items()]
    lines.append(f"cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: ACCELERATED_FEATURES }}")
    lines += ['device_vendor: "NVIDIA Corporation"', f'name: "{board.name}"']
    return "\n".join([
        "gpu_device_info {", *lines, "}", 'platform_name: "CUDA"', "dnn_version_info { major: 9 minor: 12 patch: 0 }",
        f'device_description_str: "{board.name}"', "",
    ])  # fmt: skip


def _first(error: str) -> str:
    """What matters of an exception's text."""
    lines = [line.strip() for line in error.splitlines() if line.strip()]
    said = [line for line in lines if "ptxas" in line or "error:" in line]
    return "; ".join(said[:3] or lines[:2])


def _workers(arch: str) -> Workers:
    script = Path(__file__).with_name("worker.py")
    return Workers("Mosaic GPU's compiler", f"{CACHE_VERSION} {JAXLIB}", script, {}, _first)


# A process compiles for one architecture.
WORKERS: dict[str, Workers] = {
    arch: runtime.part(f"Mosaic GPU's workers for sm_{arch}", _workers(arch)) for arch in BOARDS
}


def set_cache(cache: Callable[[], Any]) -> None:
    """Hand in what gives the disk cache: an object with `load(name)` and `store(name, bytes)`, or None."""
    for workers in WORKERS.values():
        workers.cache = cache


def start(module: MosaicGpuModule, workers: Workers | None = None) -> Future[Answer]:
    """Begin to compile a module, unless that is done or under way; the answer of the worker."""
    check_installed()
    arch = module.architecture
    request = {"text": module.text, "name": module.name, "arch": arch, "config": config(arch)}
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
        module.threads // 32, 32, module.scratch // max(_programs(module), 1), 128, answer["log"])  # fmt: skip


def _programs(module: MosaicGpuModule) -> int:
    return module.grid[0] * module.grid[1] * module.grid[2]
