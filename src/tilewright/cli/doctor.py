"""`tilewright doctor`: what can compile and run on this machine, each tried out, and what is missing, on one screen."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..compiler import lazy_layers
from ..compiler.ahead_of_time import machine_of
from ..compiler.pipeline import compile as compile_to
from ..core.support.config import ENVIRONMENT, config, default_device
from ..core.support.errors import ArgumentError, TilewrightError
from ..core.support.settings import ROWS
from ..core.support.supported import SUPPORTED
from ..core.support.version import __version__
from ..devices import devices
from ..lang.targets.target import TARGETS
from ..xla_backend.host import malloc_tuning
from ..xla_backend.host.disk_cache import DiskCache, disk_cache

REQUIRED = ("jaxlib", "llvmlite", "numpy", "ml_dtypes", "opt_einsum", "rich", "scipy", "threadpoolctl")
# What may be missing: the purpose, and the extra that installs it.
OPTIONAL = {
    "triton": ("kernels for GPUs", "cuda"),
    "jax-cuda13-pjrt": ("programs on NVIDIA GPUs", "cuda"),
    "jax-cuda13-plugin": ("programs on NVIDIA GPUs", "cuda"),
    "cuda-python": ("kernels on GPU arrays of other libraries", "cuda"),
    "libtpu": ("programs and kernels for TPUs", "tpu"),
    "nvidia-cutlass": ("CUTLASS kernels", "cutlass"),
    "matplotlib": ("plots of benchmarks", "demo"),
    "jax": ("comparison with JAX", "bench"),
}


@dataclass(frozen=True)
class Backend:
    """A target, the layer that compiles for it, and the platform whose devices run it."""

    target: str
    layer: str
    platform: str


LAYERS = {
    "cpu": ("xla_backend", "cpu"),
    "cuda": ("triton_backend", "gpu"),
    "rocm": ("triton_backend", "rocm"),
    "tpu": ("mosaic_tpu", "tpu"),
}  # by family: who compiles its kernels, and the platform of its devices
# Every target but the boards of one architecture; and kernels for Hopper by another layer.
BACKENDS = (
    *(Backend(t.name, *LAYERS[t.kind]) for t in TARGETS.values() if t.name.count(":") < 2),
    Backend("cuda:sm_90", "mosaic_gpu", "gpu"),
)
# One of each kind, which is what a screen has room for.
TYPICAL = ("cpu", "cuda:sm_90", "rocm:gfx942", "tpu:v5e")


def versions() -> Iterator[tuple[str, str]]:
    """Name and version of everything that matters, absent packages included."""
    yield "tilewright", __version__
    yield "Python", f"{platform.python_version()} ({platform.system()} {platform.machine()})"
    for name in (*REQUIRED, *OPTIONAL):
        try:
            found = metadata.version(name)
        except metadata.PackageNotFoundError:
            found = "missing" if name in REQUIRED else "not installed (optional)"
        support = SUPPORTED.get(name)
        yield name, f"{found} ({support.status(found)})" if support is not None and found[:1].isdigit() else found


def can_compile(backend: Backend) -> str:
    """Whether a small program goes through the target's compiler here, tried out."""
    if find_spec(f"tilewright.{backend.layer}") is None:
        return "no: not in this version"
    start, route = time.perf_counter(), backend.layer if backend.layer == "mosaic_gpu" else None
    program, operands = (lambda x: x * 2 + 1), [np.arange(4, dtype=np.float32)]
    if route is not None:  # it compiles products alone
        program, operands = (lambda x: x @ x), [np.ones((128, 128), np.float16)]
    try:
        with config(cache_dir="", kernel_route=route):  # by the compiler, not from the disk
            made = compile_to(program, *operands, target=backend.target)
    except (TilewrightError, OSError, RuntimeError) as error:
        return f"no: {reason(error)}"
    if route is not None and not any("wgmma" in kernel.assembly for kernel in made.kernels):
        return "no: Triton compiled the kernel"
    what = "yes" if getattr(made, "executable", made) is not None else "kernels only: no XLA compiler"
    return f"{what} ({(time.perf_counter() - start) * 1e3:.0f} ms for a small program)"


