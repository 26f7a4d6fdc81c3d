"""`jax._src.numpy.util`, for s2fft and jaxopt: arguments of one dtype and one rank."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .....core.ir.types import is_bool, is_complex
from .....core.support.errors import ArgumentTypeError
from .....core.tracing.trace import shape_of
from .....dtypes import result_type
from .....numpy import expand_dims
from .....numpy import util as own
from .....numpy.util import Value, as_array, default_int
from ....missing import not_adapted


def promote_dtypes(*args: Any) -> list[Any]:
    """Arguments in their common dtype, shapes as they are."""
    return [as_array(x) for x in own.promote_dtypes(*args)]


def promote_dtypes_inexact(*args: Any) -> list[Any]:
    """Arguments in their common dtype, integers and truth values becoming floats; shapes as they are."""
    return [as_array(x) for x in own.promote_dtypes_inexact(*args)]


def promote_dtypes_complex(*args: Any) -> list[Any]:
    """Arguments in their common dtype, real ones becoming complex; shapes as they are."""
    arrays = promote_dtypes_inexact(*args)
    common = result_type(*args, np.complex64)
    return [x if is_complex(x.dtype) else x.astype(common) for x in arrays]


def promote_dtypes_numeric(*args: Any) -> list[Any]:
    """Arguments in their common dtype, truth values becoming integers; shapes as they are."""
    return [x.astype(default_int()) if is_bool(x.dtype) else x for x in promote_dtypes(*args)]


def _is_array(x: Any) -> bool:
    return isinstance(x, (Value, np.ndarray)) or np.isscalar(x) or hasattr(x, "__jax_array__")


def check_arraylike(fun_name: str, *args: Any, **_: Any) -> None:
    """Check that arguments are arrays or numbers: `ArgumentTypeError` of the first that is not."""
    for place, x in enumerate(args):
        if not _is_array(x):
            raise ArgumentTypeError(f"{fun_name} takes arrays and numbers, and argument {place} is of {type(x)}",
                                    "convert it with `numpy.asarray` first")  # fmt: skip


def ensure_arraylike(fun_name: str, /, *args: Any) -> Any:
    """Arguments as arrays: one where one is given, else a tuple of them."""
    check_arraylike(fun_name, *args)
    arrays = tuple(map(as_array, args))
    return arrays[0] if len(arrays) == 1 else arrays


def promote_shapes(fun_name: str, *args: Any) -> list[Any]:
    """Arguments of one rank, with leading axes of size 1; those without axes stay as they are."""
    rank = max((len(shape_of(x)) for x in args), default=0)
    lacking = [rank - len(shape_of(x)) if shape_of(x) else 0 for x in args]
    return [expand_dims(x, tuple(range(n))) if n else x for x, n in zip(args, lacking, strict=True)]


def _promote(dtypes: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def promote(fun_name: str, *args: Any) -> list[Any]:
        """Arguments of one dtype and one rank."""
        check_arraylike(fun_name, *args)
        return promote_shapes(fun_name, *dtypes(*map(as_array, args)))

    return promote


promote_args, promote_args_inexact = _promote(promote_dtypes), _promote(promote_dtypes_inexact)
promote_args_numeric, promote_args_complex = _promote(promote_dtypes_numeric), _promote(promote_dtypes_complex)

__all__ = [
    "check_arraylike", "ensure_arraylike", "promote_args", "promote_args_complex", "promote_args_inexact",
    "promote_args_numeric", "promote_dtypes", "promote_dtypes_complex", "promote_dtypes_inexact",
    "promote_dtypes_numeric", "promote_shapes",
]  # fmt: skip
__getattr__ = not_adapted("jax._src.numpy.util")
