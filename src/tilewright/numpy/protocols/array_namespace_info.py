"""The inspection functions of the Python array API standard: what this namespace has, by kind and by device.

Source: https://data-apis.org/array-api/2025.12/API_specification/inspection.html
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.support.config import current
from ...core.support.errors import ArgumentError
from ...core.support.runtime import runtime
from ..dtypes import _KINDS
from ..util import canonical_dtype, default_float, default_int

_WIDTHS = {"bool": ("bool",), "int": ("int8", "int16", "int32", "int64"), "float": ("float32", "float64"),
           "uint": ("uint8", "uint16", "uint32", "uint64"), "complex": ("complex64", "complex128")}  # fmt: skip


class ArrayNamespaceInfo:
    """What `tilewright.numpy` has, as the array API standard asks for it."""

    def capabilities(self) -> dict[str, Any]:
        """What is supported everywhere: within `jit` no shape depends on values.

        >>> from tilewright import numpy as jnp
        >>> jnp.__array_namespace_info__().capabilities()["data-dependent shapes"]
        False
        """
        return {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 64}

    def default_device(self) -> Any:
        """None: a new array is placed where the configuration says.

        >>> from tilewright import numpy as jnp
        >>> jnp.__array_namespace_info__().default_device() is None
        True
        """
        return None

    def devices(self) -> tuple[Any, ...]:
        """The devices of this process, and None for the one that the configuration names.

        >>> from tilewright import numpy as jnp
        >>> jnp.__array_namespace_info__().devices()[0] is None
        True
        """
        return None, *runtime.backend.devices()

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The dtypes of Python's numbers and of indices; they are the same on all devices.

        >>> from tilewright import numpy as jnp
        >>> jnp.__array_namespace_info__().default_dtypes()["real floating"]
        dtype('float32')
        """
        return {"real floating": default_float(), "complex floating": canonical_dtype(complex),
                "integral": default_int(), "indexing": default_int()}  # fmt: skip

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Any]:
        """The dtypes of the standard by name, all or those of a kind or several; 64 bits where `enable_x64` is set.

        Raises:
          ArgumentError: there is no such kind.

        >>> from tilewright import numpy as jnp
        >>> jnp.__array_namespace_info__().dtypes(kind="real floating")
        {'float32': dtype('float32')}
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        unknown = [k for k in kinds if k not in _KINDS]
        if unknown:
            raise ArgumentError(f"there are no dtypes of kind {unknown[0]!r}", f"the kinds are {list(_KINDS)}")
        wanted = {short for k in kinds for short in _KINDS[k]}
        names = (name for short in _WIDTHS if short in wanted for name in _WIDTHS[short])
        return {name: np.dtype(name) for name in names if current().enable_x64 or canonical_dtype(name) == name}


def __array_namespace_info__() -> ArrayNamespaceInfo:
    """The inspection functions of the array API standard.

    >>> from tilewright import numpy as jnp
    >>> sorted(jnp.__array_namespace_info__().default_dtypes())
    ['complex floating', 'indexing', 'integral', 'real floating']
    """
    return ArrayNamespaceInfo()


__all__ = ["__array_namespace_info__"]