def can_run(backend: Backend) -> str:
    """Whether a device of the backend's platform computes the right thing, tried out."""
    if find_spec(f"tilewright.{backend.layer}") is None:
        return "no: not in this version"
    try:
        found = devices(backend.platform)
        if backend.platform == "gpu":
            found = [d for d in found if machine_of(d).name == backend.target]
            if not found:
                return "no: the GPUs here are of another kind"
    except ArgumentError:
        return f"no: there is no {backend.platform} device"
    except (TilewrightError, OSError, RuntimeError) as error:
        return f"no: {reason(error)}"
    x = np.arange(4, dtype=np.float32)
    with default_device(found[0]):
        right = np.array_equal(np.asarray(compile_to(lambda x: x * 2 + 1, x)(x)), x * 2 + 1)
    return f"yes, on {len(found)} device{'s' if len(found) > 1 else ''}" if right else "no: a wrong result"


def reason(error: Exception) -> str:
    """The first line of an error, and the `pip` line where that is the remedy."""
    remedy = getattr(error, "remedy", "")
    return str(error).splitlines()[0] + (f" ({remedy})" if remedy.startswith("pip ") else "")


def cache_lines(cache: DiskCache | None) -> Iterator[tuple[str, str]]:
    """Where executables are kept, and how many."""
    if cache is None:
        yield "location", "off (cache_dir is empty)"
        return
    files = cache.entries()
    use = "used" if cache.readable and cache.writable else "read only" if cache.readable else "not used"
    # The directory's flag tells of failed writes so far; ask the system as well.
    if use == "used" and not os.access(cache.directory, os.W_OK):
        use = "read only"
    yield "location", f"{cache.directory} ({use})"
    total = sum(size for _, size, _ in files)
    yield "executables", f"{len(files):,} files, {total / 2**20:,.1f} of {cache.max_bytes / 2**20:,.0f} MiB"


def kernel_lines() -> Iterator[tuple[str, str]]:
    """Whether kernels become machine code here, and this machine's rates, measured unless they are cached."""
    code = lazy_layers.cpu_kernel_selection
    why = code.unavailable()
    yield "machine code", f"no: {why}" if why else "yes"
    if why is None:
        yield "rates", code.machine().rates.text()


def settings(changed: bool = False) -> Iterator[tuple[str, str]]:
    """Every setting, or those that were changed: its value, default and environment variable."""
    variables = {name: variable for variable, name in ENVIRONMENT.items()}
    for name, row in ROWS.items():
        value = config.read(name)
        if changed and value == row.default:
            continue
        default = "" if value == row.default else f"   (default {row.default})"
        variable = f"   {variables[name]}" if name in variables else ""
        yield name, f"{value}{default}{variable}"


def missing() -> Iterator[str]:
    """A line for each optional part that is not installed, with the command that installs it."""
    parts: dict[tuple[str, str], list[str]] = {}
    for name, (purpose, extra) in OPTIONAL.items():
        try:
            metadata.version(name)
        except metadata.PackageNotFoundError:
            parts.setdefault((purpose, extra), []).append(name)
    for (purpose, extra), names in parts.items():
        yield f"{', '.join(names)} ({purpose}): pip install 'tilewright[{extra}]'"


@dataclass(frozen=True)
class Checkup:
    """What the command found; `targets` has target, layer, and whether it compiles and runs."""

    versions: dict[str, str]
    devices: dict[str, str]
    targets: list[dict[str, str]]
    missing: list[str]
    cache: dict[str, str]
    kernels: dict[str, str]
    memory: str
    settings: dict[str, str]
    warnings: list[str]

    @property
    def healthy(self) -> bool:
        """Whether the CPU, which is always there, compiles and runs."""
        cpu = self.targets[0]
        return cpu["compiles"].startswith("yes") and cpu["runs"].startswith("yes")


