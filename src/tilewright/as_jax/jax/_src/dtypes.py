"""`jax._src.dtypes`, for equinox, flax.linen.fp8_ops, tinygp and the kernels that come with jax: kinds of dtypes."""

from typing import Any

import numpy as np

from ....core.ir.types import is_inexact
from ....dtypes import (
    TypePromotionError,
    canonicalize_dtype,
    extended,
    finfo,
    float0,
    issubdtype,
    itemsize_bits,
    result_type,
)
from ...missing import not_adapted

DType = Any


class ExtendedDType:
    """What flax derives a dtype of its own from; arrays of such dtypes are not adapted, and are refused when made."""


def supports_inf(dtype: Any) -> bool:
    """Whether a dtype has infinity."""
    return is_inexact(canonicalize_dtype(dtype)) and "fn" not in str(dtype)


def to_complex_dtype(dtype: Any) -> np.dtype:
    """The complex dtype of the precision of a dtype; of the default one for integers.

    >>> to_complex_dtype("float32"), to_complex_dtype("complex128")
    (dtype('complex64'), dtype('complex128'))
    """
    given = np.dtype(dtype)
    wide = (given if is_inexact(given) else canonicalize_dtype(float)) in (np.float64, np.complex128)
    return np.dtype(np.complex128 if wide else np.complex64)


__all__ = [
    "DType", "ExtendedDType", "TypePromotionError", "canonicalize_dtype", "extended", "finfo", "float0", "issubdtype",
    "itemsize_bits", "result_type", "supports_inf", "to_complex_dtype",
]  # fmt: skip
__getattr__ = not_adapted("jax._src.dtypes")
