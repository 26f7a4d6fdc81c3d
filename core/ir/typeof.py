"""Array-likes, and the type of anything that can be used as an array."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..support.errors import ArgumentError, NonArrayArgumentError
from ..support.late_methods import late_methods
from ..support.runtime import runtime
from .extension_types import OpaqueType, opaque_types
from .types import ArrayType, RefType, Type, as_dtype, canonical_dtype, is_known, scalar_type

if TYPE_CHECKING:
    from .array import Array, ArrayLike, Operand
else:
    Array = late_methods(
        "TracedMethods",
        lambda: runtime.backend.array_methods,
        """
        __add__ __sub__ __mul__ __truediv__ __floordiv__ __mod__ __divmod__ __pow__ __matmul__ __and__ __or__ __xor__
        __lshift__ __rshift__ __radd__ __rsub__ __rmul__ __rtruediv__ __rfloordiv__ __rmod__ __rdivmod__ __rpow__
        __rmatmul__ __rand__ __ror__ __rxor__ __rlshift__ __rrshift__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__
        __neg__ __pos__ __abs__ __invert__ __round__ __len__ __iter__ __getitem__ __setitem__
        T mT at flat imag real
        all any argmax argmin argpartition argsort astype byteswap choose clip compress conj conjugate copy cumprod
        cumsum diagonal dot flatten max mean min nonzero prod ptp ravel repeat reshape round searchsorted sort squeeze
        std sum swapaxes take trace transpose var view
        __array_namespace__ __array_ufunc__ __array_function__
        """,
    )

Scalar: tuple[type[bool], type[int], type[float], type[complex]] = (bool, int, float, complex)


class Value(Array):
    """Base of everything that behaves as an array: tracers here, `Array` in the runtime.

    Operators and methods are the backend's `array_methods`: `Array` inherits them, tracers look them up. For checkers
    `core/ir/array.py` declares them.
    """

    __slots__ = ()
    aval: Any
    __array_priority__ = 100

    @property
    def shape(self) -> tuple[int, ...]:
        return self.aval.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        return len(self.aval.shape)

    @property
    def size(self) -> int:
        return self.aval.size

    @property
    def weak_type(self) -> bool:
        return self.aval.weak_type

    @property
    def itemsize(self) -> int:
        return self.aval.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.aval.size * self.aval.dtype.itemsize


def typeof(x: ArrayLike) -> Type:
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


def _type_of_numpy(x: ArrayLike) -> Type:
    dtype = as_dtype(x.dtype) if x.dtype.names else canonical_dtype(x.dtype)  # the evaluator's keys are records
    if not is_known(dtype):
        what = f"{_shown(x)} of type {type(x).__name__} and dtype {x.dtype} is not an array of numbers"
        raise NonArrayArgumentError(what, "convert it to numbers or booleans")
    if type(x) is not np.ndarray and hasattr(x, "mask"):
        raise ArgumentError(f"{_shown(x)} is a masked array", "fill it with a value, `x.filled(0)`, and use its mask")
    return ArrayType(x.shape, dtype)


def _type_of_aval(aval: Type) -> Type:
    """The type that stands-in arguments carry as it is; that of another library's array translated."""
    if isinstance(aval, (ArrayType, RefType, OpaqueType)):
        return aval  # type: ignore[return-value]  (an opaque type acts as one)
    return ArrayType(tuple(aval.shape), canonical_dtype(aval.dtype), bool(getattr(aval, "weak_type", False)))


def _shown(x: Any) -> str:
    text = repr(x)
    return text if len(text) <= 60 else text[:57] + "..."


def placed_like(x: Operand) -> Any:
    """The sharding over a mesh of an array, a traced value (as its type shows it) or a struct; None without one."""
    if isinstance(x, Value):
        return x.aval.placed or getattr(x, "_placed", None)
    sharding = getattr(x, "sharding", None)
    return sharding if hasattr(sharding, "mesh") else None
