"""Programs compiled by XLA's CUDA plugin, for GPUs that need not be here, and the client of those that are.

The plugin is jax's, loaded without jax. ptxas and libdevice, which XLA runs, are those inside Triton's package.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import importlib.metadata
import importlib.util
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from ...core.support.errors import CompileError, DriverError, VersionError
from ...core.support.memo import once
from ...core.support.runtime import runtime
from ...core.support.version import JAXLIB
from ...lang.gpu.target_config import BOARDS, description
from ...lang.targets.target import Target, target_of
from ..jaxlib import shim
from .aot_executable import Binary
from .coordination import group

PACKAGE, MODULE = "jax-cuda13-pjrt", "jax_plugins.xla_cuda13"
PIP = "pip install 'tilewright[cuda]'"


# ---------------------------------------------------------------------------- the plugin


def installed() -> bool:
    """Whether some version of the plugin is installed."""
    try:
        return importlib.util.find_spec(MODULE) is not None
    except ModuleNotFoundError:
        return False


def library() -> Path:
    """Where the plugin is.

    Raises:
      VersionError: it is missing, or of another version than jaxlib.
    """
    found = importlib.util.find_spec(MODULE) if installed() else None
    if found is None or not found.submodule_search_locations:
        raise VersionError("compiling for a CUDA GPU needs XLA's CUDA plugin, which is not installed", PIP)
    version = importlib.metadata.version(PACKAGE)
    if version != JAXLIB:
        raise VersionError(f"{PACKAGE} {version} is installed; it must be {JAXLIB}, as jaxlib is",
                           f"pip install '{PACKAGE}=={JAXLIB}'")  # fmt: skip
    return Path(found.submodule_search_locations[0]) / "xla_cuda_plugin.so"


NAME = "cuda"


@once
def load() -> tuple[str, Any]:
    """Load the plugin into this process: the name it has there, and its table of functions.

    Raises:
      VersionError: as `library`, or it cannot be loaded.
    """
    path = library()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # it logs its own loading otherwise
    try:
        # jax, in the same process, may have loaded it under the name `cuda`, and keeps its table of functions.
        for name in (NAME, f"tilewright_{NAME}"):
            plugin = shim.load_plugin(name, str(path))
            if plugin is not None:
                return name, plugin
    except (shim.RuntimeFault, OSError) as error:
        raise VersionError(f"{path} cannot be loaded: {str(error)[:500]}", PIP) from None
    raise VersionError(f"{path} is loaded twice by others in this process", "import tilewright first")


@once
def _toolkit(blackwell: bool) -> tempfile.TemporaryDirectory[str]:
    """A folder as XLA expects CUDA's to be, of links into Triton's package."""
    found = importlib.util.find_spec("triton")
    if found is None or not found.submodule_search_locations:
        raise VersionError("XLA's CUDA plugin needs ptxas and libdevice, which come with triton: not installed", PIP)
    own = Path(found.submodule_search_locations[0]) / "backends" / "nvidia"
    folder = tempfile.TemporaryDirectory(prefix="tilewright-cuda-")
    links = {
        "bin/ptxas": own / "bin" / ("ptxas-blackwell" if blackwell else "ptxas"),
        "nvvm/libdevice/libdevice.10.bc": own / "lib" / "libdevice.10.bc",
    }
    for name, place in links.items():
        link = Path(folder.name) / name
        link.parent.mkdir(parents=True)
        link.symlink_to(place)
    return folder


# Libraries of CUDA as packages install them, by folder below `nvidia`; XLA opens them by name, and finds these first.
_LIBRARIES = {
    "cu13": ("cudart.so.13", "nvrtc.so.13", "cublas.so.13", "cublasLt.so.13", "cusparse.so.12", "cusolver.so.12",
             "cufft.so.12", "cupti.so.13"),
    "cudnn": ("cudnn.so.9",),
    "nccl": ("nccl.so.2",),
}  # fmt: skip


def _open_libraries() -> None:
    nvidia = importlib.util.find_spec("nvidia")
    for root in [] if nvidia is None else list(nvidia.submodule_search_locations or ()):
        for folder, names in _LIBRARIES.items():
            for path in (Path(root) / folder / "lib" / f"lib{name}" for name in names):
                if path.exists():
                    with contextlib.suppress(OSError):
                        ctypes.CDLL(str(path), ctypes.RTLD_GLOBAL)


def _among() -> dict[str, Any]:
    """The plugin's options for a process among several."""
    found: dict[str, Any] = {}
    if group.store is not None:
        found = {"node_id": runtime.process_index, "num_nodes": runtime.process_count}
    if group.local_device_ids is not None:
        found["visible_devices"] = list(group.local_device_ids)
    return found


