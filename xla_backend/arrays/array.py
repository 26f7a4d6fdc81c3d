"""`Array`: the array of the runtime, a type and a buffer of jaxlib."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ...core.ir.array import ArrayLike, DTypeLike
from ...core.ir.array_layout import Format, Layout
from ...core.ir.types import KEY_DTYPES, ArrayType, KeyDtype, RefType, is_complex, is_integer
from ...core.support.config import current
from ...core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    CallbackError,
    DeletedArrayError,
    ExecutionError,
    ImmutableArrayError,
    OutOfBoundsError,
    TilewrightError,
    UnsupportedError,
)
from ...core.support.html_table import html_table, html_text
from ...core.support.lazy_imports import LazyModule
from ...core.support.native_protocols import native
from ...core.support.runtime import runtime
from ...core.support.transfer_guard import DEVICE_TO_HOST, guard
from ...core.tracing.trace import Value, typeof
from ..devices.client import Device, SingleDeviceSharding, as_device, device_of
from ..devices.coordination import group
from ..host import callback_errors
from ..jaxlib import shim
from .array_operators import CompiledOperators
from .transfer import LARGE, as_numpy, host_buffer, physical, put

if TYPE_CHECKING:
    from ..execution import sharded_execution
else:
    sharded_execution = LazyModule("..execution.sharded_execution", __package__)

NAMING = 1.0  # seconds until a process whose exchange failed learns which process died, and ends
DLPACK_CPU, DLPACK_CUDA = 1, 2
_SHOWN = 64  # elements of an array that a notebook shows as a table


_OF_CALLBACKS = ("error calling callback: Traceback", "Error when calling buffer callback: Traceback")
_CALLERS = ("core/primitives/external/host_callback.py", "experimental/buffer_callback.py")


def execution_error(error: Exception) -> TilewrightError:
    """A fault of jaxlib's runtime as an error of ours; of a host callback's own error, only what the user wrote.

    A callback that returned what it was not declared to is a `CallbackError`, as it is outside of programs; what a
    kernel's own checks find (`debug=True`) needs no words around it either.
    """
    text = str(error)
    if any(said in text for said in _OF_CALLBACKS):
        raised = callback_errors.found(text)
        if isinstance(raised, CallbackError | OutOfBoundsError):
            return raised.with_traceback(None)
        lines = text.rstrip().splitlines()
        ours = [n for n, line in enumerate(lines) if any(file in line for file in _CALLERS)]
        found = ExecutionError("a host callback raised an error:\n" + "\n".join(lines[max(ours, default=0) + 1 :]),
                               "make the callback take these operands")  # fmt: skip
        found.raised = raised
        return found
    if group.store is not None:
        time.sleep(NAMING)
    return ExecutionError(
        f"the computation of this array failed: {error}",
        "look at the innermost error above; `config.update('disable_jit', True)` runs it step by step",
    )


def deleted(type: ArrayType) -> DeletedArrayError:
    """The error of an array that is no more."""
    return DeletedArrayError(
        f"an array of type {type.show()} was used after its buffer was donated or deleted",
        "use the result of the function that it was donated to, or leave it out of `donate_argnums`",
    )


class _IsArray(type):
    """Tracers are instances of `Array` too, so that `isinstance` means the same under every transformation."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Value) and not isinstance(instance.aval, RefType)


