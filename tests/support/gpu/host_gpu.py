"""Stand-ins for a GPU: a driver whose devices' memory is the host's, and which walks the modules of kernels."""

from __future__ import annotations

import ctypes
import math
import types
from typing import Any

import numpy as np
import pytest

from tilewright import mosaic_gpu, triton_backend
from tilewright.emulator.hopper import run_hopper
from tilewright.emulator.ttir import run_ttir
from tilewright.interop import driver, launch
from tilewright.lang.gpu.code import Compiled
from tilewright.mosaic_gpu import mosaic_gpu_module
from tilewright.mosaic_gpu.module import MosaicGpuModule
from tilewright.triton_backend import compiled_kernel, compiler


def _numbered(kind: str) -> Any:
    """The names of the driver's enumerations, of which each is its own value."""
    return types.SimpleNamespace(**{f"CU_TENSOR_MAP_{kind}_{name}": name for name in ("NONE", "128B")})


class HostDriver:
    """Launches walk the kernel's module on host memory at the addresses given; `log` is what was asked, in order."""

    bindings = types.SimpleNamespace(
        CUtensorMapDataType=int, cuuint64_t=int, cuuint32_t=int, CUtensorMapInterleave=_numbered("INTERLEAVE"),
        CUtensorMapSwizzle=_numbered("SWIZZLE"), CUtensorMapL2promotion=_numbered("L2_PROMOTION"),
        CUtensorMapFloatOOBfill=_numbered("FLOAT_OOB_FILL"))  # fmt: skip

    def __init__(self, capability: tuple[int, int] = (9, 0)):
        self.own = capability
        self.modules: dict[bytes, Any] = {}  # Triton programs by machine code
        self.log: list[tuple[Any, ...]] = []
        self.devices: dict[int, int] = {}  # by address; 0 where nothing is said
        self.host: set[int] = set()
        self.memory: dict[int, np.ndarray] = {}

    def capability(self, device: int) -> tuple[int, int]:
        return self.own

    def device_of(self, pointer: int) -> int | None:
        return None if pointer in self.host else self.devices.get(pointer, 0)

    def enter(self, device: int) -> None:
        self.log.append(("enter", device))

    def function(self, image: bytes, name: str, shared: int, device: int) -> Any:
        self.log.append(("load", name, device))
        return self.modules[image]

    def launch(self, function: Any, grid: Any, threads: int, shared: int, stream: int, pointers: Any) -> None:
        self.log.append(("launch", function.name, grid, threads, stream))
        taken = (*function.in_types, *function.out_types)
        assert len(pointers) == len(taken) + 2 and pointers[-1] == 0  # scratch memory, and the profiler's
        if isinstance(function, MosaicGpuModule):
            held = [at(p, t.shape, t.dtype) for p, t in zip(pointers, taken)]
            held.append(at(pointers[-2], (function.scratch,), np.uint8))
            for view, after in zip(held, run_hopper(function.text, held)):
                view[...] = after
            return
        assert bool(pointers[-2]) == ("make_tensor_descriptor" in function.text) and pointers[-2] % 128 == 0
        views = [at(p, t.shape, t.dtype) for p, t in zip(pointers, taken)]
        for view, after in zip(views, run_ttir(function.text, grid, [v.copy() for v in views])):
            view[...] = after

    def _check(self, name: str, *args: Any) -> Any:
        """A tensor descriptor: what it is made of, and the address, in 16 words."""
        assert name == "cuTensorMapEncodeTiled"
        kind, rank, pointer, sizes, strides, box, steps, *_ = args
        assert len(sizes) == len(box) == len(steps) == rank == len(strides) + 1 and pointer % 16 == 0
        words = [pointer, kind, rank, *sizes, *strides, *box]
        self.log.append(("encode", *words))
        return types.SimpleNamespace(opaque=(words + [0] * 16)[:16])

    def copy(self, target: int, source: int, nbytes: int, stream: int) -> None:
        self.log.append(("copy", nbytes, stream))
        ctypes.memmove(target, source, nbytes)

    def upload(self, target: int, array: np.ndarray, stream: int) -> None:
        self.log.append(("upload", array.nbytes, stream))
        ctypes.memmove(target, array.ctypes.data, array.nbytes)

    def allocate(self, nbytes: int, stream: int) -> int:
        self.log.append(("allocate", nbytes, stream))
        memory = aligned(np.full(max(nbytes, 1), 0xAB, np.uint8))
        self.memory[memory.ctypes.data] = memory
        return memory.ctypes.data

    def free(self, pointer: int, stream: int) -> None:
        self.log.append(("free", stream))
        del self.memory[pointer]

    def asked(self, kind: str) -> list[tuple[Any, ...]]:
        return [entry for entry in self.log if entry[0] == kind]


def at(pointer: int, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """The array at an address."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    if not size:
        return np.zeros(shape, dtype)
    return np.frombuffer((ctypes.c_byte * size).from_address(pointer), np.uint8).view(dtype).reshape(shape)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy whose first element lies at a multiple of 128 bytes."""
    room = np.empty(array.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 128
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


class CudaArray:
    """What another library's array is to us: `__cuda_array_interface__`, over host memory."""

    def __init__(self, array: Any, **changes: Any):
        self.array = aligned(np.asarray(array))
        self.changes = changes

    @property
    def pointer(self) -> int:
        return self.__cuda_array_interface__["data"][0]

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        a = self.array
        return {"version": 3, "shape": a.shape, "typestr": a.dtype.str, "data": (a.ctypes.data, False),
                "strides": None, **self.changes}  # fmt: skip


def read(x: Any) -> np.ndarray:
    """The values of an array that exposes `__cuda_array_interface__`."""
    found = x.__cuda_array_interface__
    return at(found["data"][0], found["shape"], np.dtype(found["typestr"])).copy()


def host_gpu(monkeypatch: Any) -> Any:
    """A GPU of compute capability 9.0 whose memory is the host's: the body of a fixture."""
    if compiler.installed() is None:
        pytest.skip("needs tilewright[cuda]")
    found = HostDriver()

    def recorded(kernel: Any, machine: Any) -> Any:
        module, compiled = compiled_kernel(kernel, machine)
        found.modules[compiled.binary] = found.modules[compiled.assembly.encode() + b"\0"] = module
        return module, compiled

    def printed(kernel: Any, machine: Any) -> Any:
        module = mosaic_gpu_module(kernel, machine)
        code = module.text.encode()
        found.modules[code] = found.modules[code + b"\0"] = module
        blocks = math.prod(module.grid)
        return module, Compiled(module.name, machine.name, module.grid, code, module.text, module.shared,
                                module.threads // 32, 32, module.scratch // blocks, 128, "")  # fmt: skip

    monkeypatch.setattr(triton_backend, "compiled_kernel", recorded, raising=False)
    monkeypatch.setattr(mosaic_gpu, "compiled_kernel", printed, raising=False)
    caches = (launch.make_plan, launch.bound, launch.machine_of)
    for cache in caches:
        cache.cache_clear()
    before = driver.set_driver(found)
    yield found
    driver.set_driver(before)
    for cache in caches:
        cache.cache_clear()
