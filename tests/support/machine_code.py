"""Generated functions as functions of NumPy arrays."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tilewright.cpu_backend.functions import FUNCTIONS
from tilewright.cpu_backend.llvm.builder import Builder, vector
from tilewright.cpu_backend.llvm.compile import missing, module_text
from tilewright.cpu_backend.machine.features import features
from tilewright.cpu_backend.objects.loader import reason
from tilewright.cpu_backend.runtime.library import loaded

needs_llvm = pytest.mark.skipif(
    bool(missing() or reason() or features().why), reason=str(missing() or reason() or features().why))
DTYPES = {"float": np.float32, "double": np.float64}


def elementwise(name: str, scalar: str, lanes: int, operands: int = 1) -> Callable[..., np.ndarray]:
    """A special function over arrays, `lanes` at a time (0: one by one)."""
    b = Builder("run", [("ptr", f"p{i}") for i in range(operands + 1)] + [("i64", "count")], features().names)
    b.linkage = ""
    *pointers, out, count = b.parameters
    with b.loop(0, count, lanes or 1) as loop:
        given = [b.load(b.offset(p, loop.index, scalar), vector(scalar, lanes)) for p in pointers]
        b.store(FUNCTIONS[name](b, *given), b.offset(out, loop.index, scalar))
    _, code = loaded(module_text([b]), None)
    kinds = [ctypes.c_void_p] * (operands + 1)
    run = ctypes.CFUNCTYPE(None, *kinds, ctypes.c_int64)(code.symbols["run"])

    def call(*arrays: Any) -> np.ndarray:
        size = len(arrays[0])
        padded = [np.concatenate([np.asarray(a, DTYPES[scalar]), np.ones(-size % 16, DTYPES[scalar])]) for a in arrays]
        result = np.empty_like(padded[0])
        run(*(a.ctypes.data for a in padded), result.ctypes.data, len(result))
        return result[:size]

    call.code = code  # type: ignore[attr-defined]
    return call


def ulps(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest distance from a reference of more digits, in units of the last place."""
    with np.errstate(over="ignore"):
        exact = np.abs(wanted).astype(found.dtype)
    inside = np.isfinite(exact) & np.isfinite(found)
    assert (inside | (exact == np.abs(found)) | np.isnan(exact) & np.isnan(found)).all()
    found, wanted, exact = found[inside], wanted[inside], exact[inside]
    return float((np.abs(found.astype(wanted.dtype) - wanted) / np.spacing(exact).astype(wanted.dtype)).max())
