"""Pages of int8: values by the largest magnitude of their row, which 127.5 stands for."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..... import numpy as jnp

MAX_INT8 = 127.5


class QuantizedTensor(NamedTuple):
    """int8 values, and the largest magnitude of each row."""

    weight: Any
    scales: Any


def get_quantization_scales(x: Any) -> Any:
    """The largest magnitude of each row, (..., 1)."""
    return jnp.abs(x).max(-1, keepdims=True)


def to_int8(x: Any, h: Any) -> Any:
    """Values as int8, `h` the magnitude that 127.5 stands for."""
    return jnp.rint(x * (MAX_INT8 / h)).clip(-128, 127).astype("int8")


def from_int8(x: Any, h: Any, dtype: Any = "bfloat16") -> Any:
    """The values of some int8."""
    return (x.astype("float32") * (h.astype("float32") / MAX_INT8)).astype(dtype)


def quantize_to_int8(x: Any) -> QuantizedTensor:
    """An array as int8 with the scale of each row."""
    scales = get_quantization_scales(x)
    return QuantizedTensor(to_int8(x, scales), scales)


def unquantize_from_int8(x: QuantizedTensor, dtype: Any = "bfloat16") -> Any:
    """The values of a quantised array."""
    return from_int8(x.weight, x.scales, dtype)
