"""Programs compiled by libtpu for TPUs that need not be here, and the client of those that are.

The target `tpu:v6e` is one chip; `tpu:v6e:2x4` names a slice of several, of which the program is compiled for one.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from pathlib import Path
from typing import Any

from ...core.support.errors import (
    ArgumentError,
    CompileError,
    DriverError,
    MeshError,
    ResourceError,
    VersionError,
    plural,
)
from ...core.support.memo import once
from ...core.support.supported import SUPPORTED
from ..jaxlib import shim
from .aot_executable import Binary

REMEDY = "pip install 'tilewright[tpu]'"

# Names of generations as libtpu knows them, and how many axes a slice of theirs has.
GENERATIONS = {"v5e": ("v5e", 2), "v5p": ("v5p", 3), "v6e": ("v6e", 2), "7x": ("tpu7x", 3)}
_ALIASES = {"v7x": "7x", "tpu7x": "7x", "v5litepod": "v5e"}
# What libtpu reads when it is loaded, where there is no TPU. Without the first it asks a metadata server for minutes;
# without the second it gives up when another process has loaded it; the rest keeps it from complaining and from logs.
_ABSENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_LOG_DIR": "disabled",
}
_HOST = (2, 2, 1)  # the chips of one host; larger slices have several hosts


# The PCI identifiers of the vendor and of a chip of v5p, v5e, v6e and 7x.
_VENDOR, _CHIPS = "0x1ae0", ("0x0062", "0x0063", "0x006f", "0x0076")


@once
def chips(bus: str = "/sys/bus/pci/devices") -> int:
    """How many TPU chips this machine has."""

    def read(device: Path, what: str) -> str:
        try:
            return (device / what).read_text().strip()
        except OSError:
            return ""

    return sum(read(d, "vendor") == _VENDOR and read(d, "device") in _CHIPS for d in Path(bus).glob("*"))


def installed() -> bool:
    """Whether some version of libtpu is installed."""
    return "TPU_LIBRARY_PATH" in os.environ or importlib.util.find_spec("libtpu") is not None


def library() -> Path:
    """Where libtpu is.

    Raises:
      VersionError: it is missing, or of an unsupported version.
    """
    given = os.environ.get("TPU_LIBRARY_PATH")
    if given:
        return Path(given)
    found = importlib.util.find_spec("libtpu")
    if found is None or not found.submodule_search_locations:
        raise VersionError("compiling for a TPU needs libtpu, which is not installed", REMEDY)
    SUPPORTED["libtpu"].check(importlib.metadata.version("libtpu"), REMEDY)
    return Path(found.submodule_search_locations[0]) / "libtpu.so"


@once
def load() -> None:
    """Load libtpu into this process.

    Raises:
      VersionError: as `library`, or it cannot be loaded.
    """
    path = library()
    if not chips():
        for variable, value in _ABSENT.items():
            os.environ.setdefault(variable, value)
    try:
        shim.load_plugin("tpu", str(path))
    except (shim.RuntimeFault, OSError) as error:
        raise VersionError(f"{path} cannot be loaded: {str(error)[:500]}", REMEDY) from None


def make_client() -> Any:
    """A client of the TPUs of this machine.

    Raises:
      VersionError: as `load`.
      DriverError: the chips cannot be used, or another process has them.
    """
    load()
    try:
        return shim.make_tpu_client()
    except shim.RuntimeFault as error:
        reason = str(error).splitlines()[0]
        remedy = "end the process that holds its chips, or leave them out with TPU_VISIBLE_CHIPS="
        raise DriverError(f"libtpu finds no TPU that it can use: {reason}", remedy) from None


# Targets by what a device says of itself.
KINDS = {
    "TPU v5 lite": "tpu:v5e", "TPU v5e": "tpu:v5e", "TPU v5": "tpu:v5p", "TPU v5p": "tpu:v5p", "TPU v6 lite": "tpu:v6e",
    "TPU v6e": "tpu:v6e", "TPU7x": "tpu:7x", "TPU v7x": "tpu:7x",
}  # fmt: skip


def _named(target: str) -> tuple[str, tuple[int, ...]]:
    """A target as a generation and the chips along each axis of its slice."""
    generation, _, size = target.removeprefix("tpu").lstrip(":").partition(":")
    generation = _ALIASES.get(generation, generation) or "v5e"
    sizes = re.fullmatch(r"\d+(x\d+)*", size) and tuple(int(n) for n in size.split("x"))
    if generation not in GENERATIONS or (size and not sizes):
        raise ArgumentError(
            f"there is no TPU topology named {target!r}",
            f"tpu:GENERATION or tpu:GENERATION:SIZE, with one of {', '.join(GENERATIONS)} and a size such as 2x2",
        )
    axes = GENERATIONS[generation][1]
    sizes = sizes or (1,) * axes
    if len(sizes) > axes and any(n != 1 for n in sizes[axes:]):
        raise ArgumentError(
            f"{target!r}: slices of {generation} have {axes} axes", f"a size such as {'x'.join('2' * axes)}"
        )
    return generation, sizes[:axes] + (1,) * (axes - len(sizes))


@once
def devices(target: str) -> tuple[Any, ...]:
    """The devices of a target's topology, for compiling alone.

    Raises:
      ArgumentError: a topology that there is not.
      VersionError: libtpu is missing or of another version.
    """
    generation, sizes = _named(target)
    load()
    name, _ = GENERATIONS[generation]
    chips = (*sizes, 1)[:3]
    small = all(n <= most for n, most in zip(chips, _HOST, strict=True))  # part of one host, or all of it
    options = {"chips_per_host_bounds": list(chips)} if small else {}
    try:
        return tuple(shim.tpu_devices(f"{name}:{'x'.join(map(str, sizes))}", **options))
    except shim.RuntimeFault as error:
        reason = re.sub(r"^[A-Z_]+: ", "", str(error).splitlines()[0])
        raise ArgumentError(
            f"there is no TPU topology {target!r}: {reason}",
            f"sizes of {generation} are 1x1, 1x2, 2x1, 2x2 and multiples of 2x2"
            + (", by any third size" if len(sizes) > 2 else ""),
        ) from None


_MEMORY = re.compile(
    r"Ran out of memory on HBM[^(]*\((?P<held>[\d.]+[KMG])\) exceeds available HBM \((?P<most>[\d.]+[KMG])\)"
    r"|memory space hbm\. Used (?P<used>[\d.]+[KMG]) of (?P<limit>[\d.]+[KMG])"
)


def compile(text: str, target: str, name: str, count: int = 1) -> Binary:
    """The text of a StableHLO module as a program for the first device of a topology, or for all `count` of them.

    Raises:
      ArgumentError: an unknown topology.
      MeshError: a mesh of another size than the topology.
      VersionError: libtpu is missing or of another version.
      ResourceError: it needs more memory than the device has.
      CompileError: the compiler refuses the program; `what` holds its message.
    """
    found = list(devices(target))
    if count > 1 and len(found) != count:
        raise MeshError(f"{name} runs on a mesh of {plural(count, 'device')}, and {target} has {len(found)}",
                        "name a slice of that size, such as tpu:v5e:2x2")  # fmt: skip
    found = found[:count]
    options = shim.assigned_to([d.id for d in found], shim.CompileOptions())
    try:
        executable = shim.compile_ahead(found, text, options)
    except shim.RuntimeFault as error:
        if short := _MEMORY.search(str(error)):
            used, most = (re.sub(r"([KMG])$", r" \1iB", next(filter(None, sizes)))
                          for sizes in (short.group("held", "used"), short.group("most", "limit")))  # fmt: skip
            raise ResourceError(
                f"{name} for {target}: it needs {used} of the device's memory at once, and there are {most}",
                "compute in parts (`lax.map`), keep less for the derivative (`checkpoint`), or use more devices",
            ) from None
        raise CompileError(f"{name} for {target}: {error}", "`compile(f, ..., stop='module')` shows its text") from None
    return Binary(name, target, text, executable)
