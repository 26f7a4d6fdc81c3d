"""Dtypes by name, their limits, promotion and classification."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from ..core.ir.promotion import promote_types as _promote
from ..core.ir.types import RARE_FLOATS, KeyDtype, as_dtype
from ..core.ir.types import kind as _kind
from ..core.support.config import config
from . import util
from .create import asarray
from .util import (
    ArrayLike,
    ArrayType,
    DTypeLike,
    Value,
    canonical_dtype,
    dtype_argument,
    dtype_of,
    is_complex,
    typeof,
    value,
)


class ScalarType(type):
    """A dtype by name: a type that makes arrays when called, and whose instances are NumPy's scalars of it.

    A class derived from one is the same dtype under a name of its own, with constants beside it.

    >>> from tilewright import numpy as jnp
    >>> jnp.float32(1)
    Array(1., dtype=float32)
    """

    dtype: np.dtype

    def __new__(cls, dtype: Any, bases: tuple[type, ...] = (), names: dict[str, Any] | None = None) -> ScalarType:
        if bases:  # a `class` statement
            return super().__new__(cls, dtype, bases, names or {})
        found = np.dtype(dtype)
        return super().__new__(cls, found.name, (), {"dtype": found, "__module__": __package__})

    def __init__(self, dtype: Any, bases: tuple[type, ...] = (), names: dict[str, Any] | None = None):
        super().__init__(self.__name__, (), {})

    @property
    def __numpy_dtype__(self) -> np.dtype:
        return self.dtype

    def __call__(self, x: Any = 0) -> Any:
        return asarray(x, dtype=self.dtype)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, self.dtype.type)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ScalarType):
            return self.dtype == other.dtype
        return self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype.type)

    def __repr__(self) -> str:
        return f"numpy.{self.__name__}"


bool_: ScalarType = ScalarType(np.bool_)
int8: ScalarType
int16: ScalarType
int32: ScalarType
int64: ScalarType
int8, int16, int32, int64 = (ScalarType(f"int{b}") for b in (8, 16, 32, 64))
uint8: ScalarType
uint16: ScalarType
uint32: ScalarType
uint64: ScalarType
uint8, uint16, uint32, uint64 = (ScalarType(f"uint{b}") for b in (8, 16, 32, 64))
float16: ScalarType
float32: ScalarType
float64: ScalarType
float16, float32, float64 = (ScalarType(f"float{b}") for b in (16, 32, 64))
complex64: ScalarType
complex128: ScalarType
complex64, complex128 = ScalarType("complex64"), ScalarType("complex128")
bfloat16: ScalarType
float8_e4m3fn: ScalarType
float8_e5m2: ScalarType
bfloat16, float8_e4m3fn, float8_e5m2 = (
    ScalarType(t) for t in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
)
float4_e2m1fn: ScalarType
float8_e3m4: ScalarType
float8_e4m3: ScalarType
float8_e4m3b11fnuz: ScalarType
float8_e4m3fnuz: ScalarType
float8_e5m2fnuz: ScalarType
float8_e8m0fnu: ScalarType
(
    float4_e2m1fn, float8_e3m4, float8_e4m3, float8_e4m3b11fnuz, float8_e4m3fnuz, float8_e5m2fnuz, float8_e8m0fnu,
) = (ScalarType(getattr(ml_dtypes, name)) for name in RARE_FLOATS)  # fmt: skip
int2: ScalarType
uint2: ScalarType
int4: ScalarType
uint4: ScalarType
int2, uint2, int4, uint4 = (ScalarType(t) for t in (ml_dtypes.int2, ml_dtypes.uint2, ml_dtypes.int4, ml_dtypes.uint4))
half: ScalarType
single: ScalarType
double: ScalarType
half, single, double = float16, float32, float64
csingle: ScalarType
cdouble: ScalarType
csingle, cdouble = complex64, complex128
int_: ScalarType
uint: ScalarType
float_: ScalarType
complex_: ScalarType
int_, uint, float_, complex_ = int64, uint64, float64, complex128

dtype = np.dtype
ComplexWarning = np.exceptions.ComplexWarning
generic: type[np.generic]
number: type[np.number[Any]]
inexact: type[np.inexact[Any]]
floating: type[np.floating[Any]]
generic, number, inexact, floating = np.generic, np.number, np.inexact, np.floating
complexfloating: type[np.complexfloating[Any]]
integer: type[np.integer[Any]]
signedinteger: type[np.signedinteger[Any]]
complexfloating, integer, signedinteger = np.complexfloating, np.integer, np.signedinteger
unsignedinteger: type[np.unsignedinteger[Any]]
flexible: type[np.flexible]
character: type[np.character]
object_: type[np.object_]
unsignedinteger, flexible, character, object_ = np.unsignedinteger, np.flexible, np.character, np.object_

_EXTRA = {
    "float": (np.floating, np.inexact, np.number, np.generic),
    "int": (np.signedinteger, np.integer, np.number, np.generic),
    "uint": (np.unsignedinteger, np.integer, np.number, np.generic),
}


def issubdtype(arg1: DTypeLike, arg2: DTypeLike) -> bool:
    """Whether a dtype is another, or belongs to an abstract kind of NumPy's.

    >>> from tilewright import numpy as jnp
    >>> jnp.issubdtype(jnp.bfloat16, jnp.floating), jnp.issubdtype(int, jnp.inexact)
    (True, False)
    """
    if isinstance(arg1, type) and issubclass(arg1, np.generic) and not _is_concrete(arg1):
        return isinstance(arg2, type) and issubclass(arg1, arg2)
    first = _as_dtype(arg1)
    if isinstance(first, KeyDtype):
        kinds = isinstance(arg2, type) and issubclass(first.type, arg2)
        return kinds or (isinstance(arg2, KeyDtype) and first == arg2)
    if isinstance(arg2, KeyDtype):
        return False
    if isinstance(arg2, type) and issubclass(arg2, np.generic) and not _is_concrete(arg2):
        if first.type in _ML_TYPES:
            return arg2 in _EXTRA[_kind(first)]
        return np.issubdtype(first, arg2)
    return first == _as_dtype(arg2)


_ML_TYPES = {
    *(np.dtype(t).type for t in (bfloat16, float8_e4m3fn, float8_e5m2, int2, uint2, int4, uint4)),
    *(getattr(ml_dtypes, name) for name in RARE_FLOATS),
}


def _is_concrete(t: type) -> bool:
    return t.__name__ not in (
        "generic", "number", "inexact", "floating", "complexfloating", "integer", "signedinteger", "unsignedinteger",
        "flexible", "character", "extended", "prng_key",
    )  # fmt: skip


def _as_dtype(x: Any) -> Any:
    return as_dtype(x)


def result_type(*args: Any) -> Any:
    """The dtype that arguments (arrays, numbers or dtypes) have in common after promotion.

    >>> from tilewright import numpy as jnp
    >>> jnp.result_type(jnp.bfloat16, 1.0), jnp.result_type(jnp.int32, jnp.float16)
    (dtype(bfloat16), dtype('float16'))
    """
    return _promote([type_of(a) for a in args])[0]


def type_of(x: Any) -> ArrayType:
    if x in (bool, int, float, complex) if isinstance(x, type) else False:
        return typeof(x(0))  # type: ignore[return-value]
    if isinstance(x, (Value, np.ndarray, np.generic, bool, int, float, complex)):
        return typeof(x)  # type: ignore[return-value]
    return ArrayType((), canonical_dtype(x))


def promote_types(a: DTypeLike, b: DTypeLike) -> Any:
    """The dtype to which two dtypes promote, of 64 bits too where the configuration has none.

    >>> from tilewright import numpy as jnp
    >>> jnp.promote_types('int32', 'float16')
    dtype('float16')
    """
    with config(enable_x64=True):
        return result_type(a, b)


def can_cast(from_: Any, to: DTypeLike, casting: Any = "safe") -> bool:
    """Whether a cast between dtypes is possible under a rule of casting.

    >>> from tilewright import numpy as jnp
    >>> jnp.can_cast('int32', 'float32')
    False
    """
    source = dtype_of(from_) if isinstance(from_, (Value, np.ndarray, np.generic)) else _as_dtype(from_)
    return np.can_cast(source, _as_dtype(to), casting=casting)


def isdtype(dtype: DTypeLike, kind: Any) -> bool:
    """Whether a dtype is of a kind of the array API standard, or is another dtype.

    >>> from tilewright import numpy as jnp
    >>> jnp.isdtype(jnp.float32, 'real floating'), jnp.isdtype(jnp.int8, ('unsigned integer', 'bool'))
    (True, False)
    """
    wanted = kind if isinstance(kind, tuple) else (kind,)
    return any(_is_of_kind(_as_dtype(dtype), k) for k in wanted)


_KINDS = {
    "bool": ("bool",), "signed integer": ("int",), "unsigned integer": ("uint",), "integral": ("int", "uint"),
    "real floating": ("float",), "complex floating": ("complex",), "numeric": ("int", "uint", "float", "complex"),
}  # fmt: skip


def _is_of_kind(dtype: DTypeLike, kind: Any) -> bool:
    if isinstance(kind, str) and kind in _KINDS:
        return _kind(dtype) in _KINDS[kind]
    return dtype == _as_dtype(kind)


def finfo(dtype: DTypeLike) -> Any:
    """The limits of a floating dtype.

    >>> from tilewright import numpy as jnp
    >>> float(jnp.finfo(jnp.float16).max)
    65504.0
    """
    return ml_dtypes.finfo(_as_dtype(dtype))


def iinfo(int_type: Any) -> Any:
    """The limits of an integer dtype.

    >>> from tilewright import numpy as jnp
    >>> jnp.iinfo(jnp.int8).max
    127
    """
    return ml_dtypes.iinfo(_as_dtype(int_type))


def iscomplexobj(x: ArrayLike) -> bool:
    """Whether an array, number or sequence has a complex dtype.

    >>> from tilewright import numpy as jnp
    >>> jnp.iscomplexobj(1j), jnp.iscomplexobj(jnp.ones(2))
    (True, False)
    """
    if x is None:
        return False
    if isinstance(x, Value):
        return is_complex(dtype_of(x))
    return any(map(iscomplexobj, x)) if isinstance(x, (list, tuple)) else np.iscomplexobj(x)


def isrealobj(x: ArrayLike) -> bool:
    """Whether an array, number or sequence has a dtype that is not complex.

    >>> from tilewright import numpy as jnp
    >>> jnp.isrealobj(jnp.ones(2))
    True
    """
    return not iscomplexobj(x)


def isscalar(element: Any) -> bool:
    """Whether a value is a number or an array of rank 0.

    >>> from tilewright import numpy as jnp
    >>> jnp.isscalar(1.0), jnp.isscalar(jnp.ones(2))
    (True, False)
    """
    if isinstance(element, Value) or hasattr(element, "__array__"):
        return np.ndim(element) == 0 if not isinstance(element, Value) else typeof(element).ndim == 0
    return np.isscalar(element)


def iterable(y: ArrayLike) -> bool:
    """Whether a value can be iterated over.

    >>> from tilewright import numpy as jnp
    >>> jnp.iterable(jnp.ones(2)), jnp.iterable(1)
    (True, False)
    """
    if isinstance(y, Value):
        return typeof(y).ndim > 0
    return np.iterable(y)


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = False, device: Any = None) -> Any:
    """Convert an array to a dtype.

    Complex to real drops the imaginary part; to bool is a comparison with zero.

    >>> from tilewright import numpy as jnp
    >>> jnp.astype(jnp.array([1.7, -2.2]), int)
    Array([ 1, -2], dtype=int32)
    """

    x = value(x, "astype")
    result = util.strong(util.astype(x, dtype_argument(dtype, float)))
    return util.put(util.other(result, x) if copy else result, device)


__all__ = [
    "ComplexWarning",
    "astype", "bfloat16", "bool_", "can_cast", "cdouble", "character", "complex128", "complex64", "complex_",
    "complexfloating", "csingle", "double", "dtype", "finfo", "flexible", "float16", "float32", "float4_e2m1fn",
    "float64", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu", "float_", "floating", "generic", "iinfo", "inexact", "int16", "int2", "int32",
    "int4", "int64", "int8", "int_", "integer", "iscomplexobj", "isdtype", "isrealobj", "isscalar", "issubdtype",
    "iterable", "number", "object_", "promote_types", "result_type", "signedinteger", "single", "uint", "uint16",
    "uint2", "uint32", "uint4", "uint64", "uint8", "unsignedinteger",
]  # fmt: skip
