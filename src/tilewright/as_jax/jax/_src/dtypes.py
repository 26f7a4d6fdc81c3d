"""`jax._src.dtypes`, for equinox, flax.linen.fp8_ops and the kernels that come with jax: kinds of dtypes."""

from typing import Any

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


__all__ = [
    "DType", "ExtendedDType", "TypePromotionError", "canonicalize_dtype", "extended", "finfo", "float0", "issubdtype",
    "itemsize_bits", "result_type", "supports_inf",
]  # fmt: skip
__getattr__ = not_adapted("jax._src.dtypes")
