"""NVIDIA's driver through cuda-python: what launching kernels takes of it, and its errors by name."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.support.errors import DriverError, VersionError
from ..core.support.runtime import runtime

PIP = "pip install 'tilewright[cuda]'"
STATIC_SHARED = 48 * 1024  # bytes that a kernel may have without asking; CUDA programming guide, "Shared memory"
_HOST = 1  # CU_MEMORYTYPE_HOST


class Driver:
    """The calls of CUDA's driver that a launch needs; `bindings` is the module `cuda.bindings.driver`.

    Functions are handles of kernels that belong to no context, so one serves every device.
    """

    def __init__(self, bindings: Any):
        self.bindings = bindings
        self._contexts: dict[int, Any] = {}
        self._check("cuInit", 0)

    def _check(self, name: str, *args: Any) -> Any:
        try:
            code, *values = getattr(self.bindings, name)(*args)
        except (RuntimeError, ImportError) as error:  # the library of the driver is not there
            remedy = "run on a machine with a GPU; `compile(f, ..., target='cuda')` needs none"
            raise DriverError(f"there is no NVIDIA driver here: {str(error).splitlines()[0]}", remedy) from None
        if int(code) != 0:
            raise self._error(name, code, "see NVIDIA's list of CUresult")
        return values[0] if len(values) == 1 else values

    def _error(self, name: str, code: Any, remedy: str) -> DriverError:
        _, text = self.bindings.cuGetErrorName(code)
        return DriverError(f"{name}: {text.decode() if isinstance(text, bytes) else text}", remedy)

    def _attribute(self, device: int, name: str) -> int:
        return int(self._check("cuDeviceGetAttribute", getattr(self.bindings.CUdevice_attribute, name), device))

    def capability(self, device: int) -> tuple[int, int]:
        """The compute capability of a device."""
        major, minor = (f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}" for part in ("MAJOR", "MINOR"))
        return self._attribute(device, major), self._attribute(device, minor)

    def device_of(self, pointer: int) -> int | None:
        """The device whose memory an address is in; None for the host's, or none at all."""
        attributes = self.bindings.CUpointer_attribute
        code, kind = self.bindings.cuPointerGetAttribute(attributes.CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer)
        if int(code) != 0 or int(kind) == _HOST:
            return None
        return int(self._check("cuPointerGetAttribute", attributes.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer))

    def enter(self, device: int) -> None:
        """Make a device's primary context the current one, unless it is."""
        wanted = self._context(device)
        if int(self._check("cuCtxGetCurrent")) != int(wanted):
            self._check("cuCtxSetCurrent", wanted)

    def _context(self, device: int) -> Any:
        found = self._contexts.get(device)
        if found is None:
            found = self._contexts[device] = self._check("cuDevicePrimaryCtxRetain", device)
        return found

    def function(self, image: bytes, name: str, shared: int, device: int) -> Any:
        """The handle of a kernel in a cubin or in PTX, allowed to have some bytes of shared memory."""
        library = self._check("cuLibraryLoadData", image, [], [], 0, [], [], 0)
        kernel = self._check("cuLibraryGetKernel", library, name.encode())
        if shared > STATIC_SHARED:
            limit = self.bindings.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self._check("cuKernelSetAttribute", limit, shared, kernel, device)
        return self.bindings.CUfunction(int(kernel))

    def launch(
        self, function: Any, grid: tuple[int, int, int], threads: int, shared: int, stream: int, pointers: Sequence[int]
    ) -> None:
        """Put a launch on a stream; all arguments are pointers."""
        count = len(pointers)
        values = (ctypes.c_void_p * count)(*pointers)
        first = ctypes.addressof(values)
        addresses = (ctypes.c_void_p * count)(*range(first, first + 8 * count, 8))
        (code,) = self.bindings.cuLaunchKernel(
            function, *grid, threads, 1, 1, shared, stream, ctypes.addressof(addresses), 0
        )
        if int(code) != 0:
            remedy = "an earlier launch on this device may have failed: CUDA reports that late"
            raise self._error("cuLaunchKernel", code, remedy)

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        """Put a copy from device memory to device memory on a stream."""
        self._check("cuMemcpyDtoDAsync", target, source, nbytes, stream)

    def upload(self, target: int, array: np.ndarray, stream: int) -> None:
        """Put a copy from the host on a stream; the array may change as soon as this returns."""
        self._check("cuMemcpyHtoDAsync", target, array.ctypes.data, array.nbytes, stream)

    def allocate(self, nbytes: int, stream: int) -> int:
        """Memory of the current device, to be used on a stream."""
        return int(self._check("cuMemAllocAsync", max(nbytes, 1), stream))

    def free(self, pointer: int, stream: int) -> None:
        """Give memory back once what is on the stream is done."""
        self._check("cuMemFreeAsync", pointer, stream)


class _State:
    """The driver of this process, once there is one."""

    driver: Any = None


_state = runtime.part("interop.driver", _State())


def driver() -> Any:
    """The driver of this process.

    Raises:
      VersionError: cuda-python is not installed.
      DriverError: there is no driver, or no device.
    """
    if _state.driver is None:
        try:
            bindings = importlib.import_module("cuda.bindings.driver")
        except ImportError:
            raise VersionError("kernels are launched through cuda-python, which is not installed", PIP) from None
        _state.driver = Driver(bindings)
    return _state.driver


def set_driver(chosen: Any) -> Any:
    """Use another driver (None: the real one); gives the one until now."""
    before, _state.driver = _state.driver, chosen
    return before