class Array(CompiledOperators, Value, metaclass=_IsArray):
    """An array on a device: immutable, its values possibly still being computed.

    `aval` is its type, with the weak type that a Python scalar gives. The buffer of an array of random
    keys holds their words, of type uint32, along a trailing axis. `_kind`, by which calls are dispatched, is the type
    where the array is on one device. On a mesh it is an `OnMesh` (`xla_backend/execution/sharded_execution.py`), which
    knows what differs there.
    """

    __slots__ = ("aval", "_kind", "_buffer", "__weakref__")
    aval: ArrayType
    _kind: Any
    _buffer: Any

    def __init__(self, aval: ArrayType, buffer: Any):
        self.aval = self._kind = aval
        self._buffer = buffer

    # ------------------------------------------------------------ what it is

    @property
    def _placed(self) -> Any:
        """The sharding on a mesh; None on a single device."""
        return None if self._kind is self.aval else self._kind.lies

    @property
    def device(self) -> Any:
        """The device; on a mesh the sharding."""
        return self._placed or device_of(self._buffer)

    @property
    def sharding(self) -> Any:
        return self._placed or SingleDeviceSharding(self.device)

    @property
    def format(self) -> Format:
        """The sharding, and the layout in device memory; the layout of a deleted array is unknown."""
        deleted = self._buffer.is_deleted()
        return Format(None if deleted else Layout.from_pjrt_layout(self._buffer._pjrt_layout), self.sharding)

    def to_device(self, device: Any, *, stream: object = None) -> Array:
        """The array on a device, or as a sharding says; the array itself where it is there, or where None is named.

        Raises:
          UnsupportedError: a stream was named; transfers are ordered by the runtime.
        """
        if stream is not None:
            raise UnsupportedError("to_device was given a stream", "leave `stream` out: the runtime orders transfers")
        if device is None:
            return self
        if hasattr(device, "mesh"):
            return sharded_execution.place(self, device)
        if self._kind is not self.aval:
            return self._kind.moved(self, device)
        wanted = as_device(device)
        if wanted == self.device and self.committed:
            return self
        found = self.committed_to(wanted)
        if wanted == self.device:
            self._buffer.is_shared = found._buffer.is_shared = True
        return found

    def committed_to(self, device: Device) -> Array:
        """The array on a device, committed: in the same memory where it is there, so that this one ends with it."""
        if self._buffer.is_deleted():
            raise deleted(self.aval)
        if device == self.device:
            return Array(self.aval, shim.committed(self._buffer))
        return Array(self.aval, put(self._bits(), self.aval, device=device))

    def devices(self) -> set[Device]:
        """The devices that hold a part of this array."""
        return {self.device} if self._kind is self.aval else set(self._kind.lies.mesh.flat)

    @property
    def committed(self) -> bool:
        """Whether a device or a sharding was named for it: programs run there, and uncommitted arrays follow."""
        return self._kind is not self.aval or self._buffer._committed

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all of it."""
        return self._kind is self.aval or self._kind.lies.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each of its devices holds all of it."""
        return self._kind is self.aval or self._kind.lies.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array that this process holds."""
        return [s for s in self.global_shards if s.device.process_index == runtime.process_index]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts of the array; `data` is None for those of other processes."""
        if self._kind is not self.aval:
            return self._kind.shards(self)
        return [Shard(self.device, (slice(None),) * self.ndim, 0, self, 0)]

    def addressable_data(self, index: int) -> Array:
        """The part that the device of a number among those of this process holds."""
        return self.addressable_shards[index].data

    def _beside(self, numbers: Sequence[Any]) -> list[Any]:
        """Buffers of Python numbers on this array's devices."""
        if self._kind is not self.aval:
            return self._kind.beside(numbers)
        return [host_buffer(x, typeof(x)) for x in numbers]  # type: ignore[arg-type]

    # ------------------------------------------------------------ its values

    def _numpy(self, explicit: bool = False) -> np.ndarray:
        """The values, read-only and in place, once computed. `explicit`: see `core/support/transfer_guard.py`."""
        self._leaves(explicit)
        if self._kind is not self.aval:
            return self._kind.values(self, self.aval)
        if self._buffer.is_deleted():
            raise deleted(self.aval)
        try:
            return as_numpy(self._buffer, self.aval)
        except shim.RuntimeFault as error:
            raise execution_error(error) from None

    def _leaves(self, explicit: bool) -> None:
        """Say that the values go to the host, where that has a guard."""
        if current().guards:
            what = f"the values of an array of type {self.aval.show()} go to the host"
            guard(DEVICE_TO_HOST, what, "`device_get` it", explicit)

    def __array__(self, dtype: DTypeLike = None, copy: bool | None = None) -> np.ndarray:
        values = self._numpy()
        if dtype is not None and np.dtype(dtype) != values.dtype:
            if copy is False:
                raise ArgumentError(
                    f"{values.dtype} cannot become {np.dtype(dtype)} without a copy", "leave `copy` out"
                )
            return values.astype(dtype)
        return values.copy() if copy else values

    def __buffer__(self, flags: int) -> memoryview:
        """The values' memory, read-only; a `BufferError` for dtypes that Python's buffer protocol does not know."""
        try:
            return memoryview(self._numpy())
        except ValueError as error:
            raise BufferError(f"values of dtype {self.dtype} have no form in the buffer protocol") from error

    def item(self, *index: Any) -> Any:
        """The one value, or the value at an index, as a Python number."""
        return self._numpy().item(*index)

    def tolist(self) -> Any:
        """The values as nested lists of Python numbers."""
        return self._numpy().tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The values' bytes in row-major order."""
        return self._numpy().tobytes(order)

    def _scalar(self, wanted: str) -> Any:
        if self.aval.shape != ():
            raise ArgumentTypeError(
                f"{wanted} of an array of shape {self.aval.shape} was asked for",
                "only arrays of shape () convert; take one element, as in `x[0]`",
            )
        return self._numpy()[()]

    def __bool__(self) -> bool:
        if self.aval.size != 1:
            raise ArgumentError(
                f"the truth value of an array of shape {self.aval.shape} is ambiguous", "use `x.any()` or `x.all()`"
            )
        return bool(self._numpy().reshape(())[()])

    def _real(self, wanted: str) -> Any:
        if is_complex(self.aval.dtype):
            raise ArgumentTypeError(f"{wanted} of an array of dtype {self.aval.dtype}", "take `x.real` first")
        return self._scalar(wanted)

    def __int__(self) -> int:
        return int(self._real("the Python int"))

    def __float__(self) -> float:
        return float(self._real("the Python float"))

    def __complex__(self) -> complex:
        return complex(self._scalar("the Python complex"))

    def __index__(self) -> int:
        if not is_integer(self.aval.dtype):
            raise ArgumentTypeError(
                f"an array of dtype {self.aval.dtype} is not an index", "cast it with `astype(int)`"
            )
        return int(self._scalar("an index"))

    def __len__(self) -> int:
        if not self.aval.shape:
            raise ArgumentTypeError("an array of shape () has no length", "use `x.size`, which is 1")
        return self.aval.shape[0]

    def __iter__(self) -> Iterator[Array]:
        if not self.aval.shape:
            raise ArgumentTypeError("an array of shape () cannot be iterated over", "use `x.item()` for its value")
        if self._kind is not self.aval:
            return (cast("Array", self[i]) for i in range(len(self)))
        values, device, committed = self._bits(), self.device, self.committed
        inner = ArrayType(self.aval.shape[1:], self.aval.dtype, self.aval.weak_type)
        rows = (put(np.asarray(row), inner, True, device, committed) for row in values)
        return (Array(inner, row) for row in rows)

    def __reversed__(self) -> Iterator[Array]:
        return reversed(list(self))

    def __contains__(self, x: ArrayLike) -> bool:
        if np.ndim(x):
            raise ArgumentError(f"whether something of shape {np.shape(x)} is in an array", "ask for one number")
        return bool(np.any(self._numpy() == np.asarray(x)))

    __hash__ = None

    # ------------------------------------------------------------ as text

    def __repr__(self) -> str:
        if self._buffer.is_deleted():
            return f"Array(deleted, {self.aval.show()})"
        if not self._is_here:
            return f"Array(shape={self.shape}, dtype={self.dtype}, {self.sharding})"
        if isinstance(self.aval.dtype, KeyDtype):
            return f"Array({self.aval.shape}, dtype={self.aval.dtype}) overlaying:\n{self._bits()}"
        weak = ", weak_type=True" if self.aval.weak_type else ""
        width = np.get_printoptions()["linewidth"]
        if self.aval.size:
            text = np.array2string(self._numpy(), separator=", ", prefix="Array(", suffix=",", max_line_width=width)
        else:
            text = f"[], shape={self.aval.shape}"
        tail = f"dtype={self.aval.dtype}{weak})"
        last = len(text) - text.rfind("\n") + (6 if "\n" not in text else 0)
        gap = " " if last + len(tail) + 1 <= width else "\n" + " " * 6
        return f"Array({text},{gap}{tail}"

    def __str__(self) -> str:
        plain = not self._buffer.is_deleted() and not isinstance(self.aval.dtype, KeyDtype)
        return str(self._numpy()) if plain and self._is_here else repr(self)

    def _repr_html_(self) -> str:
        """Notebooks: a table of a small vector or matrix; of anything else, the text."""
        kind = self.aval.dtype
        small = self.aval.ndim in (1, 2) and 0 < self.aval.size <= _SHOWN and not isinstance(kind, KeyDtype)
        if not small or self._buffer.is_deleted() or not self._is_here:
            return html_text(repr(self))
        text = np.array2string(self._numpy(), separator="\0", threshold=sys.maxsize, max_line_width=sys.maxsize)
        rows = [[x.strip() for x in row.split("\0") if x.strip()] for row in text.replace("[", "").split("]")]
        return html_table((), filter(None, rows), self.aval.show())

    def __format__(self, spec: str) -> str:
        if self.aval.shape == () and self._is_here:
            return format(self._numpy()[()], spec)
        try:
            return format(str(self), spec)
        except ValueError:
            raise ArgumentError(
                f"the format {spec!r} of an array of shape {self.aval.shape}",
                "format its elements, or use `numpy.array_str(x, precision=...)`") from None  # fmt: skip

    @property
    def _is_here(self) -> bool:
        """Whether this process can show the values."""
        placed = self.aval.placed
        summed = placed is None or not placed.spec.unreduced
        return summed and (self.is_fully_addressable or self.is_fully_replicated)

    # ------------------------------------------------------------ memory

    def block_until_ready(self) -> Array:
        """Wait until the values are computed; raises the error of their computation if it failed."""
        wait_for((self,))
        return self

    def is_ready(self) -> bool:
        """Whether the values are computed."""
        if self._buffer.is_deleted():
            raise deleted(self.aval)
        return self._buffer.is_ready()

    def delete(self) -> None:
        """Free the buffer now, if it is no other array's; the array can no longer be used."""
        if hasattr(self._buffer, "is_shared"):
            self._buffer = shim.copy(self._buffer)
        self._buffer.delete()

    def is_deleted(self) -> bool:
        """Whether the buffer was deleted, or donated to a function."""
        return self._buffer.is_deleted()

    def copy_to_host_async(self) -> None:
        """Start a copy to the host; on the CPU there is nothing to do."""

    def platform(self) -> str:
        """The platform of the device that holds the array."""
        return next(iter(self.devices())).platform

    def on_device_size_in_bytes(self) -> int:
        """The bytes that the array takes on its device."""
        return self._buffer.on_device_size_in_bytes()

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element.

        Raises:
          ArgumentError: the array is on several devices.
        """
        if self._kind is not self.aval:
            raise ArgumentError("the address of an array on several devices", "take that of `addressable_data(0)`")
        if self._buffer.is_deleted():
            raise deleted(self.aval)
        return self._buffer.unsafe_buffer_pointer()

    def _bits(self) -> np.ndarray:
        """The values as the device holds them: those of keys with their words."""
        if self._buffer.is_deleted():
            raise deleted(self.aval)
        if self._kind is not self.aval:
            return self._kind.values(self, physical(self.aval))
        return as_numpy(self._buffer, physical(self.aval))

    def copy(self) -> Array:
        """A copy in a new buffer."""
        if self._buffer.is_deleted():
            raise deleted(self.aval)
        if self._kind is not self.aval:
            return self._kind.copy(self)
        buffer = shim.copy(self._buffer)
        return Array(self.aval, shim.committed(buffer) if self.committed else buffer)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Array:
        return self.copy()

    def __reduce__(self) -> Any:
        dtype = self.aval.dtype
        name = dtype.generator if isinstance(dtype, KeyDtype) else None
        return (_unpickle, (np.array(self._bits()), self.aval.weak_type, name))

    def __setitem__(self, index: object, value: object) -> None:
        raise ImmutableArrayError(
            f"an array of type {self.aval.show()} was assigned to in place, and arrays are immutable",
            "write x = x.at[i].set(v), which gives the changed array, for x[i] = v",
        )

    def __delitem__(self, index: object) -> None:
        self.__setitem__(index, None)

    # ------------------------------------------------------------ other libraries

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError(f"the array is on device {self.__dlpack_device__()}, not on {tuple(dl_device)}")
        if self._kind is not self.aval:
            if copy is False:
                raise BufferError("an array on several devices has to be copied to one")
            return self._kind.on_one(self).__dlpack__(stream=stream, max_version=max_version)
        source = self.copy() if copy else self.block_until_ready()
        return shim.to_dlpack(source._buffer)

    def __dlpack_device__(self) -> tuple[int, int]:
        device = self.addressable_shards[0].device
        return (DLPACK_CPU, 0) if device.platform == "cpu" else (DLPACK_CUDA, device.raw.local_hardware_id)

    @native  # without it the real jax demands one of its own arrays
    def __jax_array__(self) -> Any:
        """The array as jax's own, without a copy. Only jax calls this, so it is imported already."""
        jax = sys.modules["jax"]
        try:
            return jax.dlpack.from_dlpack(self)
        except (BufferError, TypeError, RuntimeError):  # a dtype that DLPack has no code for, such as int4
            return jax.numpy.asarray(self._numpy())


