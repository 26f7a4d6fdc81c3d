"""Compiling a Module, or taking its executable from memory or disk."""

from __future__ import annotations

import functools
import os
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.array_layout import Layout
from ...core.ir.types import ArrayType
from ...core.jit.stages import EFFORTS
from ...core.support.compile_events import COMPILE, HIT, LOAD, record, recorded
from ...core.support.errors import CompileError, ShapeError
from ...core.support.runtime import runtime
from ...core.support.version import JAXLIB, __version__
from ..arrays.transfer import physical
from ..cpu_passes.strip_debug_info import without_places
from ..devices.client import Device, SingleDeviceSharding, client, default_device, device_list
from ..devices.coordination import group, processes_of
from ..host import callback_errors, malloc_tuning, mmap_watch
from ..host.digest import digest
from ..host.disk_cache import cpu_features, disk_cache
from ..jaxlib import shim
from ..pipeline.stablehlo_module import Module

# Part of every key of the disk cache: raised when the meaning of cached executables changes.
CACHE_VERSION = "4"
EXECUTABLES_KEPT = 4096

# What programs call LAPACK on the host by, which has to be there before they are compiled or loaded.
_SPARSE = '"cpu_csr_sparse_dense_ffi"'
_LAPACK = re.compile(r'"(?:lapack_\w+|tridiagonal_solve_perturbed_ffi|cuhybrid_\w+)"')

_loaded = runtime.cache("executable.loaded", EXECUTABLES_KEPT)


