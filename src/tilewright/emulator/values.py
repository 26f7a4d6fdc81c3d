"""MLIR's types and attributes as NumPy values."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from ..core.support.errors import EmulationError
from ..core.support.memo import cached

ELEMENTS = {
    "i1": np.bool_, "i2": ml_dtypes.int2, "i4": ml_dtypes.int4, "i8": np.int8, "i16": np.int16, "i32": np.int32,
    "i64": np.int64, "ui32": np.uint32, "index": np.int64,
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn, "f8E5M2": ml_dtypes.float8_e5m2, "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
    "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz, "f8E4M3B11FNUZ": ml_dtypes.float8_e4m3b11fnuz,
}  # fmt: skip
DTYPES = {name: np.dtype(scalar) for name, scalar in ELEMENTS.items()}
ADDRESS = np.dtype(np.int64)
FLOAT_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


@dataclass(frozen=True)
class Type:
    """A type: `shape` is () for scalars, `dtype` None for what is no number (memory, descriptors, semaphores).

    A pointer is an address, an int64, and `pointee` is the dtype behind it.
    """

    text: str
    kind: str  # scalar, tensor, vector, memref, pointer or other
    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] | None = None
    pointee: np.dtype[Any] | None = None

    @property
    def number(self) -> np.dtype[Any]:
        """The dtype of a type of numbers."""
        if self.dtype is None:
            raise EmulationError(f"{self.text} is no type of numbers")
        return self.dtype


def convert_type(type: ir.Type) -> Type:
    """What an MLIR type is here."""
    return _convert(str(type))


_SHAPED = re.compile(r"(tensor|vector|memref)<((?:(?:\d+|\?)x)*)(.*)>$", re.DOTALL)


@cached(4096)
def _convert(text: str) -> Type:
    if text in DTYPES:
        return Type(text, "scalar", (), DTYPES[text])
    if text.startswith("!tt.ptr<"):
        return Type(text, "pointer", (), ADDRESS, _pointee(text))
    found = _SHAPED.match(text)
    if found is None:
        return Type(text, "other")
    kind, sizes, rest = found.groups()
    shape = tuple(-1 if n == "?" else int(n) for n in sizes.split("x") if n)
    element = rest if rest.startswith("!tt.ptr<") else _head(rest)
    if element.startswith("!tt.ptr<"):
        return Type(text, kind, shape, ADDRESS, _pointee(element))
    if element in DTYPES:
        return Type(text, kind, shape, DTYPES[element])
    return Type(text, kind, shape)


def _head(text: str) -> str:
    """The first of the arguments between a type's brackets."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "<") - (c == ">")
        if c == "," and depth == 0:
            return text[:i]
    return text


def _pointee(text: str) -> np.dtype[Any]:
    return DTYPES[_head(text[len("!tt.ptr<") : -1])]


def constant(attribute: ir.Attribute, type: Type) -> np.ndarray:
    """The value of `arith.constant`."""
    if type.dtype is None:
        raise EmulationError(f"a constant of type {type.text}")
    if type.kind == "scalar":
        return _element(attribute, type.dtype)
    dense = ir.DenseElementsAttr(attribute)
    if dense.is_splat:
        return np.full(type.shape, _element(dense.get_splat_value(), type.dtype))
    try:
        return np.array(dense).astype(type.dtype).reshape(type.shape)
    except (TypeError, ValueError):  # element types that the binding does not hold
        return _dense_text(str(attribute), type)


def _element(attribute: ir.Attribute, dtype: np.dtype[Any]) -> np.ndarray:
    if isinstance(attribute, ir.BoolAttr):
        return np.asarray(attribute.value, dtype)
    if isinstance(attribute, ir.IntegerAttr):
        return np.asarray(attribute.value != 0 if dtype.kind == "b" else attribute.value, dtype)
    return np.asarray(ir.FloatAttr(attribute).value, np.float64).astype(dtype)


def _dense_text(text: str, type: Type) -> np.ndarray:
    """A dense constant from its text: a list of numbers, or one string of hexadecimal bytes."""
    assert type.dtype is not None
    body = text[text.index("<") + 1 : text.rindex("> :")]
    if body.startswith('"0x'):
        return np.frombuffer(bytes.fromhex(body[3:-1]), type.dtype).reshape(type.shape).copy()
    words = re.findall(r"[^\[\],\s]+", body)
    bits = FLOAT_BITS[type.dtype.itemsize]
    values = [
        np.asarray(int(w, 16), bits).view(type.dtype) if w.startswith("0x") else np.asarray(float(w)).astype(type.dtype)
        for w in words
    ]
    return np.array(values, type.dtype).reshape(type.shape)


_zeros: ContextVar[bool] = ContextVar("tilewright_emulator_zeros", default=False)


@contextlib.contextmanager
def zeros() -> Iterator[None]:
    """Within it, what nothing has defined is zero."""
    token = _zeros.set(True)
    try:
        yield
    finally:
        _zeros.reset(token)


def poison(shape: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """What nothing has defined: NaN, True or the least integer; within `zeros`, zero."""
    if _zeros.get():
        return np.zeros(shape, dtype)
    if dtype.kind == "b":
        return np.ones(shape, dtype)
    if dtype.name.lstrip("u").startswith("int"):
        return np.full(shape, ml_dtypes.iinfo(dtype).min, dtype)
    return np.full(shape, np.nan, dtype)
