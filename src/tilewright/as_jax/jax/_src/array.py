"""`jax._src.array`, for code that asks whether an array is concrete by its class, or makes one of its parts."""

from typing import Any

from ....sharding import (
    Shard,
    make_array_from_callback,
    make_array_from_process_local_data,
    make_array_from_single_device_arrays,
)
from ....xla_backend.arrays.array import Array
from ...missing import not_adapted


class _Concrete(type(Array)):
    """Arrays are instances, and traced values are not."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is Array


class ArrayImpl(Array, metaclass=_Concrete):
    def __new__(cls, aval: Any, sharding: Any, arrays: Any, committed: bool, _skip_checks: bool = False) -> Any:
        return make_array_from_single_device_arrays(aval.shape, sharding, arrays, dtype=aval.dtype)


__all__ = ["ArrayImpl", "Shard", "make_array_from_callback", "make_array_from_process_local_data",
           "make_array_from_single_device_arrays"]  # fmt: skip
__getattr__ = not_adapted("jax._src.array")
