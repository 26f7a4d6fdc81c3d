"""The command `tilewright`: `tilewright doctor` says what is installed, what can run here, and with which settings."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..as_jax import clients
from ..bench import command as bench_command
from ..compiler.ahead_of_time import machine_of
from ..compiler.pipeline import compile as compile_to
from ..core.support.config import ENVIRONMENT, config, default_device
from ..core.support.errors import ArgumentError, TilewrightError
from ..core.support.settings import ROWS
from ..core.support.supported import SUPPORTED
from ..core.support.version import __version__
from ..devices import devices
from ..export import command as export_command
from ..lang.targets.target import TARGETS
from ..tuning import command as tune_command
from ..xla_backend.host import malloc_tuning
from ..xla_backend.host.disk_cache import DiskCache, disk_cache
from . import launch

REQUIRED = ("jaxlib", "numpy", "ml_dtypes", "opt_einsum", "rich", "scipy", "threadpoolctl")
OPTIONAL = (
    "jax",
    "jax-cuda13-pjrt",
    "jax-cuda13-plugin",
    "triton",
    "cuda-python",
    "libtpu",
    "nvidia-cutlass",
    "matplotlib",
)


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
    yield "executables", f"{len(files)}, {total / 2**20:.1f} of {cache.max_bytes / 2**20:.0f} MiB"


def settings() -> Iterator[tuple[str, str]]:
    """Every configuration, with its environment variable and what it was changed from."""
    variables = {name: variable for variable, name in ENVIRONMENT.items()}
    for name, row in ROWS.items():
        value = config.read(name)
        changed = "" if value == row.default else f"   (default {row.default})"
        variable = f"   {variables[name]}" if name in variables else ""
        yield name, f"{value}{changed}{variable}"


def section(console: Console, title: str, rows: Iterator[tuple[str, str]]) -> None:
    console.print(Text(title, style="bold"))
    table = Table(box=None, show_header=False, padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(Text(name), Text(value))
    console.print(table)


def doctor(console: Console) -> int:
    """Print the report; 0 if the CPU, which is always there, compiles and runs."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        section(console, "Versions", versions())
        section(console, "Devices", ((str(d), f"{d.platform}, {d.device_kind}") for d in devices()))
        table = Table("target", "layer", "can compile here", "can run here", box=None, padding=(0, 2))
        outcomes = [(b, can_compile(b), can_run(b)) for b in BACKENDS]
        for backend, compiles, runs in outcomes:
            table.add_row(Text(backend.target), Text(backend.layer), Text(compiles), Text(runs))
        console.print(Text("Backends", style="bold"))
        console.print(table)
        section(console, "Disk cache of executables", cache_lines(disk_cache()))
        section(console, "Memory on the CPU", iter([("freed memory", malloc_tuning.status())]))
        section(console, "Settings", settings())
    for text in dict.fromkeys(str(w.message) for w in caught):
        console.print(Text(f"warning: {text}", style="yellow"))
    return 0 if outcomes[0][1].startswith("yes") and outcomes[0][2].startswith("yes") else 1


COMMANDS: dict[str, Callable[[argparse.Namespace, Console], int]] = {
    "doctor": lambda options, console: doctor(console),
    "tune": tune_command.run,
    "bench": bench_command.run,
    "export": export_command.run,
    "launch": lambda options, console: launch.run(options),
    "clients": clients.run,
}


def _told(run: Callable[[argparse.Namespace, Console], int], options: argparse.Namespace, console: Console) -> int:
    """Run a command; an error of this package's is told without a traceback, and gives 2."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            code = run(options, console)
        except TilewrightError as error:
            ours = error.source is None or error.source.code.co_filename == sys.argv[0]  # the command's own script
            lines = [error.what, *(() if ours else (f"at: {error.source}",)), f"remedy: {error.remedy}"]
            console.print(Text("\n".join(lines), style="red"), soft_wrap=True)
            code = 2
    for text in dict.fromkeys(str(w.message) for w in caught):
        console.print(Text(f"warning: {text}", style="yellow"), soft_wrap=True)
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with arguments as given on the command line.

    >>> main(["--version"])
    tilewright 0.1.0
    0
    """
    about = "Kernels in Python, and the array framework on them."
    parser = argparse.ArgumentParser(prog="tilewright", description=about)
    parser.add_argument("--version", action="store_true", help="print the version")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("doctor", help="versions, devices, backends, cache and settings, each tried out")
    tune_command.add_to(commands)
    bench_command.add_to(commands)
    launch.add_to(commands)
    export_command.add_to(commands)
    clients.add_to(commands)
    options = parser.parse_args(arguments)
    if options.version:
        print(f"tilewright {__version__}")
        return 0
    if options.command is not None:
        return _told(COMMANDS[options.command], options, Console())
    parser.print_help(sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
