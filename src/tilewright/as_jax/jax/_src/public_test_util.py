"""`jax._src.public_test_util`, for tinygp: pytrees compared with tolerances by dtype, checks of derivatives."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ....core.ir.array import DTypeLike
from ....core.ir.types import is_complex, is_inexact
from ....core.support import pytree
from ....test_util import check_grads, check_jvp, check_vjp
from ...missing import not_adapted

# By the bytes of a real number.
_TOLERANCES = {1: 1e-1, 4: 1e-6, 8: 1e-15}


def tolerance(dtype: DTypeLike, tol: Any = None) -> float:
    """How far values of a dtype may be apart: the number given, that of the dtype in a dict, or one by its precision.

    >>> tolerance(np.float32), tolerance(np.float32, 0.5), tolerance(np.int32, {np.float32: 0.1})
    (1e-06, 0.5, 0)
    """
    if tol is not None and not isinstance(tol, dict):
        return tol
    kind = np.dtype(dtype)
    given = {np.dtype(key): number for key, number in (tol or {}).items()}
    if kind in given:
        return given[kind]
    if not is_inexact(kind):
        return 0
    size = kind.itemsize // (2 if is_complex(kind) else 1)
    return (1e-3 if kind == np.float16 else 1e-2) if size == 2 else _TOLERANCES[size]


def _wide(x: np.ndarray) -> np.ndarray:
    """Numbers of dtypes that NumPy does not compare closely, in one that it does."""
    return x.astype(np.float32) if x.dtype.kind == "V" and is_inexact(x.dtype) else x


def _close(x: Any, y: Any, atol: Any, rtol: Any, err_msg: str) -> None:
    a, b = np.asarray(x), np.asarray(y)
    assert a.shape == b.shape, f"{err_msg} shapes {a.shape} and {b.shape}"
    near = max(tolerance(a.dtype, atol), tolerance(b.dtype, atol)) * a.size
    relative = max(tolerance(a.dtype, rtol), tolerance(b.dtype, rtol)) * b.size
    np.testing.assert_allclose(_wide(a), _wide(b), atol=near, rtol=relative, err_msg=err_msg)


def check_close(xs: Any, ys: Any, atol: Any = None, rtol: Any = None, err_msg: str = "") -> None:
    """Check that the arrays of two pytrees are close: tolerances are numbers or dicts by dtype, times the array's size.

    Raises `AssertionError` where they are not.

    >>> check_close({"a": np.float32(1)}, {"a": np.float32(1 + 1e-7)})
    """
    pytree.map(partial(_close, atol=atol, rtol=rtol, err_msg=err_msg), xs, ys)


__all__ = ["check_close", "check_grads", "check_jvp", "check_vjp", "tolerance"]
__getattr__ = not_adapted("jax._src.public_test_util")