class Executable:
    """A compiled Module: jaxlib's executable for one device, with the Module that says how to call it.

    `members` are the processes that run it, empty for a single process; `mark` is its fingerprint. `compiled`: this
    process compiled it, rather than loaded it from bytes. `pinned`: it runs on its device, wherever its arguments are.
    """

    __slots__ = ("module", "loaded", "device", "members", "mark", "compiled", "pinned")
    loaded: Any
    device: Device
    members: tuple[int, ...]
    mark: str
    compiled: bool
    pinned: bool

    def __init__(
        self, module: Module, loaded: Any, device: Device, members: tuple[int, ...] = (), mark: str = "",
        compiled: bool = False,
    ):  # fmt: skip
        self.module, self.loaded, self.device = module, loaded, device
        self.members, self.mark, self.compiled, self.pinned = members, mark, compiled, False

    def as_text(self) -> str:
        """The optimised HLO."""
        return "\n\n".join(m.to_string() for m in self.loaded.hlo_modules())

    __str__ = as_text

    def shardings(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """The shardings of the arguments, and those of the results."""
        module, place = self.module, self.module.place
        count = len(module.constants)
        if place is None:
            here = SingleDeviceSharding(self.device)
            return (here,) * (len(module.in_types) - count), (here,) * len(module.out_types)
        return tuple(place.ins[count:]), tuple(place.outs)

    def layouts(self) -> tuple[list[Layout], list[Layout]]:
        """The layouts in memory of the arguments and of the results."""
        ins, outs = self.loaded.get_parameter_layouts(), self.loaded.get_output_layouts()
        count = len(self.module.constants)
        return [*map(Layout.from_pjrt_layout, ins[count:])], [*map(Layout.from_pjrt_layout, outs)]

    def serialize(self) -> bytes:
        """XLA's bytes of the program; one that was loaded from bytes is compiled once more, as XLA's lack its code."""
        return (self.loaded if self.compiled else _compile(self.module, self.device)).serialize()

    def cost_analysis(self) -> dict[str, float]:
        """XLA's estimates: `flops`, `bytes accessed`, `transcendentals` and their parts."""
        return dict(self.loaded.cost_analysis())

    def memory_analysis(self) -> Any:
        """The bytes of code, arguments, outputs and temporary memory."""
        return self.loaded.get_compiled_memory_stats()

    def host_bytes(self) -> int:
        """The bytes of this machine's memory that a run takes for results and temporary values; 0 for small programs.

        XLA is only asked about programs on a good deal of data: its answer takes as long as compiling a small one.
        """
        module = self.module
        made = sum(t.nbytes for t in map(physical, module.out_types) if isinstance(t, ArrayType))
        given = sum(t.nbytes for t in map(physical, module.in_types) if isinstance(t, ArrayType))
        if self.device.platform != "cpu" or made + given < malloc_tuning.LARGE:
            return 0
        return made + self.memory_analysis().temp_size_in_bytes


def options(device: Device, settings: Sequence[tuple[str, Any]] = ()) -> Any:
    """How programs for a device are compiled; `settings` are those of one program, which `XLA_FLAGS` overrules."""
    found = _options(device, [(name, value) for name, value in settings if name not in EFFORTS])
    for name, value in settings:
        if name in EFFORTS:
            setattr(found.executable_build_options, name, value)
    return found


def _options(device: Device, settings: Sequence[tuple[str, Any]]) -> Any:
    if device.platform == "gpu":
        from ..devices import cuda_plugin

        found = cuda_plugin.options(device.id, cuda_plugin.capability(device.raw) >= (10, 0))
        if settings:
            found.env_option_overrides = [*found.env_option_overrides, *settings]
        return found
    found = shim.CompileOptions()
    if device.id:
        found.device_assignment = shim.assigned(device.id)
    flags = os.environ.get("XLA_FLAGS", "")
    found.env_option_overrides = [(name, value) for name, value in settings if name not in flags]
    return found


def compiled_for(module: Module, device: Device, settings: Sequence[tuple[str, Any]] = ()) -> tuple[Any, Any]:
    """What a module is compiled for: the devices of its mesh, or one."""
    asked = options(device, settings)
    if module.place is None or module.place.devices is None:
        return device_list(device), asked
    raws = tuple(d.raw for d in module.place.devices)
    return shim.DeviceList(raws), shim.assigned_to([d.id for d in raws], asked)


def compile_module(module: Module, on: Device | None = None) -> Executable:
    """The executable of a Module. Those with host callbacks are tied to their functions and never shared."""
    devices = None if module.place is None else module.place.devices
    device = devices[0] if devices else default_device() if on is None else on
    module = module.on(device)
    members = processes_of(devices)
    mark = _agreed(module, devices or (), members) if members else ""
    if _LAPACK.search(module.text):
        _need_lapack(device)
    if _SPARSE in module.text:
        shim.sparse()
    if module.callbacks or module.keep_alive:
        return Executable(module, _compile(module, device), device, members, mark, True)
    where = f"{device.platform} {[d.id for d in devices] if devices else device.id}"
    if members:
        where += f" process {runtime.process_index} of {runtime.process_count}"
    name = digest(module.text, _environment(device), f"{where} {module.settings} {module.placeless}")
    found = _loaded.touch(name)
    if found is None:
        found = _loaded.keep(name, _from_disk(name, module, device))
    else:
        record(HIT, module.name)
    loaded, compiled = found
    return Executable(module, loaded, device, members, mark, compiled)


def _agreed(module: Module, devices: Sequence[Device], members: tuple[int, ...]) -> str:
    """Hold a program of several processes against what the others are about to compile; gives its fingerprint."""
    held = [c for c in module.constants if getattr(c, "_placed", None) is None]
    about = {
        "arguments": ", ".join(t.show() for t in module.in_types),
        "text": digest(module.text)[:12],
        "constants": digest(*(np.asarray(_bits(c)).tobytes() for c in held))[:12],
        "devices": str([d.id for d in devices]),
        "compiler": digest(str(module.settings), os.environ.get("XLA_FLAGS", ""))[:12],
    }
    return group.agree(f"the program {module.name}", about, members)


def _bits(constant: Any) -> Any:
    return constant._bits() if hasattr(constant, "_bits") else constant


def _need_lapack(device: Device) -> None:
    if device.platform == "gpu":
        from ..devices import cuda_plugin

        cuda_plugin.lapack_on_host()
    else:
        shim.lapack()


def _environment(device: Device) -> str:
    flags = os.environ.get("XLA_FLAGS", "")
    if device.platform == "cpu":
        machine = (cpu_features(), flags, options(device).SerializeAsString().hex())
    else:  # without the options, which name a folder of this process
        machine = (device.device_kind, device.raw.client.platform_version, flags, str(device.id))
    return "\n".join((CACHE_VERSION, __version__, JAXLIB, *machine))


def _from_disk(name: str, module: Module, device: Device) -> tuple[Any, bool]:
    """XLA's executable, and whether it was compiled rather than loaded."""
    cache = disk_cache()
    if cache is None:
        return _compile(module, device), True
    data = cache.load(name)
    if data is not None:
        try:
            mmap_watch.about_to_load()
            with recorded(LOAD, module.name):
                return shim.deserialize(client(device.platform), data, *compiled_for(module, device)), False
        except shim.RuntimeFault:
            cache.discard(name, "is not an executable that this jaxlib can load")
    loaded = _compile(module, device)
    try:
        cache.store(name, loaded.serialize())
    except shim.RuntimeFault:
        pass  # an executable with parts that XLA cannot serialise is compiled each time
    return loaded, True


_calling = runtime.part("executable.calling", threading.local())


def in_callback() -> bool:
    """Whether this thread is running a program's host callback."""
    return getattr(_calling, "depth", 0) > 0


def _guarded(callback: Callable[..., Any]) -> Any:
    """A host callback during which `in_callback` is true."""

    @functools.wraps(callback)
    def guarded(*arrays: Any) -> Any:
        _calling.depth = getattr(_calling, "depth", 0) + 1
        try:
            return callback(*arrays)
        except Exception as error:
            callback_errors.note(error)
            raise
        finally:
            _calling.depth -= 1

    return guarded


def _compile(module: Module, device: Device) -> Any:
    callbacks = [_guarded(c) for c in module.callbacks]
    text = without_places(module.text) if module.placeless else module.text
    mmap_watch.about_to_load()
    try:
        devices, asked = compiled_for(module, device, module.settings)
        with recorded(COMPILE, module.name):
            return shim.compile_and_load(client(device.platform), text, devices, asked, callbacks)
    except RuntimeError as error:  # `shim.RuntimeFault` is one
        message = str(error)
        if "static extent product" in message or "invalid dimension" in message:
            raise ShapeError(f"{module.name} has an array of 2**63 elements or more", "make it smaller") from None
        if not isinstance(error, shim.RuntimeFault):
            raise
        raise CompileError(
            f"XLA refused the program {module.name}: {message[:2000]}",
            "`compile(f, ..., stop='module')` shows the text; unless it has a custom call, the fault is tilewright's",
        ) from None
