"""Functions and kernels of tilewright on CuPy's arrays.

from tilewright.interop import cupy as tcp
softmax = tcp.call(tilewright.nn.softmax)
y = softmax(x)              # on CuPy's current stream, in memory of CuPy's pool
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.support.errors import VersionError
from .foreign import Described, check_pointer, check_strides, host_array
from .launch import Function

__all__ = ["call"]
__dir__: Callable[[], list[str]] = __all__.copy


class CupyLibrary:
    """CuPy, as launching sees it."""

    name = "cupy.ndarray"

    @property
    def module(self) -> Any:
        try:
            return importlib.import_module("cupy")
        except ImportError:
            raise VersionError("CuPy is not installed", "pip install cupy-cuda13x") from None

    def describe(self, x: Any) -> Described:
        if not isinstance(x, self.module.ndarray):
            raise host_array(self.name, x)
        shape, dtype, pointer = tuple(x.shape), np.dtype(x.dtype), int(x.data.ptr)
        check_strides(self.name, shape, x.strides, dtype.itemsize)
        check_pointer(self.name, pointer if math.prod(shape) else 0, shape)
        return Described(pointer, shape, dtype, int(x.device.id))

    def pointer(self, x: Any) -> int:
        return int(x.data.ptr)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype, device: int) -> Any:
        with self.module.cuda.Device(device):
            return self.module.empty(shape, dtype)

    def view(self, x: Any, shape: tuple[int, ...]) -> Any:
        return x.reshape(shape)

    def stream(self, device: int) -> int:
        with self.module.cuda.Device(device):
            return int(self.module.cuda.get_current_stream().ptr)


_LIBRARY = CupyLibrary()


def call(function: Callable[..., Any], *, donate: int | Sequence[int] = ()) -> Function:
    """A function of CuPy arrays, launched on CuPy's current stream with no copy and no wait; results are CuPy's too.

    `donate` are positions of arguments (leaves of pytrees) whose memory results may take. Raises as `arrays.call`.

    >>> call(lambda x: x * 2).__name__
    '<lambda>'
    """
    return Function(function, _LIBRARY, (donate,) if isinstance(donate, int) else donate)
