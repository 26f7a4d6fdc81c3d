"""Types as clients name them: each is one of ours."""

from __future__ import annotations

from typing import Any

from ..core.types import ArrayType, RefType, TokenType, as_dtype


class _Type(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (ArrayType, RefType, TokenType))


class AbstractValue(metaclass=_Type):
    """`jax.core.AbstractValue`: any type."""


class _Shaped(_Type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, ArrayType)


class ShapedArray(AbstractValue, metaclass=_Shaped):
    """`jax.core.ShapedArray`: the type of an array; beside shape, dtype and weak type nothing is kept."""

    def __new__(cls, shape: Any, dtype: Any, weak_type: bool = False, **_: Any) -> Any:
        return ArrayType(tuple(shape), as_dtype(dtype), weak_type)


def mapped_aval(size: int, axis: int | None, aval: ArrayType) -> ArrayType:
    """The type of one element along an axis; None: the type itself."""
    if axis is None:
        return aval
    return aval.with_shape((*aval.shape[:axis], *aval.shape[axis + 1 :]))


def unmapped_aval(size: int, axis: int | None, aval: ArrayType, *_: Any) -> ArrayType:
    """The type of `size` elements along a new axis; None: the type itself."""
    return aval if axis is None else aval.with_shape((*aval.shape[:axis], size, *aval.shape[axis:]))


