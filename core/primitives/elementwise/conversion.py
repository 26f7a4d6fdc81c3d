"""Conversions: of dtype, of bits, of precision, between real and complex; and `stop_gradient`."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike, Operand
from ...ir.axis_relation import FREE, IDENTITY, POINTWISE, Loops, Relation, Whole, pointwise
from ...ir.elementwise_typing import ANY, FLOAT, INEXACT, check_kind
from ...ir.primitive import Linear, Primitive, Zero
from ...ir.types import (
    ArrayType,
    Dtype,
    canonical_dtype,
    is_bool,
    is_complex,
    is_float,
    is_inexact,
    is_integer,
    is_key,
    kind,
)
from ...support import pytree
from ...support.call_errors import public
from ...support.errors import ArgumentError, DtypeError, ShapeError
from ...tracing.trace import Scalar, typeof
from ...transforms.rule_helpers import like, linear_jvp, no_tangent
from ...transforms.structural_primitives import neg_p
from .bitwise import bits_of
from .builders import complex_dtype, function, nary, operands, real_dtype, stretched, unary

if TYPE_CHECKING:
    from .builders import Unary


# ---------------------------------------------------------------------------- dtypes


def _convert_typing(x: ArrayType, *, new_dtype: np.dtype[Any], weak_type: bool) -> ArrayType:
    if is_key(x.dtype) != is_key(new_dtype):
        raise DtypeError(f"{x.show()} cannot become {new_dtype}", "see `random.key_data` and `random.wrap_key_data`")
    return ArrayType(x.shape, new_dtype, weak_type)


def convert_numpy(x: Operand, dtype: DTypeLike) -> Any:
    """NumPy's `astype` with XLA's meaning: floats beyond an integer type's range saturate, NaN becomes 0."""
    if is_complex(x.dtype) and not is_complex(dtype):
        x = x != 0 if is_bool(dtype) else x.real
    if is_bool(dtype):
        return x != 0
    if is_float(x.dtype) and is_integer(dtype):
        bits = bits_of(dtype)
        low, high = (0, 2**bits - 1) if kind(dtype) == "uint" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        wide = np.nan_to_num(np.trunc(x.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
        inside = np.where((wide > low) & (wide < high), wide, 0.0).astype(np.uint64 if low == 0 else np.int64)
        return np.where(wide >= high, high, np.where(wide <= low, low, inside)).astype(dtype)
    if is_integer(dtype) and dtype.itemsize == 1 and bits_of(dtype) < 8:
        return x.astype(np.int8).astype(dtype)
    return x.astype(dtype)


def _convert_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, new_dtype: np.dtype[Any], weak_type: bool) -> Any:
    (x,), (t,) = primals, tangents
    out = convert_element_type_p.bind(x, new_dtype=new_dtype, weak_type=weak_type)
    type_ = typeof(out)
    if type(t) is Zero or not is_inexact(new_dtype):
        return out, Zero(type_.tangent())
    return out, convert_element_type_p.bind(t, new_dtype=new_dtype, weak_type=False)


convert_element_type_p: Primitive = Primitive(
    "convert_element_type",
    _convert_typing,
    jvp=_convert_jvp,
    transpose=lambda ct, x, *, new_dtype, weak_type: [convert_element_type(ct, x.dtype)],
    numpy=lambda x, *, new_dtype, weak_type: convert_numpy(x, new_dtype),
    relation=pointwise,
    work=FREE,
    kind=POINTWISE,
)


def convert_element_type(operand: ArrayLike, new_dtype: Dtype, weak_type: bool = False) -> Array:
    """An array with its elements converted to another dtype.

    Floats beyond the range of an integer dtype saturate and NaN becomes 0; a complex number gives its
    real part; `weak_type` makes the result promote as a Python scalar does.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.convert_element_type(jnp.array([1.7, -1.7, jnp.nan]), "int32")
    Array([ 1, -1,  0], dtype=int32)
    """
    old, new = typeof(operand), canonical_dtype(new_dtype)
    if type(operand) is int and operand.bit_length() >= bits_of(old.dtype):
        operand = np.asarray(operand).astype(new)[()]  # which wraps round
    if old.dtype == new and old.weak_type == weak_type and type(operand) not in Scalar:
        return operand  # type: ignore[return-value]
    return convert_element_type_p.bind(operand, new_dtype=new, weak_type=bool(weak_type))


def dtype(x: Any) -> Any:
    """The dtype of a value, or the one that a name or a type of numbers stands for.

    >>> from tilewright import lax
    >>> print(lax.dtype('bfloat16'), lax.dtype(1.0))
    bfloat16 float32
    """
    return canonical_dtype(x) if isinstance(x, (str, np.dtype)) or callable(x) else typeof(x).dtype


def cast(x: ArrayLike, dtype: DTypeLike, weak: bool = False) -> Any:
    """A value with another dtype; Python scalars stay scalars."""
    type_ = typeof(x)
    if type_.dtype == dtype and not (weak and not type_.weak_type):
        return x
    if type(x) in Scalar:
        if weak and is_inexact(dtype):
            return builtins.complex(x) if is_complex(dtype) else float(x)
        if weak and typeof(int(x)).dtype == dtype:
            return int(x)
        return like(np.zeros((), dtype), x)
    return convert_element_type(x, dtype, weak)


def width(dtype: DTypeLike) -> int:
    """The number of bits of an element."""
    return bits_of(dtype) if is_integer(dtype) else dtype.itemsize * 8


def _bitcast_typing(x: ArrayType, *, new_dtype: np.dtype[Any]) -> ArrayType:
    if is_key(x.dtype) or is_key(new_dtype) or is_bool(x.dtype) != is_bool(new_dtype):
        raise DtypeError(f"the bits of {x.show()} cannot be read as {new_dtype}", "convert with `astype`")
    old, new = width(x.dtype), width(new_dtype)
    if is_complex(x.dtype) != is_complex(new_dtype):
        raise DtypeError(f"the bits of {x.show()} cannot be read as {new_dtype}", "take `real` and `imag` first")
    if old == new:
        return ArrayType(x.shape, new_dtype)
    if old > new:
        return ArrayType((*x.shape, old // new), new_dtype)
    if not x.shape or x.shape[-1] != new // old:
        raise ShapeError(
            f"to read {x.show()} as {new_dtype}, its last axis must hold the {new // old} parts of one element",
            f"reshape to (..., {new // old}) first",
        )
    return ArrayType(x.shape[:-1], new_dtype)


def _bitcast(x: Operand, *, new_dtype: np.dtype[Any]) -> Any:
    shape = _bitcast_typing(ArrayType(x.shape, x.dtype), new_dtype=new_dtype).shape
    old, new = width(x.dtype), width(new_dtype)
    if min(old, new) >= 8:
        return np.ascontiguousarray(x).reshape(-1).view(new_dtype).reshape(shape)
    # Below a byte NumPy keeps one element a byte: pass through bits, the lowest first.
    bits = np.unpackbits(np.ascontiguousarray(x).reshape(-1).view(np.uint8), bitorder="little")
    bits = bits.reshape(-1, max(8, old))[:, :old].reshape(-1, new)
    if new < 8:
        bits = np.pad(bits, ((0, 0), (0, 8 - new)), mode="edge" if kind(new_dtype) == "int" else "constant")
    return np.packbits(bits, axis=1, bitorder="little").reshape(-1).view(new_dtype).reshape(shape)


def _bitcast_relation(ins: Sequence[Any], outs: Sequence[Any], *, new_dtype: np.dtype[Any]) -> Relation:
    """A narrower dtype adds a last axis, whose parts come from one element; a wider one needs all of the last axis."""
    (x,), (out,), loops = ins, outs, Loops()
    axes = loops.axes(x.shape)
    if out.ndim >= x.ndim:
        parts, kinds = loops.whole(*out.shape[x.ndim :])
        return loops.relation([axes], [(*axes, *parts)], kinds)
    return loops.relation([axes], [axes[:-1]], dict.fromkeys(axes[-1], Whole()))


bitcast_convert_type_p: Primitive = Primitive(
    "bitcast_convert_type",
    _bitcast_typing,
    jvp=no_tangent(lambda: bitcast_convert_type_p),
    numpy=_bitcast,
    relation=_bitcast_relation,
    work=FREE,
)


@public
def bitcast_convert_type(operand: ArrayLike, new_dtype: DTypeLike) -> Array:
    """An array's bits read as another dtype; a wider one takes in, and a narrower one adds, a last axis.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.bitcast_convert_type(jnp.array([1.0, -0.0]), "uint32")
    Array([1065353216, 2147483648], dtype=uint32)
    """
    return bitcast_convert_type_p.bind(operand, new_dtype=canonical_dtype(new_dtype))


def _reduce_precision_typing(x: ArrayType, *, exponent_bits: int, mantissa_bits: int) -> ArrayType:
    check_kind("reduce_precision", x, FLOAT)
    if exponent_bits < 1 or mantissa_bits < 0:
        raise ArgumentError(
            f"reduce_precision takes at least 1 exponent bit and 0 mantissa bits, got {exponent_bits}, {mantissa_bits}"
        )
    return x


def _reduce_precision(x: Operand, *, exponent_bits: int, mantissa_bits: int) -> Any:
    wide = x.astype(np.float64)
    mantissa, exponent = np.frexp(wide)
    scale = 2.0 ** (mantissa_bits + 1)
    rounded = np.ldexp(np.rint(mantissa * scale) / scale, exponent)
    bias = 2 ** (exponent_bits - 1) - 1
    if exponent_bits < 11:
        rounded = np.where(np.abs(rounded) >= 2.0 ** (bias + 1), np.copysign(np.inf, wide), rounded)
        rounded = np.where(np.abs(rounded) < 2.0 ** (1 - bias), np.copysign(0.0, wide), rounded)
    return np.where(np.isfinite(wide), rounded, wide).astype(x.dtype)


reduce_precision_p: Primitive = Primitive(
    "reduce_precision",
    _reduce_precision_typing,
    jvp=linear_jvp(lambda: reduce_precision_p),
    transpose=lambda ct, x, **params: [reduce_precision_p.bind(ct, **params)],
    numpy=_reduce_precision,
    relation=pointwise,
    kind=POINTWISE,
)


@public
def reduce_precision(operand: ArrayLike, exponent_bits: int, mantissa_bits: int) -> Array:
    """Floats rounded to a format of so many exponent and mantissa bits, still of their own dtype.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.reduce_precision(jnp.array([1.0, 1.01]), exponent_bits=8, mantissa_bits=7)  # as bfloat16 has
    Array([1.       , 1.0078125], dtype=float32)
    """
    return reduce_precision_p.bind(operand, exponent_bits=int(exponent_bits), mantissa_bits=int(mantissa_bits))


# ---------------------------------------------------------------------------- real and complex

# Linear maps between real and complex numbers are transposed under the pairing Re(x * y), which
# makes the gradient of a real function the conjugate of the steepest ascent: JAX's convention.
real_p: Primitive = unary(
    "real", ("complex",), np.real, lambda t, out, x: real_p.bind(t), result=real_dtype,
    transpose=lambda ct, type: complex_p.bind(ct, like(ct, 0)),
)  # fmt: skip
imag_p: Primitive = unary(
    "imag", ("complex",), np.imag, lambda t, out, x: imag_p.bind(t), result=real_dtype,
    transpose=lambda ct, type: complex_p.bind(like(ct, 0), neg_p.bind(ct)),
)  # fmt: skip


def _complex(x: Operand, y: Operand) -> Any:
    x, y = np.broadcast_arrays(x, y)
    out = np.empty(x.shape, complex_dtype(x.dtype))
    out.real, out.imag = x, y
    return out


complex_p: Primitive = nary(
    "complex", FLOAT, _complex,
    [
        lambda t, out, x, y: complex_p.bind(t, like(t, 0)),
        lambda t, out, x, y: complex_p.bind(like(t, 0), t),
    ],
    result=complex_dtype,
    transpose=lambda ct, x, y: [
        real_p.bind(ct) if type(x) is Linear else None,
        neg_p.bind(imag_p.bind(ct)) if type(y) is Linear else None,
    ],
)  # fmt: skip


def _conj_transpose(ct: Array, type: ArrayType, *, input_dtype: Dtype) -> Any:
    conjugate = conj_p.bind(ct, input_dtype=typeof(ct).dtype)
    return conjugate if is_complex(type.dtype) else real_p.bind(conjugate)


conj_p: Primitive = unary(
    "conj", INEXACT, lambda x, *, input_dtype: np.conj(x), lambda t, out, x, **params: conj_p.bind(t, **params),
    result=lambda dtype: dtype if is_complex(dtype) else complex_dtype(dtype), transpose=_conj_transpose,
)  # fmt: skip

real: Unary = function(real_p, 1, "Elementwise real part of complex numbers.")
imag: Unary = function(imag_p, 1, "Elementwise imaginary part of complex numbers.")


def complex(x: ArrayLike, y: ArrayLike) -> Array:  # noqa: A001
    """Elementwise x + iy, of floats.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.complex(jnp.array([1.0]), jnp.array([2.0]))
    Array([1.+2.j], dtype=complex64)
    """
    x, y = operands("complex", x, y)
    try:
        return complex_p.bind(x, y)
    except ShapeError as error:
        return complex_p.bind(*stretched(error, x, y))


def conj(x: ArrayLike) -> Array:
    """Elementwise complex conjugate; a float becomes complex.

    >>> from tilewright import lax, numpy as jnp
    >>> lax.conj(jnp.array([1.0 + 2.0j]))
    Array([1.-2.j], dtype=complex64)
    """
    return conj_p.bind(x, input_dtype=typeof(x).dtype)


# ---------------------------------------------------------------------------- stop_gradient

stop_gradient_p: Primitive = unary("stop_gradient", ANY, np.copy, flat=True, wide=False, work=FREE, kind=IDENTITY)


def stop_gradient(x: ArrayLike) -> Any:
    """A pytree of the same values with derivative zero; what is not a float stays as it is.

    >>> import tilewright as tw
    >>> print(tw.grad(lambda x: x * tw.lax.stop_gradient(x))(3.0))
    3.0
    """

    def stop(leaf: Array) -> Any:
        return stop_gradient_p.bind(leaf) if is_inexact(typeof(leaf).dtype) else leaf

    return pytree.map(stop, x)


PRIMITIVES: tuple[Primitive, ...] = (
    convert_element_type_p, bitcast_convert_type_p, reduce_precision_p, real_p, imag_p, complex_p, conj_p,
    stop_gradient_p,
)  # fmt: skip

__all__ = [
    "bitcast_convert_type", "bitcast_convert_type_p", "complex", "complex_p", "conj", "conj_p",
    "convert_element_type", "convert_element_type_p", "dtype", "imag", "imag_p", "real", "real_p", "reduce_precision",
    "reduce_precision_p", "stop_gradient", "stop_gradient_p",
]  # fmt: skip
