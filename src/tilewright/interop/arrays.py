"""Functions and kernels of tilewright on GPU arrays of any library, by `__cuda_array_interface__` or DLPack.

    from tilewright.interop import arrays
    softmax = arrays.call(tilewright.nn.softmax, stream=stream.handle)
    y = softmax(x)              # x is an array of Numba, PyCUDA, RAPIDS, ...; y a DeviceArray in GPU memory

torch and CuPy have modules of their own, whose functions give arrays of theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..core.support.memo import once
from .foreign import AnyLibrary, DeviceArray
from .launch import Function

__all__ = ["DeviceArray", "call"]
__dir__: Callable[[], list[str]] = __all__.copy


@once
def _library(stream: int) -> AnyLibrary:
    return AnyLibrary(stream)


def call(function: Callable[..., Any], *, stream: int = 0, donate: int | Sequence[int] = ()) -> Function:
    """A function of GPU arrays, launched on a CUDA stream (its address as an int; 0 is the default stream).

    Nothing is copied and nothing waited for: results are `DeviceArray`s, which other libraries read in place by
    `__cuda_array_interface__`, once the stream has got there. `donate` are positions of arguments whose memory results
    may take. Numbers may be among the arguments.

    Raises, at the call:
      DriverError, VersionError: there is no GPU, driver or cuda-python.
      HostArrayError, DeviceMismatchError, StridesError, AlignmentError, FreedArrayError: an array no kernel can take.
      UnsupportedError: an operation that is no kernel, such as a host callback.

    >>> call(lambda x: x + 1).__name__
    '<lambda>'
    """
    return Function(function, _library(stream), (donate,) if isinstance(donate, int) else donate)
