"""Questions about dtypes, under the names of `jax.dtypes`."""

from collections.abc import Callable
from typing import Any

import ml_dtypes

from .core.ir.promotion import promote_types
from .core.ir.types import FLOAT0 as float0
from .core.ir.types import canonical_dtype, extended, is_key, itemsize_bits, kind, prng_key
from .core.support.errors import ArgumentError
from .core.support.errors import DtypeError as TypePromotionError
from .numpy.dtypes import finfo, iinfo, issubdtype, type_of

bfloat16 = ml_dtypes.bfloat16


def canonicalize_dtype(dtype: Any, allow_extended_dtype: bool = False) -> Any:
    """A dtype as this configuration holds it: 64-bit types become 32-bit unless `enable_x64` is set.

    Raises `ArgumentError` for the dtype of random keys, unless `allow_extended_dtype`.

    >>> canonicalize_dtype("float64")
    dtype('float32')
    """
    found = canonical_dtype(dtype)
    if is_key(found) and not allow_extended_dtype:
        raise ArgumentError(f"{found} is the dtype of random keys", "pass allow_extended_dtype=True")
    return found


def result_type(*args: Any, return_weak_type_flag: bool = False) -> Any:
    """The dtype that arguments have in common after promotion, and on request whether it is weak.

    >>> import numpy as np
    >>> result_type(np.int8, 1.0), result_type(1, 2.0, return_weak_type_flag=True)
    (dtype('float32'), (dtype('float32'), True))
    """
    dtype, weak = promote_types([type_of(a) for a in args])
    return (dtype, weak) if return_weak_type_flag else dtype


_SCALARS = {"bool": bool, "int": int, "uint": int, "float": float, "complex": complex}


def scalar_type_of(x: Any) -> type:
    """The Python type of the numbers of an array, a number or a dtype.

    >>> import numpy as np
    >>> scalar_type_of(np.float16(1)), scalar_type_of(np.dtype("int8"))
    (<class 'float'>, <class 'int'>)
    """
    found = kind(type_of(x).dtype)
    if found not in _SCALARS:
        raise TypePromotionError(f"{x!r} has no Python number type", "pass numbers, or their dtype")
    return _SCALARS[found]


__all__ = [
    "TypePromotionError", "bfloat16", "canonicalize_dtype", "extended", "finfo", "float0", "iinfo", "issubdtype",
    "itemsize_bits", "prng_key", "result_type", "scalar_type_of",
]  # fmt: skip
__dir__: Callable[[], list[str]] = __all__.copy
