"""Arrays of other libraries in GPU memory: where they lie, and what is wrong with those a kernel cannot take.

A `Library` says how its arrays are described, made and viewed, and which stream it computes on. That of torch is in
`torch.py`, CuPy's in `cupy.py`; the one here serves anything with `__cuda_array_interface__` or DLPack.
"""

from __future__ import annotations

import importlib
import math
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np

from ..core.support.errors import AlignmentError, ArgumentTypeError, FreedArrayError, HostArrayError, StridesError
from .driver import driver

ALIGNMENT = 16  # bytes: kernels are compiled for pointers that are multiples of it


class Described(NamedTuple):
    """An array in device memory, row-major and without gaps."""

    pointer: int
    shape: tuple[int, ...]
    dtype: np.dtype
    device: int


class Library(Protocol):
    """What launching asks of an array library."""

    name: str

    def describe(self, x: Any) -> Described:
        """Where an array lies. Raises a `ForeignArrayError` for one that no kernel can take."""
        ...

    def pointer(self, x: Any) -> int:
        """The address of an array that `empty` made."""
        ...

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Any:
        """A new array, its elements not set."""
        ...

    def view(self, x: Any, shape: tuple[int, ...]) -> Any:
        """The array with another shape, in the same memory."""
        ...

    def stream(self, device: int) -> int:
        """The stream that the library computes on now."""
        ...


def row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    """The strides, in bytes, of a row-major array without gaps."""
    strides, step = [], itemsize
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(reversed(strides))


def check_strides(kind: str, shape: Sequence[int], strides: Sequence[int] | None, itemsize: int) -> None:
    """Raise a `StridesError` unless strides in bytes (None: row-major) are those of a row-major array without gaps."""
    if strides is None or 0 in shape:
        return
    wanted = row_major(shape, itemsize)
    if all(n == 1 or s == w for n, s, w in zip(shape, strides, wanted, strict=True)):
        return
    negative = any(s < 0 for s in strides)
    raise StridesError(
        f"a {kind} of shape {tuple(shape)} has {'negative ' if negative else ''}strides of {tuple(strides)} bytes; "
        f"kernels take row-major arrays without gaps, here {wanted}",
        "make it so: `.contiguous()` in torch, `ascontiguousarray` in CuPy",
    )


def check_pointer(kind: str, pointer: int, shape: Sequence[int]) -> None:
    """Raise a `FreedArrayError` for memory that is gone, an `AlignmentError` for an address no kernel can take."""
    if not pointer and math.prod(shape):
        raise FreedArrayError(f"a {kind} of shape {tuple(shape)} has no memory: it was freed or resized away",
                              "keep the array, and with it its memory, until the launch")  # fmt: skip
    if pointer % ALIGNMENT:
        raise AlignmentError(
            f"a {kind} of shape {tuple(shape)} starts at address {pointer:#x}, no multiple of {ALIGNMENT} bytes: "
            "a part of another array, as a rule",
            "copy it: `.clone()` in torch, `.copy()` in CuPy",
        )


class DeviceArray:
    """An array in memory of its own on a GPU: what a launch on arrays of no known library gives.

    Other libraries read it through `__cuda_array_interface__`; its memory is given back when it is collected.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, stream: int, base: Any = None):
        self.shape, self.dtype, self._stream, self._base = shape, dtype, stream, base
        if base is None:
            found = driver()
            self.pointer = found.allocate(math.prod(shape) * dtype.itemsize, stream)
            self._free = weakref.finalize(self, found.free, self.pointer, stream)
            self._free.atexit = False  # the driver may be gone before
        else:
            self.pointer: Any = base.pointer

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"version": 3, "shape": self.shape, "typestr": self.dtype.str, "data": (self.pointer, False),
                "strides": None, "stream": self._stream or 1}  # fmt: skip

    def __repr__(self) -> str:
        return f"DeviceArray({self.dtype.name}{list(self.shape)})"


class AnyLibrary:
    """Arrays of any library, on one stream; 0 is CUDA's default stream. Results are `DeviceArray`s."""

    name = "GPU array"

    def __init__(self, stream: int = 0):
        self._stream = stream

    def describe(self, x: Any) -> Described:
        if type(x) is DeviceArray:
            pointer, shape, dtype, strides = x.pointer, x.shape, x.dtype, None
        elif hasattr(x, "__cuda_array_interface__"):
            found = x.__cuda_array_interface__
            pointer, shape, dtype = found["data"][0], tuple(found["shape"]), np.dtype(found["typestr"])
            strides = found.get("strides")
            if dtype.kind == "V" and hasattr(x, "dtype"):  # bfloat16 and the like have no type string of their own
                dtype = np.dtype(x.dtype)
        elif hasattr(x, "__dlpack__"):
            pointer, shape, dtype, strides = self._dlpack(x)
        else:
            raise host_array(self.name, x)
        kind = type(x).__name__
        check_strides(kind, shape, strides, dtype.itemsize)
        check_pointer(kind, pointer, shape)
        device = driver().device_of(pointer) if pointer else 0
        if device is None:
            raise host_array(self.name, x)
        return Described(pointer, shape, dtype, device)

    def _dlpack(self, x: Any) -> tuple[int, tuple[int, ...], np.dtype, Any]:
        if x.__dlpack_device__()[0] not in (2, 13):  # kDLCUDA, kDLCUDAManaged
            raise host_array(self.name, x)
        view = importlib.import_module("cuda.core.utils").StridedMemoryView.from_dlpack(x, stream_ptr=self._stream or 1)
        dtype = np.dtype(view.dtype)
        strides = None if view.strides is None else tuple(s * dtype.itemsize for s in view.strides)
        return view.ptr, tuple(view.shape), dtype, strides

    def pointer(self, x: Any) -> int:
        return x.pointer

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Any:
        return DeviceArray(shape, dtype, self._stream)

    def view(self, x: Any, shape: tuple[int, ...]) -> Any:
        base = x if type(x) is DeviceArray else _Pointer(x, self.describe(x).pointer)
        return DeviceArray(shape, self.describe(x).dtype, self._stream, base)

    def stream(self, device: int) -> int:
        return self._stream


@dataclass(frozen=True)
class _Pointer:
    """Keeps an array of another library while a view of its memory lives."""

    owner: Any
    pointer: int


def host_array(wanted: str, x: Any) -> Exception:
    """The error for a value that is no array in device memory."""
    if any(hasattr(x, f"__{name}__") for name in ("array", "array_interface", "cuda_array_interface", "dlpack")):
        shape = tuple(getattr(x, "shape", ()))
        return HostArrayError(
            f"a {type(x).__name__} of shape {shape} is in host memory, where a {wanted} is needed",
            "move it to the GPU: `.cuda()` in torch, `cupy.asarray(x)`",
        )
    return ArgumentTypeError(f"{x!r:.200} of type {type(x).__name__} is no {wanted}", "pass arrays and numbers")
