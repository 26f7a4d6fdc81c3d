"""The XLA clients and their devices, made when first needed: the CPU's, and those of GPUs and TPUs where there are."""

from __future__ import annotations

import functools
import gc
import os
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from ...core.support import forks
from ...core.support.config import config, current
from ...core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    ConfigError,
    CoordinatorError,
    DriverError,
    TilewrightError,
    VersionError,
)
from ...core.support.lazy_imports import LazyModule
from ...core.support.memo import once
from ...core.support.runtime import runtime
from ..host import malloc_tuning
from ..jaxlib import shim
from .coordination import group

if TYPE_CHECKING:
    from ...core.sharding import mesh as meshes
else:
    meshes = LazyModule("...core.sharding.mesh", __package__)


class _Cpu:
    """The CPU's client, once there is one."""

    def __init__(self) -> None:
        self.client: Any = None
        self.lock = threading.Lock()


_cpu = runtime.part("client.cpu", _Cpu())

# Files that NVIDIA's driver makes; looking for them costs nothing where there is no GPU.
DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")
# And what the drivers of TPUs make, the second for other devices too.
TPU_FILES = ("/dev/accel0", "/dev/vfio")
ALIASES = {"cuda": "gpu"}


class DeviceWarning(UserWarning):
    """There is a GPU or a TPU, and it cannot be used."""


@dataclass(frozen=True, eq=False)
class Device:
    """A device: `platform`, `id`, `device_kind`. There is one object for each."""

    platform: str
    id: int
    device_kind: str
    process_index: int = 0

    @property
    def local_hardware_id(self) -> int:
        """The number of the device within its process; that of another process's device is None."""
        return self.raw.local_hardware_id

    @property
    def host_id(self) -> int:
        """The number of the process that the device belongs to."""
        return self.process_index

    @property
    def core_count(self) -> int:
        """How many multiprocessors a GPU has; 1 where the driver does not say."""
        return getattr(self.raw, "core_count", 1)

    @property
    def client(self) -> Any:
        """jaxlib's client of the platform, which describes the runtime."""
        return self.raw.client

    def addressable_memories(self) -> list[Any]:
        """jaxlib's objects for the memories that the device reaches; their names are `kind`."""
        return self.raw.addressable_memories()

    def default_memory(self) -> Any:
        """jaxlib's object for the memory in which the device computes."""
        return self.raw.default_memory()

    def memory_stats(self) -> dict[str, Any] | None:
        """The bytes in use, their peak and limit, as far as the device's driver counts them; None on the CPU."""
        return self.raw.memory_stats()

    @functools.cached_property
    def raw(self) -> Any:
        """jaxlib's object for this device."""
        return next(d for d in _raw_devices(self.platform) if d.id == self.id)

    @functools.cached_property
    def sharding(self) -> Any:
        """jaxlib's sharding that places an array wholly on this device."""
        return shim.SingleDeviceSharding(self.raw)

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    def __str__(self) -> str:
        return f"{self.platform}:{self.id}"