def checkup(every: bool = False) -> Checkup:
    """Try everything out; `every` target rather than one of each kind."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        backends = [b for b in BACKENDS if every or (b.target in TYPICAL and b.layer != "mosaic_gpu")]
        return Checkup(
            dict(versions()), {str(d): ", ".join(dict.fromkeys((d.platform, d.device_kind))) for d in devices()},
            [{"target": b.target, "layer": b.layer, "compiles": can_compile(b), "runs": can_run(b)} for b in backends],
            list(missing()), dict(cache_lines(disk_cache())), dict(kernel_lines()), malloc_tuning.status(),
            dict(settings(changed=True)), [*dict.fromkeys(str(w.message) for w in caught)],
        )  # fmt: skip


def _print(console: Console, *parts: str) -> None:
    """Print one line, or a line for each part where it would be too long: commands and paths are not broken."""
    line = " ".join(parts)
    for indent, text in [("", line)] if len(line) <= console.width else zip(("", *["  "] * len(parts)), parts):
        console.print(Text(indent + text), soft_wrap=True)


def show(found: Checkup, console: Console) -> None:
    """Print the report; lines with a command are not broken."""
    python, jaxlib = found.versions["Python"], found.versions["jaxlib"]
    line = f"tilewright {found.versions['tilewright']}, Python {python}, jaxlib {jaxlib}"
    console.print(Text(line, style="bold"), soft_wrap=True)
    kinds = dict.fromkeys(found.devices.values())
    count = len(found.devices)
    console.print(Text(f"{count} device{'s' * (count > 1)}: {'; '.join(kinds)}"), soft_wrap=True)
    table = Table("target", "compiles here", "runs here", box=None, padding=(0, 2, 0, 0))
    for row in found.targets:
        name = row["target"] if row["layer"] != "mosaic_gpu" else f"{row['target']} by mosaic_gpu"
        short = [row[key].partition(" (")[0] for key in ("compiles", "runs")]
        table.add_row(Text(name), *map(Text, short))
    console.print(table)
    for text in found.missing:
        what, _, command = text.rpartition(": ")
        _print(console, f"not installed: {what}:", command)
    for name in (n for n, v in found.versions.items() if v == "missing"):
        console.print(Text(f"missing, and required: {name}: pip install {name}", style="red"), soft_wrap=True)
    _print(console, "disk cache:", *(f"{part}," for part in [*found.cache.values()][:-1]), [*found.cache.values()][-1])
    for name, value in found.kernels.items():
        _print(console, f"kernels on the CPU: {name}:", value)
    _print(console, f"freed memory: {found.memory}")
    changed = [f"{name}={value.split('   ')[0]}" for name, value in found.settings.items()]
    _print(console, "changed settings:", *(changed or ["none"]), "(all: tilewright doctor --settings)")
    for text in found.warnings:
        console.print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)


def add_to(commands: Any) -> None:
    """Add the command to those of `tilewright`."""
    parser = commands.add_parser("doctor", help="what compiles and runs here, each tried out, and what is missing")
    parser.add_argument("--settings", action="store_true", help="list every setting with its environment variable")
    parser.add_argument("--targets", action="store_true", help="try every target, not one of each kind")
    parser.add_argument("--json", action="store_true", help="print the report as JSON, with all versions")


def run(options: argparse.Namespace, console: Console) -> int:
    """Print the report; 0 if the CPU compiles and runs."""
    if options.settings and not options.json:
        for name, value in settings():
            console.print(Text(f"{name} = {value}"), soft_wrap=True)
        return 0
    found = checkup(options.targets)
    if options.json:
        data = asdict(found) | ({"settings": dict(settings())} if options.settings else {})
        print(json.dumps(data, indent=1))
    else:
        show(found, console)
    return 0 if found.healthy else 1
