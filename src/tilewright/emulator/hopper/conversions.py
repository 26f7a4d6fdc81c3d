"""Numbers of few bits, and functions that are not exact, as single instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..arith import fused_multiply_add
from .group import Group
from .values import EIGHT, plain


def packed(g: Group, text: str, high: Any, low: Any) -> Any:
    dtype = np.float16 if ".f16x2" in text else ml_dtypes.bfloat16
    parts = [g.lanes(x).astype(dtype).view(np.uint16).astype(np.uint32) for x in (high, low)]
    return (parts[0] << 16 | parts[1]).view(np.int32)


def narrowed(g: Group, text: str, x: Any) -> Any:
    dtype = EIGHT[re.findall(r"satfinite\.(e\dm\d)x2", text)[0]]
    most = float(ml_dtypes.finfo(dtype).max)
    return np.clip(plain(x), -most, most).astype(dtype).view(np.uint8).astype(np.int32)


def widened(g: Group, text: str, x: Any) -> Any:
    dtype = EIGHT[re.findall(r"f16x2\.(e\dm\d)x2", text)[0]]
    return np.asarray(plain(x)).astype(np.uint8).view(dtype).astype(np.float32)


def whole(g: Group, text: str, x: Any) -> Any:
    kind = re.search(r"cvt.rzi(?:.sat)?.([su])(\d+)", text)
    assert kind is not None
    dtype = np.dtype(f"{'i' if kind[1] == 's' else 'u'}{int(kind[2]) // 8}")
    info = np.iinfo(dtype)
    x = np.nan_to_num(np.trunc(plain(x).astype(np.float64)), nan=0.0, posinf=2.0**40, neginf=-(2.0**40))
    return np.clip(x, info.min, info.max).astype(np.int64).astype(np.int32)


def of_two(g: Group, text: str, *numbers: Any) -> tuple[Any, ...]:
    """An operation on two floats at once: of each operand the first, then the second."""
    name = re.findall(r"(\w+)\.rn\.f32x2", text)[0]
    return tuple(TWO[name](*(plain(x) for x in numbers[i::2])) for i in (0, 1))


TWO: dict[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "fma": lambda *xs: fused_multiply_add(*xs).astype(np.float32),
}  # fmt: skip
PTX = (
    (".reg .b64", of_two),
    ("cvt.rn.satfinite", narrowed),
    ("cvt.u16.u32", widened),
    ("cvt.rn", packed),
    ("cvt.rzi", whole),
    ("ex2.approx", lambda g, text, x: np.exp2(plain(x))),
    ("rsqrt.approx", lambda g, text, x: (1 / np.sqrt(plain(x))).astype(np.float32)),
)