def wait_for(arrays: Sequence[Array]) -> None:
    """Wait until the values of arrays are computed; raises the error of their computation if one failed."""
    buffers = [x._buffer for x in arrays]
    for x, buffer in zip(arrays, buffers, strict=True):
        if buffer.is_deleted():
            raise deleted(x.aval)
    try:
        shim.wait_for_all(buffers)
    except shim.RuntimeFault as error:
        raise execution_error(error) from None


@dataclass(frozen=True, eq=False)
class Shard:
    """A part of an array: the device that holds it, its slices of the whole, and which copy of them it is."""

    device: Device
    index: tuple[slice, ...]
    replica_id: int
    array: Array
    number: int

    @property
    def data(self) -> Any:
        """The part as an array on its device, without padding; None if another process holds it."""
        x = self.array
        return x if x._kind is x.aval else x._kind.part(x, self)

    def __repr__(self) -> str:
        return f"Shard(device={self.device}, index={self.index}, replica_id={self.replica_id})"


def _unpickle(bits: np.ndarray, weak: bool, key: str | None) -> Array:
    if key is not None:
        dtype = KEY_DTYPES[key]
        type = ArrayType(bits.shape[:-1], dtype)
        return Array(type, put(bits, type, owned=True))
    type = ArrayType(bits.shape, bits.dtype, weak)
    return Array(type, put(bits, type, owned=True))


def from_host(array: np.ndarray, type: ArrayType, owned: bool) -> Array:
    """An Array of a NumPy array; `owned`: nobody else writes to it.

    A large array is copied even then. XLA would keep it alive beside its own copy (unless the address is aligned) and
    release it only some time after the Array is gone.
    """
    return Array(type, put(array, type, owned=owned and array.nbytes < LARGE))


def as_array(x: Any) -> Array:
    """An Array of an array of any library, a number or an Array; NumPy data is copied, jax's is shared."""
    if issubclass(type(x), Array):
        return x
    aval: Any = typeof(x)
    return Array(aval, host_buffer(x, aval, kept=False))
