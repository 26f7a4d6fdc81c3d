"""The XLA client and its devices, made when first needed."""

from __future__ import annotations

import functools
import threading
from dataclasses import dataclass
from typing import Any

from ..core.config import current
from ..core.errors import ArgumentError, ArgumentTypeError
from . import memory, shim

_lock = threading.Lock()
_num_devices: int | None = None
_client: Any = None


@dataclass(frozen=True, eq=False)
class Device:
    """A device: `platform`, `id`, `device_kind`. There is one object for each."""

    platform: str
    id: int
    device_kind: str
    process_index: int = 0

    @property
    def local_hardware_id(self) -> int:
        return self.id

    @functools.cached_property
    def raw(self) -> Any:
        """jaxlib's object for this device."""
        return _raw_devices()[self.id]

    @functools.cached_property
    def sharding(self) -> Any:
        """jaxlib's sharding that places an array wholly on this device."""
        return shim.SingleDeviceSharding(self.raw)

    def __repr__(self) -> str:
        return f"{self.platform.capitalize()}Device(id={self.id})"

    __str__ = __repr__


@dataclass(frozen=True, slots=True)
class SingleDeviceSharding:
    """Places an array wholly on one device."""

    device: Device

    @property
    def device_set(self) -> set[Device]:
        return {self.device}

    @property
    def is_fully_replicated(self) -> bool:
        return True

    @property
    def is_fully_addressable(self) -> bool:
        return True

    def __repr__(self) -> str:
        return f"SingleDeviceSharding(device={self.device!r})"


def set_num_cpu_devices(count: int) -> None:
    """Ask for several virtual CPU devices; only before the first use of a device."""
    global _num_devices
    if _client is not None:
        raise ArgumentError("the CPU client already exists", "set the number of devices before the first computation")
    _num_devices = count


def client() -> Any:
    """jaxlib's CPU client."""
    global _client
    if _client is None:
        with _lock:
            if _client is None:
                memory.keep_freed_memory()
                _client = shim.make_cpu_client(_num_devices)
    return _client


@functools.cache
def _raw_devices() -> tuple[Any, ...]:
    return tuple(client().local_devices())


@functools.cache
def all_devices() -> tuple[Device, ...]:
    """The devices of this process."""
    return tuple(Device(d.platform, d.id, d.device_kind, d.process_index) for d in _raw_devices())


@functools.cache
def device_list(device: Device) -> Any:
    """jaxlib's list of one device, as executables are given."""
    return shim.DeviceList((device.raw,))


def as_device(device: Any) -> Device:
    """A device from a Device, a sharding on one device, or a platform's name."""
    if isinstance(device, Device):
        return device
    if isinstance(device, SingleDeviceSharding):
        return device.device
    if isinstance(device, str):
        found = [d for d in all_devices() if d.platform == device]
        if not found:
            raise ArgumentError(f"there is no device of platform {device!r} here", f"one of {sorted(platforms())}")
        return found[0]
    raise ArgumentTypeError(
        f"{device!r} of type {type(device).__name__} does not name a device",
        "pass an element of `devices()`, or a platform's name such as 'cpu'",
    )


def platforms() -> set[str]:
    return {d.platform for d in all_devices()}


@functools.cache
def _first_device() -> Device:
    return all_devices()[0]


def default_device() -> Device:
    """The device that new arrays are put on: the configuration's `default_device`, else the first."""
    chosen = current().default_device
    return _first_device() if chosen is None else as_device(chosen)


def device_of(buffer: Any) -> Device:
    """The device that holds a buffer."""
    index = shim.device_id(buffer)
    return _first_device() if index is None else all_devices()[index]
