"""Arrays of other libraries without a copy, under the names of `jax.dlpack`."""

from collections.abc import Callable
from typing import Any

from .core.ir.types import as_dtype, kind
from .numpy.create import from_dlpack as _from_dlpack

_KINDS = ("bool", "int", "uint", "float", "complex")


def from_dlpack(external_array: Any, device: Any = None, copy: bool | None = None) -> Any:
    """An array of the memory of another library's array, which has `__dlpack__` and `__dlpack_device__`.

    `device` moves it; `copy=True` gives memory of its own. Raises `DtypeError` for a dtype that is not here.

    >>> import numpy as np
    >>> from_dlpack(np.ones(2, np.float32))
    Array([1., 1.], dtype=float32)
    """
    return _from_dlpack(external_array, device=device, copy=copy)


def is_supported_dtype(dtype: Any) -> bool:
    """Whether arrays of a dtype cross by DLPack.

    >>> is_supported_dtype("float32"), is_supported_dtype("int4")
    (True, False)
    """
    found = as_dtype(dtype)
    return kind(found) in _KINDS and "int4" not in str(found) and "int2" not in str(found)


__all__ = ["from_dlpack", "is_supported_dtype"]
__dir__: Callable[[], list[str]] = __all__.copy
