"""Types as clients name them: each is one of ours."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.ir.extension_types import OpaqueType
from ..core.ir.types import ArrayType, RefType


class ManualAxes(NamedTuple):
    """`jax.typeof(x).mat`: the axes of `shard_map` along which a value varies, which here partial sums do too."""

    varying: frozenset[Any]
    unreduced: frozenset[Any] = frozenset()
    reduced: frozenset[Any] = frozenset()


class _Type(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, (ArrayType, RefType, OpaqueType))


class AbstractValue(metaclass=_Type):
    """`jax.core.AbstractValue`: any type."""


ShapedArray = ArrayType


def mapped_aval(size: int, axis: int | None, aval: ArrayType) -> ArrayType:
    """The type of one element along an axis; None: the type itself."""
    if axis is None:
        return aval
    return aval.with_shape((*aval.shape[:axis], *aval.shape[axis + 1 :]))


def unmapped_aval(size: int, axis: int | None, aval: ArrayType, *_: Any) -> ArrayType:
    """The type of `size` elements along a new axis; None: the type itself."""
    return aval if axis is None else aval.with_shape((*aval.shape[:axis], size, *aval.shape[axis:]))