@dataclass(frozen=True, slots=True)
class SingleDeviceSharding:
    """Places an array wholly on one device, in the memory in which it computes (`memory_kind` None or "device").

    Of another kind of memory, such as "pinned_host", it is a `NamedSharding` over a mesh of that device.

    Raises:
      ArgumentError: a kind of memory that no device has.
    """

    device: Device
    _: KW_ONLY
    memory_kind: str | None = "device"

    def __new__(cls, device: Any = None, *, memory_kind: str | None = "device") -> Any:  # without a device by `copy`
        if memory_kind in (None, "device"):
            return object.__new__(cls)
        return meshes.NamedSharding(meshes.Mesh([device], ("device",)), meshes.PartitionSpec(), memory_kind)

    def __post_init__(self) -> None:
        object.__setattr__(self, "memory_kind", "device")

    @property
    def device_set(self) -> set[Device]:
        return {self.device}

    @property
    def is_fully_replicated(self) -> bool:
        return True

    @property
    def is_fully_addressable(self) -> bool:
        return self.device.process_index == runtime.process_index

    num_devices = 1

    @property
    def addressable_devices(self) -> set[Device]:
        return self.device_set if self.is_fully_addressable else set()

    def shard_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of what the device holds: all of the array."""
        return tuple(global_shape)

    def devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        """The device, with the slices of the array that it holds: all of it."""
        return {self.device: (slice(None),) * len(global_shape)}

    def addressable_devices_indices_map(self, global_shape: Sequence[int]) -> dict[Device, tuple[slice, ...]]:
        """The same, where the device is one of this process."""
        return self.devices_indices_map(global_shape) if self.is_fully_addressable else {}

    _addressable_device_assignment = addressable_devices  # orbax asks for it

    def is_equivalent_to(self, other: Any, ndim: int) -> bool:
        """Whether both shardings place arrays of `ndim` dimensions alike."""
        return other.device_set == {self.device} and getattr(other, "kind", None) is None

    def placed(self, what: str = "") -> None:
        """What programs are told of it, among the shardings of their arguments and results: nothing.

        Raises:
          ArgumentError: it is not on the device that they run on.
        """
        if self.device is not default_device():
            raise ArgumentError(f"{what} is on {self.device!r}, and programs run on {default_device()!r}",
                                "use a NamedSharding over a mesh of that device, or `default_device`")  # fmt: skip

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r})"


def set_num_cpu_devices(count: int) -> None:
    """Have several virtual CPU devices; only before the first use of a device."""
    config.update("num_cpu_devices", count)


def _check_num_cpu_devices(count: int) -> None:
    """Raise an error where there is a client already, with another number of devices."""
    if _cpu.client is not None and count != len(_cpu.client.local_devices()):
        here = len(_cpu.client.local_devices())
        raise ConfigError(
            f"num_cpu_devices={count} was asked for, and this process computes on {here} already",
            f"set it before the first array is made, or set TILEWRIGHT_NUM_CPU_DEVICES={count} for the process",
        )


runtime.parts["config.guards"]["num_cpu_devices"] = _check_num_cpu_devices


def client(platform: str = "cpu") -> Any:
    """jaxlib's client for the devices of a platform.

    Raises:
      ForkError: this process was forked from one that had used a device.
    """
    forks.check()
    return {"cpu": _cpu_client, "gpu": _gpu_client, "tpu": _tpu_client}[platform]()


def _cpu_client() -> Any:
    if _cpu.client is None:
        with _cpu.lock:
            if _cpu.client is None:
                malloc_tuning.keep_freed_memory()
                _cpu.client = _made()
                forks.mark_used()
                gc.callbacks.append(_collected)
    return _cpu.client


def _among() -> dict[str, Any]:
    """What makes the client one of several processes'; it waits for all of them to make theirs."""
    if group.store is None:
        return {}
    return shim.among_processes(group.store, runtime.process_index, runtime.process_count, group.host)


def _made() -> Any:
    count, among = current().num_cpu_devices or None, _among()
    try:
        with group.waiting("the first use of a device, which takes all processes"):
            return shim.make_cpu_client(count, runs_ahead(), **among)
    except shim.RuntimeFault as error:
        raise CoordinatorError(f"the devices of {runtime.process_count} processes were not found: {error}",
                               "every process has to use a device at some time") from None  # fmt: skip


def started() -> bool:
    """Whether there are devices already, so that it is too late to say how many."""
    return _cpu.client is not None or present.cache_info().currsize > 0


def _collected(phase: str, _: dict[str, int]) -> None:
    """Have XLA let go of the host arrays that it holds for nobody, whenever Python looks for garbage."""
    if phase == "stop" and not forks.used_in_parent:
        shim.collect_garbage()


class ForkWarning(RuntimeWarning):
    """The process was forked after its first computation."""


def _before_fork() -> None:
    if _cpu.client is not None:
        warnings.warn(
            "os.fork() was called after the first computation; the threads that run programs are not in the child, "
            "so that a computation there raises ForkError. Start processes by multiprocessing.get_context('spawn'), "
            "or fork before anything is computed",
            ForkWarning,
            stacklevel=2,
        )


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork)


def runs_ahead() -> bool:
    """Whether calls on the CPU return before their programs have run.

    By default not with two processors or fewer, where a change of threads costs small programs more than they compute.
    """
    return runs_ahead_on(processors(), current().cpu_enable_async_dispatch)


def runs_ahead_on(count: int, asked: bool | None) -> bool:
    """The same for a number of processors and what the setting says."""
    return count > 2 if asked is None else asked


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def gpu_problem() -> TilewrightError | None:
    """Why there are no GPUs to compute on, None if there are."""
    return _gpu()[1]


def _gpu_client() -> Any:
    return _gpu()[0]


@once
def _gpu() -> tuple[Any, TilewrightError | None]:
    """The client of the GPUs, or why there is none."""
    if not any(map(os.path.exists, DRIVER_FILES)) or os.environ.get("CUDA_VISIBLE_DEVICES") in ("", "-1"):
        return None, DriverError(
            "there is no GPU here, or no driver for it", "`compile(f, ..., target='cuda')` compiles"
        )
    from . import cuda_plugin as cuda  # here: only where there is a GPU

    try:
        return cuda.make_client(), None
    except (DriverError, VersionError) as error:
        if cuda.installed():
            warnings.warn(f"computing on the CPU, although there is a GPU: {error.what}", DeviceWarning, stacklevel=2)
        return None, error


