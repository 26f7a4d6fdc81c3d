"""Between host values and buffers: what a type is physically, and how NumPy data and numbers get there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.types import BOOL, FLOAT0, UINT32, ArrayType, KeyDtype, is_portable
from ...core.support.config import current
from ...core.support.errors import DtypeError, IntegerOverflowError, NonArrayArgumentError, TracerArrayConversionError
from ...core.support.memo import cached
from ...core.support.runtime import runtime
from ...core.tracing.trace import Tracer, Value, leaked, typeof
from ..devices.client import Device, default_device, device_of
from ..host import malloc_tuning
from ..jaxlib import shim

LARGE = 1 << 20  # bytes of a host array that is worth a thought


@cached(4096)
def physical(type: ArrayType) -> ArrayType:
    """What the device holds for a type: keys are uint32 with a trailing axis of words, float0 is bool."""
    if isinstance(type.dtype, KeyDtype):
        return ArrayType((*type.shape, type.dtype.words), UINT32)
    return ArrayType(type.shape, BOOL) if type.dtype == FLOAT0 else type


@cached(4096)
def handler(type: ArrayType, device: Device, committed: bool) -> Any:
    """jaxlib's maker of buffers of a type out of an execution's results."""
    return shim.result_handler(physical(type), device.sharding, committed)


def put(
    x: np.ndarray, type: ArrayType, owned: bool = False, device: Device | None = None, committed: bool = True
) -> Any:
    """A NumPy array as a buffer; shares its memory if it is `owned` by the caller and 64-byte aligned.

    It is `committed` to a device that is named: programs run there. Others follow.
    """
    committed = committed and device is not None
    device = default_device() if device is None else device
    physical_type = physical(type)
    if x.dtype != physical_type.dtype:
        x, owned = x.astype(physical_type.dtype), True
    if x.nbytes >= LARGE and device.platform == "cpu" and not owned:
        malloc_tuning.about_to_use(x.nbytes)
    buffer = shim.put(physical_type, device.sharding, x, device.raw, owned, committed)
    if x.nbytes >= LARGE:
        shim.collect_garbage()  # XLA keeps a copy's source alive until it is released, or a later program runs
    return buffer


_numbers = runtime.cache("transfer.numbers", 4096)


def _scalar(x: Any, type: ArrayType) -> Any:
    """The buffer of a number, which is kept: making one takes longer than running a small program."""
    if current().default_device is not None or x != x:
        return put(_number(x, type), type, True)
    # Where zeros are, equal numbers may mean different things: 0.0 and -0.0, 1 + 0j and 1 - 0j.
    key = (type, repr(x) if not x or isinstance(x, (complex, np.complexfloating)) else x)
    found = _numbers.get(key)
    return _numbers.keep(key, put(_number(x, type), type, True)) if found is None else found


def _number(x: Any, type: ArrayType) -> np.ndarray:
    try:
        return np.array(x, type.dtype)
    except OverflowError:
        raise IntegerOverflowError(
            f"the Python integer {x} does not fit {type.dtype}", "name a wider dtype, or set `enable_x64`"
        ) from None


def host_buffer(x: Any, type_: ArrayType, kept: bool = True) -> Any:
    """A number, NumPy array or foreign array as a buffer of a type that `typeof` gave.

    `kept`: that of a number may be one for all, which is not deleted or donated.
    """
    if isinstance(x, np.ndarray):
        if x.dtype == FLOAT0:
            return put(np.zeros(x.shape, bool), type_, True)
        return put(x, type_)
    if isinstance(x, (int, float, complex, np.generic)):
        return _scalar(x, type_) if kept else put(_number(x, type_), type_, True)
    if isinstance(x, Tracer):
        raise leaked(x)
    if isinstance(x, Value):
        raise NonArrayArgumentError(f"{x!r} has no buffer on a device", "pass an array")
    # An array of another library: whoever made it does not write to it if it lets NumPy read in place.
    try:
        array = np.asarray(x)
    except TypeError as error:
        if not type(x).__module__.startswith("jax."):
            raise
        raise TracerArrayConversionError(
            f"an operand of type {type_.show()} is a value that jax is tracing",
            "give jax the function as `tilewright.interop.jax.call(f)`, which supports its transformations",
        ) from error
    return put(array, type_, owned=not array.flags.writeable)


host_types = runtime.cache("transfer.host_types", 4096)


def known_kinds(values: Sequence[Any], array: type) -> list[Any] | None:
    """Kinds of arrays of a class and NumPy arrays of a dtype and shape met before; None with other values among them.

    Only dtypes that every configuration keeps are remembered.
    """
    kinds: list[Any] = []
    complete = True
    for x in values:
        if type(x) is array:
            kinds.append(x._kind)
        elif type(x) is np.ndarray:
            form = x.dtype, x.shape
            found = host_types.get(form)
            if found is None:
                complete = False
                if is_portable(x.dtype):
                    host_types.keep(form, typeof(x))
            kinds.append(found)
        else:
            return None
    return kinds if complete else None


def copy(x: np.ndarray, type: ArrayType) -> Any:
    """A NumPy array of a type that `typeof` gave as a buffer on the default device, which does not share its memory."""
    if x.dtype is type.dtype and 0 < x.nbytes < LARGE:  # float0 has no bytes
        device = default_device()
        return shim.put(type, device.sharding, x, device.raw, False, False)
    return host_buffer(x, type)


def buffers(values: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The buffers of values whose types are known."""
    found = []
    for x, t in zip(values, types, strict=True):
        buffer = getattr(x, "_buffer", None)
        found.append(host_buffer(x, t) if buffer is None else buffer)
    return found


def moved_to(buffer: Any, type: ArrayType, device: Device, committed: bool = True) -> Any:
    """A buffer on a device: itself if it is there; one of a mesh is gathered."""
    if shim.device(buffer) is None:
        values = shim.assembled(buffer)[tuple(map(slice, physical(type).shape))]
        return put(values, type, device=device, committed=committed)
    if device_of(buffer) is device:
        return buffer
    return put(shim.to_numpy(buffer), type, device=device, committed=committed)


def as_numpy(buffer: Any, type: ArrayType) -> np.ndarray:
    """The values of a buffer, read-only and in place."""
    if isinstance(type.dtype, KeyDtype):
        raise DtypeError(f"random keys {type.show()} have no NumPy form", "use `random.key_data` to see a key's bits")
    if type.dtype == FLOAT0:
        return np.zeros(type.shape, FLOAT0)
    return shim.to_numpy(buffer)
