"""Array-likes, and the type of anything that can be used as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import ArgumentError, NonArrayArgumentError
from .extension_types import OpaqueType, opaque_types
from .types import ArrayType, RefType, Type, as_dtype, canonical_dtype, is_known, scalar_type

if TYPE_CHECKING:
    from .array import Array
else:
    Array = object

Scalar: tuple[type[bool], type[int], type[float], type[complex]] = (bool, int, float, complex)


class Value(Array):
    """Base of everything that behaves as an array: tracers here, `Array` in the runtime.

    `core/arrays/operators.py` gives it its operators, and `tilewright.numpy` its NumPy-named methods; for checkers
    `core/ir/array.py` declares them.
    """

    __slots__ = ()
    aval: Any
    __array_priority__ = 100


def typeof(x: Any) -> Type:
    """The type of an array, tracer or number; an error for anything else.

    >>> import tilewright as tw
    >>> print(tw.typeof(tw.numpy.ones((2, 3))), tw.typeof(1.0))
    float32[2,3] float32[]
    """
    if isinstance(x, Value):
        return x.aval
    kind = type(x)
    if kind in Scalar:
        return scalar_type(x)
    if getattr(kind, "symbolic", False):
        return scalar_type(1)  # a size that is not known yet, as a number
    if kind in opaque_types:
        return opaque_types[kind](x)
    if isinstance(x, (np.ndarray, np.generic)):
        return _type_of_numpy(x)
    if hasattr(x, "aval"):
        return _type_of_aval(x.aval)
    elif hasattr(x, "__jax_array__"):
        return typeof(x.__jax_array__())
    elif isinstance(x, Scalar):
        return scalar_type(kind.__mro__[1](x))
    raise NonArrayArgumentError(
        f"{_shown(x)} of type {kind.__name__} is not an array, a number or a pytree of them",
        "convert it with `numpy.asarray`, or pass its elements"
        if isinstance(x, (list, tuple))
        else "convert it with `todense()`, or make the function one of sparse arrays with `sparsify`"
        if hasattr(x, "todense")
        else "pass an array, or name the argument in `static_argnums` of `jit`",
    )


def _type_of_numpy(x: Any) -> Type:
    dtype = as_dtype(x.dtype) if x.dtype.names else canonical_dtype(x.dtype)  # the evaluator's keys are records
    if not is_known(dtype):
        what = f"{_shown(x)} of type {type(x).__name__} and dtype {x.dtype} is not an array of numbers"
        raise NonArrayArgumentError(what, "convert it to numbers or booleans")
    if type(x) is not np.ndarray and hasattr(x, "mask"):
        raise ArgumentError(f"{_shown(x)} is a masked array", "fill it with a value, `x.filled(0)`, and use its mask")
    return ArrayType(x.shape, dtype)


def _type_of_aval(aval: Any) -> Type:
    """The type that stands-in arguments carry as it is; that of another library's array translated."""
    if isinstance(aval, (ArrayType, RefType, OpaqueType)):
        return aval  # type: ignore[return-value]  (an opaque type acts as one)
    return ArrayType(tuple(aval.shape), canonical_dtype(aval.dtype), bool(getattr(aval, "weak_type", False)))


def _shown(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


def placed_like(x: Any) -> Any:
    """The sharding over a mesh of an array, a traced value (as its type shows it) or a struct; None without one."""
    if isinstance(x, Value):
        return x.aval.placed or getattr(x, "_placed", None)
    sharding = getattr(x, "sharding", None)
    return sharding if hasattr(sharding, "mesh") else None