def _tpu_client() -> Any:
    return _tpu()[0]


@once
def _tpu() -> tuple[Any, TilewrightError | None]:
    """The client of the TPUs, or why there is none."""
    if not any(map(os.path.exists, TPU_FILES)) or os.environ.get("TPU_VISIBLE_CHIPS") == "":
        return None, no_tpu()
    from . import tpu_plugin as tpu  # here: only where there may be a TPU

    return client_or_reason(tpu.chips(), tpu.make_client, tpu.installed())


def no_tpu() -> DriverError:
    return DriverError("there is no TPU here", "`compile(f, ..., target='tpu:v5e')` compiles for one")


def client_or_reason(chips: int, make: Callable[[], Any], installed: bool) -> tuple[Any, TilewrightError | None]:
    """A client of some TPU chips, or why there is none: with a warning where libtpu is installed and finds none."""
    if not chips:
        return None, no_tpu()
    try:
        return make(), None
    except (DriverError, VersionError) as error:
        if installed:
            warnings.warn(f"computing without the TPU that is here: {error.what}", DeviceWarning, stacklevel=2)
        return None, error


@once
def _raw_devices(platform: str) -> tuple[Any, ...]:
    """The devices of all processes."""
    return tuple(client(platform).devices())


@once
def present() -> tuple[str, ...]:
    """The platforms that have devices here, that of the default device first; of those that `platforms` names.

    Raises:
      ConfigError: there is none of these here.
    """
    asked = [ALIASES.get(name, name) for name in current().platforms.split(",") if name]
    wanted = asked or ["tpu", "gpu", "cpu"]
    found = tuple(p for p in wanted if p == "cpu" or (p in ("tpu", "gpu") and client(p) is not None))
    if not found:
        raise ConfigError(f"platforms={current().platforms!r}, and there is no such device here", "name 'cpu' too")
    return found


def _check_platforms(names: str) -> None:
    if _cpu.client is not None and names != current().platforms:
        raise ConfigError(f"platforms={names!r} was asked for after the first computation", "set it before")


runtime.parts["config.guards"]["platforms"] = _check_platforms


@once
def all_devices() -> tuple[Device, ...]:
    """The devices of all processes, those of the default platform first."""
    return tuple(Device(p, d.id, d.device_kind, d.process_index) for p in present() for d in _raw_devices(p))


@once
def device_list(device: Device) -> Any:
    """jaxlib's list of one device, as executables are given."""
    return shim.DeviceList((device.raw,))


def as_device(device: object) -> Device:
    """A device from a Device, a sharding on one device, or a platform's name."""
    if isinstance(device, Device):
        return device
    if isinstance(device, SingleDeviceSharding):
        return device.device
    if isinstance(device, str):
        return next(d for d in of_platform(device) if d.process_index == runtime.process_index)
    raise ArgumentTypeError(
        f"{device!r} of type {type(device).__name__} does not name a device",
        "pass an element of `devices()`, or a platform's name such as 'cpu'",
    )


def of_platform(name: str) -> list[Device]:
    """The devices of a platform: `cpu`, `tpu`, or `gpu`, which is also called `cuda`.

    Raises:
      DriverError, VersionError: a GPU or a TPU was asked for, and there is none that can be used.
      ArgumentError: no such platform.
    """
    platform = ALIASES.get(name, name)
    if platform in present():
        return [d for d in all_devices() if d.platform == platform]
    if platform == "gpu":
        raise gpu_problem() or DriverError("there is no GPU here")
    if platform == "tpu":
        raise _tpu()[1] or DriverError("there is no TPU here")
    raise ArgumentError(f"there is no device of platform {name!r} here", f"one of {sorted(present())}")


@once
def _first_device() -> Device:
    return next(d for d in all_devices() if d.process_index == runtime.process_index)


def default_device() -> Device:
    """The device that new arrays are put on: the configuration's `default_device`, else the first."""
    chosen = current().default_device
    return _first_device() if chosen is None else as_device(chosen)


@once
def _by_raw() -> dict[Any, Device]:
    return {device.raw: device for device in all_devices()}


def device_of(buffer: Any) -> Device:
    """The device that holds a buffer."""
    raw = shim.device(buffer)
    return _first_device() if raw is None else _by_raw()[raw]
