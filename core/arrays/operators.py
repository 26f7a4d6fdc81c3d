"""The operators of arrays, tracers and Refs: NumPy's meaning, JAX's promotion.

`Operators` is the mixin class that has them. `promote_args` is the one place where operands of
different dtypes and shapes are promoted and broadcast; the functions of `tilewright.numpy` use it too.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..ir.array import Array, ArrayLike
from ..ir.dimension import dimension
from ..ir.extension_types import OpaqueType
from ..ir.primitive import Primitive
from ..ir.promotion import promote_types, to_inexact
from ..ir.types import ArrayType, canonical_dtype, is_bool, is_complex, is_inexact, is_integer, is_unsigned
from ..primitives.contraction.dot_general import matmul as product
from ..primitives.elementwise.arithmetic import (
    RoundingMethod,
    abs_p,
    add_p,
    div_p,
    integer_pow,
    mul_p,
    neg_p,
    pow_p,
    rem_p,
    round_p,
    sign_p,
    sub_p,
)
from ..primitives.elementwise.bitwise import (
    and_p,
    not_p,
    or_p,
    shift_left_p,
    shift_right_arithmetic_p,
    shift_right_logical_p,
    xor_p,
)
from ..primitives.elementwise.comparison import eq_p, ge_p, gt_p, le_p, lt_p, ne_p, select_n_p
from ..primitives.elementwise.conversion import cast, convert_element_type, imag_p, real_p, stop_gradient_p
from ..primitives.elementwise.conversion import complex as make_complex
from ..primitives.movement.shape import broadcast_shapes, broadcast_to, full_like, transpose_p
from ..support.config import current
from ..support.errors import ArgumentTypeError, ImmutableArrayError, ShapeError, warn
from ..tracing.array_conversion import as_array
from ..tracing.trace import Scalar, Tracer, Value, typeof
from ..transforms.rule_helpers import like
from .gather_scatter_indexing import IndexUpdate, getitem

# ---------------------------------------------------------------------------- promotion


def _broadcast(values: list[Any], types: list[ArrayType]) -> list[Any]:
    """Values of one shape; rank-0 ones stay as they are, since elementwise primitives take them beside arrays."""
    shapes = {t.shape for t in types if t.shape}
    if len(shapes) <= 1:
        return values
    check_ranks(types)
    shape = broadcast_shapes(*shapes)
    pairs = zip(values, types, strict=True)
    return [v if not t.shape or t.shape == shape else broadcast_to(v, shape) for v, t in pairs]


def check_ranks(types: Sequence[Any]) -> None:
    """Raise `ShapeError`, or warn, where arrays of several ranks meet and `numpy_rank_promotion` says so."""
    ranks = {len(t.shape) for t in types if t.shape}
    mode = current().numpy_rank_promotion
    if len(ranks) > 1 and mode != "allow":
        what = f"operands of ranks {sorted(ranks)} ({', '.join(t.show() for t in types)}) need rank promotion"
        if mode == "raise":
            raise ShapeError(f"{what}, and numpy_rank_promotion is 'raise'", "reshape them to one rank")
        warn(what)


def _cast(values: tuple[Any, ...], dtype: np.dtype[Any], weak: bool) -> list[Any]:
    if dtype.kind == "V":  # a dtype that NumPy does not know: its own operators make wider floats of it
        values = tuple(as_array(x) if isinstance(x, (np.ndarray, np.generic)) else x for x in values)
    return [cast(x, dtype, weak) for x in values]


def promote_args(*xs: Any) -> list[Array]:
    """Values of one dtype and one shape, by JAX's promotion and NumPy's broadcasting.

    Scalars (Python's, and arrays of rank 0) stay of rank 0: every elementwise primitive takes them beside
    arrays. Raises `DtypeError` where there is no common dtype and `ShapeError` where there is no shape.
    """
    types: list[Any] = [typeof(x) for x in xs]
    dtype, weak = promote_types(types)
    return _broadcast(_cast(xs, dtype, weak), types)


def promote_args_inexact(*xs: Any) -> list[Array]:
    """`promote_args`, integers and booleans becoming floats."""
    types: list[Any] = [typeof(x) for x in xs]
    dtype, weak = promote_types(types)
    if not is_inexact(dtype):
        dtype = to_inexact(dtype)
    return _broadcast(_cast(xs, dtype, weak), types)


# ---------------------------------------------------------------------------- NumPy's arithmetic

Function = Callable[..., Any]


def _dtype(x: Array) -> Any:
    return typeof(x).dtype


def _promoting(bind: Function) -> Function:
    """A function of two operands of one type as one of any two operands."""

    def promoted(x: ArrayLike, y: ArrayLike) -> Any:
        if typeof(x) is typeof(y):
            return bind(x, y)
        return bind(*promote_args(x, y))

    return promoted


def _or_boolean(primitive: Primitive, boolean: Primitive) -> Function:
    return _promoting(lambda x, y: (boolean if is_bool(_dtype(x)) else primitive).bind(x, y))


add: Function = _or_boolean(add_p, or_p)
multiply: Function = _or_boolean(mul_p, and_p)
subtract: Function = _promoting(sub_p.bind)
equal: Function = _promoting(eq_p.bind)
not_equal: Function = _promoting(ne_p.bind)
less: Function = _promoting(lt_p.bind)
less_equal: Function = _promoting(le_p.bind)
greater: Function = _promoting(gt_p.bind)
greater_equal: Function = _promoting(ge_p.bind)
bitwise_and: Function = _promoting(and_p.bind)
bitwise_or: Function = _promoting(or_p.bind)
bitwise_xor: Function = _promoting(xor_p.bind)


def true_divide(x: ArrayLike, y: ArrayLike) -> Any:
    """x / y as NumPy divides: integers give floats."""
    return div_p.bind(*promote_args_inexact(x, y))


def _zero_like(x: ArrayLike) -> Any:
    return like(x, 0)


def _one_like(x: ArrayLike) -> Any:
    return like(x, 1)


def _float_divmod(x: Array, y: Array) -> tuple[Any, Any]:
    """Floored quotient and remainder of floats, as Python's `divmod`; by zero the quotient is x / 0.

    A quotient that is zero has the sign of x / y, a remainder that is zero that of y, as NumPy's.
    """
    mod = rem_p.bind(x, y)
    by_zero = eq_p.bind(y, _zero_like(y))
    quotient = div_p.bind(select_n_p.bind(by_zero, sub_p.bind(x, mod), x), y)
    wrong = and_p.bind(ne_p.bind(mod, _zero_like(mod)), ne_p.bind(sign_p.bind(y), sign_p.bind(mod)))
    mod = select_n_p.bind(wrong, mod, add_p.bind(mod, y))
    quotient = select_n_p.bind(wrong, quotient, sub_p.bind(quotient, _one_like(quotient)))
    quotient = round_p.bind(quotient, rounding_method=RoundingMethod.AWAY_FROM_ZERO)
    signed = stop_gradient_p.bind(mul_p.bind(div_p.bind(x, y), _zero_like(y)))
    return select_n_p.bind(eq_p.bind(quotient, _zero_like(y)), quotient, signed), _sign_of_zero(mod, y)


def _sign_of_zero(mod: Array, y: Array) -> Any:
    """A remainder, with the sign of the divisor where it is zero; its derivative is that of the remainder."""
    zero = select_n_p.bind(lt_p.bind(y, _zero_like(y)), _zero_like(y), like(y, -0.0))
    signed = sub_p.bind(zero, sub_p.bind(stop_gradient_p.bind(mod), mod))
    return select_n_p.bind(eq_p.bind(mod, _zero_like(mod)), mod, signed)


def _without_booleans(x: ArrayLike, y: ArrayLike) -> tuple[Any, Any]:
    """Operands of one dtype, booleans as integers."""
    if is_bool(_dtype(x)):
        return cast(x, canonical_dtype(np.int64)), cast(y, canonical_dtype(np.int64))
    return x, y


def _floor_divide(x: Array, y: ArrayLike) -> Any:
    x, y = _without_booleans(x, y)
    dtype = _dtype(x)
    if is_unsigned(dtype):
        return div_p.bind(x, y)
    if is_complex(dtype):
        raise ArgumentTypeError("floor division of complex numbers", "complex numbers have no floor")
    if not is_integer(dtype):
        return _float_divmod(x, y)[0]
    quotient = div_p.bind(x, y)
    inexact = ne_p.bind(rem_p.bind(x, y), _zero_like(x))
    down = and_p.bind(ne_p.bind(sign_p.bind(x), sign_p.bind(y)), inexact)
    return select_n_p.bind(down, quotient, sub_p.bind(quotient, _one_like(quotient)))


def _remainder(x: Array, y: ArrayLike) -> Any:
    x, y = _without_booleans(x, y)
    if is_integer(_dtype(x)) and not (type(y) in Scalar and y):
        y = select_n_p.bind(eq_p.bind(y, _zero_like(y)), y, _one_like(y))  # x % 0 is 0, as in NumPy
    mod = rem_p.bind(x, y)
    if is_unsigned(_dtype(x)):
        return mod
    nonzero = ne_p.bind(mod, _zero_like(mod))
    wrong = and_p.bind(ne_p.bind(lt_p.bind(mod, _zero_like(mod)), lt_p.bind(y, _zero_like(y))), nonzero)
    mod = select_n_p.bind(wrong, mod, add_p.bind(mod, y))
    return mod if is_integer(_dtype(x)) else _sign_of_zero(mod, y)


def _right_shift(x: Array, y: ArrayLike) -> Any:
    x, y = _without_booleans(x, y)
    return (shift_right_logical_p if is_unsigned(_dtype(x)) else shift_right_arithmetic_p).bind(x, y)


left_shift: Function = _promoting(lambda x, y: shift_left_p.bind(*_without_booleans(x, y)))
right_shift: Function = _promoting(_right_shift)
floor_divide: Function = _promoting(_floor_divide)
remainder: Function = _promoting(_remainder)


def divmod_(x: Any, y: ArrayLike) -> tuple[Any, Any]:
    """The pair (x // y, x % y)."""
    if is_inexact(promote_types([typeof(x), typeof(y)])[0]):  # type: ignore[list-item]
        return _float_divmod(*promote_args(x, y))
    return floor_divide(x, y), remainder(x, y)


def power(x: ArrayLike, y: ArrayLike) -> Any:
    """x ** y as NumPy raises; a Python integer y becomes repeated multiplication."""
    if isinstance(y, (int, np.integer)) and not isinstance(y, bool) and type(x) not in Scalar:
        y = int(y)
        if is_bool(_dtype(x)):
            x = convert_element_type(x, np.int64)
        return integer_pow(x, y) if y != 0 else full_like(x, 1)
    tx, ty = typeof(x), typeof(y)
    if is_integer(ty.dtype) and is_inexact(tx.dtype):
        return pow_p.bind(*_broadcast([x, y], [tx, ty]))  # type: ignore[list-item]
    found = pow_p.bind(*_without_booleans(*promote_args(x, y)))
    return found if is_inexact(_dtype(found)) else convert_element_type(found, _dtype(found))  # strong, as JAX's


def matmul(x: Array, y: Array) -> Any:
    """The matrix product of NumPy's `@`."""
    return product(x, y)


def negative(x: Array) -> Any:
    return neg_p.bind(x)


def positive(x: Any) -> Any:
    return x


def absolute(x: Array) -> Any:
    """The absolute value; of booleans and unsigned integers, x itself."""
    dtype = _dtype(x)
    return x if is_bool(dtype) or is_unsigned(dtype) else abs_p.bind(x)


def invert(x: Array) -> Any:
    return not_p.bind(x)


def round_to(x: Array, decimals: int | None = None) -> Any:
    """x rounded to a number of decimals, halves to even; integers stay as they are for `decimals` >= 0."""
    digits = operator.index(decimals or 0)
    dtype = _dtype(x)
    if not is_inexact(dtype):
        if digits >= 0 or is_bool(dtype):
            return x
        scale = 10**-digits
        half = add(floor_divide(x, scale), 0)
        low = multiply(half, scale)
        twice = multiply(subtract(x, low), 2)
        up = bitwise_or(greater(twice, scale), bitwise_and(equal(twice, scale), equal(remainder(half, 2), 1)))
        return select_n_p.bind(up, low, add(low, scale))
    if is_complex(dtype):
        return make_complex(round_to(real_p.bind(x), digits), round_to(imag_p.bind(x), digits))
    even = RoundingMethod.TO_NEAREST_EVEN
    if digits == 0:
        return round_p.bind(x, rounding_method=even)
    scale = like(x, 10.0**digits)
    return div_p.bind(round_p.bind(mul_p.bind(x, scale), rounding_method=even), scale)


def _python_round(x: Array, ndigits: int | None = None) -> Any:
    """Python's `round`: without `ndigits`, integers."""
    rounded = round_to(x, ndigits)
    return convert_element_type(rounded, np.int64) if ndigits is None and not is_complex(_dtype(x)) else rounded


# ---------------------------------------------------------------------------- operators

OPERANDS = (Value, bool, int, float, complex, np.ndarray, np.generic)


def declined(name: str, other: Any) -> Any:
    """What an operator says to an operand that is not its own: Python may ask the other side.

    Except of a list or tuple beside `*` that multiplies in no way of its own: Python would then repeat it, the array
    taken as a count.
    """
    repeats = getattr(type(other), "__rmul__", None) in (list.__rmul__, tuple.__rmul__)
    if repeats and name in ("__mul__", "__rmul__"):
        raise ArgumentTypeError(f"an array times a {type(other).__name__}", "convert it with `numpy.asarray` first")
    return NotImplemented


def _of_client(name: str, method: Function) -> Function:
    """An operator; of a traced value of a client's own type, what that type defines (`_add` for `+`)."""
    own = "_" + name.strip("_")

    def operator(self: Any, *args: Any) -> Any:
        type_ = self.aval
        if isinstance(type_, OpaqueType) and hasattr(type_, own):
            return getattr(type_, own)(self, *args)
        return method(self, *args)

    operator.__name__ = operator.__qualname__ = name
    return operator


def _binary(name: str, function: Function, swapped: bool = False) -> Function:
    """An operator of an array and any other operand; Python asks the other where this one declines."""
    own = "_" + name.strip("_")

    def operator(self: Any, other: Any) -> Any:
        type_ = self.aval
        if isinstance(type_, OpaqueType) and hasattr(type_, own):
            return getattr(type_, own)(self, other)
        if not isinstance(other, OPERANDS):
            if getattr(other, "__jax_array__", None) is not None:
                return operator(self, other.__jax_array__())
            if getattr(other, "symbolic", False):
                other = dimension(other)
            # While tracing, an array of jax is a constant; beside an array of ours it is jax's to add up.
            elif not (isinstance(self, Tracer) and hasattr(other, "aval")):
                return declined(name, other)
        return function(other, self) if swapped else function(self, other)

    operator.__name__ = operator.__qualname__ = name
    return operator


def _both(name: str, function: Function) -> tuple[Function, Function]:
    """A binary operator, and the one that Python calls on its right operand."""
    return _binary(f"__{name}__", function), _binary(f"__r{name}__", function, swapped=True)


def _length(self: Any) -> int:
    if not self.aval.shape:
        raise ArgumentTypeError(f"len() of a scalar of type {self.aval.show()}", "an array of rank 1 or more has one")
    return self.aval.shape[0]


def _iterate(self: Any) -> Iterator[Any]:
    if not self.aval.shape:
        raise ArgumentTypeError(f"iteration over a scalar of type {self.aval.show()}", "an array of rank 1 or more can")
    return (self[i] for i in range(self.aval.shape[0]))


def _setitem(self: Any, index: Any, value: Any) -> None:
    raise ImmutableArrayError(
        f"item assignment to an array of type {self.aval.show()}",
        "write x = x.at[index].set(value): arrays do not change",
    )


class Operators:
    """The operators of arrays and tracers, indexing, and the attributes that take a computation."""

    __slots__ = ()

    __add__, __radd__ = _both("add", add)
    __sub__, __rsub__ = _both("sub", subtract)
    __mul__, __rmul__ = _both("mul", multiply)
    __truediv__, __rtruediv__ = _both("truediv", true_divide)
    __floordiv__, __rfloordiv__ = _both("floordiv", floor_divide)
    __mod__, __rmod__ = _both("mod", remainder)
    __divmod__, __rdivmod__ = _both("divmod", divmod_)
    __pow__, __rpow__ = _both("pow", power)
    __matmul__, __rmatmul__ = _both("matmul", matmul)
    __and__, __rand__ = _both("and", bitwise_and)
    __or__, __ror__ = _both("or", bitwise_or)
    __xor__, __rxor__ = _both("xor", bitwise_xor)
    __lshift__, __rlshift__ = _both("lshift", left_shift)
    __rshift__, __rrshift__ = _both("rshift", right_shift)

    __eq__ = _binary("__eq__", equal)
    __ne__ = _binary("__ne__", not_equal)
    __lt__ = _binary("__lt__", less)
    __le__ = _binary("__le__", less_equal)
    __gt__ = _binary("__gt__", greater)
    __ge__ = _binary("__ge__", greater_equal)

    __neg__ = _of_client("__neg__", negative)
    __pos__ = _of_client("__pos__", positive)
    __abs__ = _of_client("__abs__", absolute)
    __invert__ = _of_client("__invert__", invert)

    __round__ = _of_client("__round__", _python_round)
    __len__ = _of_client("__len__", _length)
    __iter__ = _of_client("__iter__", _iterate)
    __getitem__ = _of_client("__getitem__", getitem)
    __setitem__ = _of_client("__setitem__", _setitem)

    @property
    def T(self: Any) -> Any:
        return transpose_p.bind(self, permutation=tuple(reversed(range(len(self.aval.shape)))))

    @property
    def mT(self: Any) -> Any:
        rank = len(self.aval.shape)
        if rank < 2:
            raise ShapeError(f".mT of an array of type {self.aval.show()}", "it needs rank 2 or more")
        return transpose_p.bind(self, permutation=(*range(rank - 2), rank - 1, rank - 2))

    @property
    def real(self: Any) -> Any:
        return real_p.bind(self) if is_complex(self.aval.dtype) else self

    @property
    def imag(self: Any) -> Any:
        return imag_p.bind(self) if is_complex(self.aval.dtype) else full_like(self, 0)

    @property
    def at(self) -> IndexUpdate:
        return IndexUpdate(self)
