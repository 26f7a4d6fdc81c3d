"""What operations ask of their operands: kinds of dtype, one shape; and NumPy meanings in enough precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..support.errors import DtypeError, ShapeError
from ..support.memo import cached
from .types import FLOAT32, ArrayType, Dtype, kind

FLOAT = ("float",)
INEXACT = ("float", "complex")
INT = ("int", "uint")
NUMBER = ("int", "uint", "float", "complex")
BITS = ("bool", "int", "uint")
ORDERED = ("bool", "int", "uint", "float", "complex")
ANY = (*ORDERED, "key")


def common_shape(name: str, types: Sequence[ArrayType]) -> tuple[int, ...]:
    """The one shape of the operands, scalars aside; a `ShapeError` if there are two."""
    shape: tuple[int, ...] = ()
    for t in types:
        if t.shape != shape and t.shape:
            if shape:
                shown = ", ".join(t.show() for t in types)
                raise ShapeError(
                    f"{name} takes operands of one shape (scalars aside), got {shown}",
                    "broadcast them first, or use the function of that name in `tilewright.numpy`",
                )
            shape = t.shape
    return shape


def same_dtype(name: str, types: Sequence[ArrayType]) -> Dtype:
    """The one dtype of the operands; a `DtypeError` if there are two."""
    dtype = types[0].dtype
    for t in types[1:]:
        if t.dtype != dtype:
            shown = ", ".join(t.show() for t in types)
            raise DtypeError(
                f"{name} takes operands of one dtype, got {shown}",
                "cast with `astype`, or use the function of that name in `tilewright.numpy`, which promotes",
            )
    return dtype


def check_kind(name: str, type: ArrayType, kinds: Sequence[str]) -> None:
    """Raise a `DtypeError` unless the dtype is of one of some kinds."""
    if kind(type.dtype) not in kinds:
        raise DtypeError(f"{name} takes {' or '.join(kinds)} operands, got {type.show()}", "cast with `astype`")


def nary_typing(
    name: str, kinds: Sequence[str], result: Callable[[Dtype], Dtype] | None = None
) -> Callable[..., ArrayType]:
    """The typing rule of an elementwise operation on operands of one dtype of some kinds, scalars of any place."""

    @cached()
    def typing(*types: ArrayType) -> ArrayType:
        shape = common_shape(name, types)
        dtype = same_dtype(name, types)
        for t in types:
            check_kind(name, t, kinds)
        return ArrayType(shape, dtype if result is None else result(dtype), all(t.weak_type for t in types))

    return lambda *types, **params: typing(*types)


# ---------------------------------------------------------------------------- NumPy meanings


def widened(function: Callable[..., Any]) -> Callable[..., Any]:
    """A NumPy function computed in float32 for operands narrower than that, as compilers do."""

    def wide(*arrays: Any, **params: Any) -> Any:
        return function(*(a.astype(FLOAT32) if _narrow(a.dtype) else a for a in arrays), **params)

    return wide


@cached()
def _narrow(dtype: Dtype) -> bool:
    return kind(dtype) == "float" and dtype.itemsize < 4