def make_client() -> Any:
    """A client of the GPUs of this machine.

    Raises:
      VersionError: the plugin is missing or of another version.
      DriverError: there is no GPU, or its driver does not work with the plugin.
    """
    library()
    _open_libraries()
    name, plugin = load()
    try:
        client = shim.make_plugin_client(name, group.store, **_among())
    except shim.RuntimeFault as error:
        reason = str(error).splitlines()[0]
        remedy = "a driver for CUDA 13 (see `nvidia-smi`), a GPU in CUDA_VISIBLE_DEVICES"
        raise DriverError(f"XLA's CUDA plugin finds no GPU that it can use: {reason}", remedy) from None
    _register(plugin)
    return client


# The plugin's modules with its own routines, those of cuSOLVER and cuSPARSE, and LAPACK's on the host.
_SOLVERS = ("_solver", "_sparse", "_linalg", "_hybrid")
_SOLVER_CALL = re.compile(r'"cu(?:solver|sparse|hybrid)?_\w+"')


@once
def _register(plugin: Any) -> None:
    """Give the plugin what its programs call: host callbacks and the routines of its modules."""
    shim.register_handlers(importlib.import_module("jax_cuda13_plugin.cuda_plugin_extension"), plugin)
    for part in _SOLVERS:
        shim.register_targets(importlib.import_module(f"jax_cuda13_plugin.{part}").registrations())


@once
def lapack_on_host() -> None:
    """Give the plugin SciPy's LAPACK, which some of its routines call."""
    importlib.import_module("jax_cuda13_plugin._hybrid").initialize()


def capability(device: Any) -> tuple[int, int]:
    """The compute capability of a GPU, from jaxlib's object for it."""
    major, minor = str(device.compute_capability).split(".")
    return int(major), int(minor)


def options(device_id: int, blackwell: bool = False) -> Any:
    """How programs are compiled for one GPU."""
    found = shim.CompileOptions()
    found.num_replicas = found.num_partitions = 1
    found.device_assignment = shim.assigned(device_id)
    found.executable_build_options.debug_options.xla_gpu_cuda_data_dir = _toolkit(blackwell).name
    return found


@once
def _devices(machine: Target, count: int = 1) -> tuple[Any, ...]:
    return tuple(shim.described_devices(load()[1], description(machine), count))


def compile(text: str, target: str, name: str, count: int = 1) -> Binary:
    """The text of a StableHLO module as a program for a GPU, or for `count` of them in one machine.

    For ROCm there is no compiler, and the text is all.

    Raises:
      VersionError: the plugin or Triton is missing or of another version.
      CompileError: the compiler refuses the program; `what` holds its message.
    """
    machine = target_of(target)
    if machine.kind != "cuda":
        return Binary(name, target, text, None)
    devices = list(_devices(machine, count))
    if _SOLVER_CALL.search(text):
        _register(load()[1])
    try:
        asked = options(devices[0].id, BOARDS[machine.name].capability >= (10, 0))
        if count > 1:
            asked = shim.assigned_to([d.id for d in devices], asked)
        executable = shim.compile_ahead(devices, text, asked)
    except shim.RuntimeFault as error:
        raise CompileError(f"{name} for {target}: {str(error)[:2000]}",
                           "`compile(f, ..., stop='module')` shows its text") from None  # fmt: skip
    return Binary(name, target, text, executable)
