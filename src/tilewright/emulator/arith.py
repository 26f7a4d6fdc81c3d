"""The dialects arith and math. Integers are signless: stored signed, seen as unsigned where the operation says so.

Fast-math flags are ignored. What LLVM leaves undefined is an error (division by zero) or poison (a shift past the
width, a conversion of a float that the integer does not hold).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from scipy import special

from ..core.ir.array import DTypeLike
from ..core.support.errors import EmulationError
from .core import Op, Rule, Run
from .values import constant, poison

Function = Callable[..., Any]


def signed(x: Any) -> Any:
    """An integer as numbers; true is -1."""
    return -x.astype(np.int8) if x.dtype == bool else x


def unsigned(x: Any) -> Any:
    """The same bits, read as an unsigned integer."""
    if x.dtype == bool:
        return x.astype(np.uint8)
    return x.view(ml_dtypes.uint4 if x.dtype == ml_dtypes.int4 else f"u{x.dtype.itemsize}")


def typed(value: Any, type: Any) -> Any:
    assert type.dtype is not None
    if type.dtype == bool and value.dtype != bool:
        return value & 1 != 0
    return np.asarray(value).astype(type.dtype, copy=False)


def bits(dtype: Any) -> int:
    return 1 if dtype.kind == "b" else ml_dtypes.iinfo(dtype).bits


def plain(f: Function) -> Rule:
    """A NumPy function of the operands; the result's type is that of the operation."""
    return lambda op: lambda *xs: typed(f(*xs), op.result)


def of_signed(f: Function) -> Rule:
    return lambda op: lambda *xs: typed(f(*map(signed, xs)), op.result)


def of_unsigned(f: Function) -> Rule:
    return lambda op: lambda *xs: typed(f(*map(unsigned, xs)), op.result)


def wide(x: Any) -> Any:
    """A float with enough bits to compute in: at least float32."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 and x.dtype.kind not in "iub" else x


def of_wide(f: Function) -> Rule:
    """A function of floats, computed in float32 at least and rounded once."""
    return lambda op: lambda *xs: typed(f(*map(wide, xs)), op.result)


# ---------------------------------------------------------------------------------------------- integers


def _divisor(name: str, x: Any, y: Any) -> None:
    if np.any(y == 0):
        raise EmulationError(f"{name}: division by zero")
    if x.dtype.kind == "i" and np.any((y == -1) & (x == np.iinfo(x.dtype).min)):
        raise EmulationError(f"{name}: the least integer divided by -1")


def _towards_zero(x: Any, y: Any) -> Any:
    q = np.floor_divide(x, y)
    return q + ((q < 0) & (q * y != x)) if x.dtype.kind == "i" else q


def division(f: Function, view: Function = signed) -> Rule:
    def rule(op: Op) -> Run:
        def run(x: Any, y: Any) -> Any:
            x, y = view(x), view(y)
            _divisor(op.name, x, y)
            return typed(f(x, y), op.result)

        return run

    return rule


def shift(f: Function, view: Function) -> Rule:
    def rule(op: Op) -> Run:
        assert op.result.dtype is not None
        width = bits(op.result.dtype)

        def run(x: Any, y: Any) -> Any:
            good = unsigned(y) < width
            amount = np.where(good, unsigned(y), 0).astype(view(x).dtype)
            return np.where(good, typed(f(view(x), amount), op.result), poison((), x.dtype))

        return run

    return rule


def _extended(f: Function, view: Function) -> Rule:
    """The low and the high half of a product, from exact Python integers."""

    def rule(op: Op) -> Run:
        dtype = op.result.dtype
        assert dtype is not None

        def run(x: Any, y: Any) -> Any:
            exact = np.asarray(f(view(x).astype(object), view(y).astype(object)), object)
            n = bits(dtype)
            low = np.vectorize(lambda v: v & (2**n - 1), otypes=[np.uint64])(exact)
            high = np.vectorize(lambda v: (v >> n) & (2**n - 1), otypes=[np.uint64])(exact)
            return tuple(np.asarray(h).astype(f"u{dtype.itemsize}").view(dtype) for h in (low, high))

        return run

    return rule


def _add_extended(op: Op) -> Run:
    def run(x: Any, y: Any) -> Any:
        total = unsigned(x) + unsigned(y)
        return typed(total, op.result), np.asarray(total < unsigned(x))

    return run


def _sub_extended(op: Op) -> Run:
    return lambda x, y: (typed(unsigned(x) - unsigned(y), op.result), np.asarray(unsigned(x) < unsigned(y)))


def leading_zeros(x: Any) -> Any:
    width = bits(x.dtype)
    u = unsigned(x).astype(np.uint64)
    return width - np.asarray(sum((u >> np.uint64(i)) != 0 for i in range(width)), np.int64)


def trailing_zeros(x: Any) -> Any:
    width = bits(x.dtype)
    u = unsigned(x).astype(np.uint64)
    return np.asarray(sum((u & np.uint64(2 ** (i + 1) - 1)) == 0 for i in range(width)), np.int64)


def popcount(x: Any) -> Any:
    return np.bitwise_count(unsigned(x).astype(np.uint64)).astype(np.int64)


COMPARE_INTEGERS: tuple[tuple[Function, Function], ...] = (
    (np.equal, signed), (np.not_equal, signed), (np.less, signed), (np.less_equal, signed), (np.greater, signed),
    (np.greater_equal, signed), (np.less, unsigned), (np.less_equal, unsigned), (np.greater, unsigned),
    (np.greater_equal, unsigned),
)  # fmt: skip


def _cmpi(op: Op) -> Run:
    compare, view = COMPARE_INTEGERS[op.int("predicate")]
    return lambda x, y: np.asarray(compare(view(x), view(y)))


# ---------------------------------------------------------------------------------------------- floats


def _unordered(x: Any, y: Any) -> Any:
    return np.isnan(x) | np.isnan(y)


def _or_unordered(f: Function) -> Function:
    return lambda x, y: f(x, y) | _unordered(x, y)


COMPARE_FLOATS: tuple[Function, ...] = (
    lambda x, y: np.zeros(x.shape, bool), np.equal, np.greater, np.greater_equal, np.less, np.less_equal,
    lambda x, y: (x != y) & ~_unordered(x, y), lambda x, y: ~_unordered(x, y), _or_unordered(np.equal),
    _or_unordered(np.greater), _or_unordered(np.greater_equal), _or_unordered(np.less), _or_unordered(np.less_equal),
    np.not_equal, _unordered, lambda x, y: np.ones(x.shape, bool),
)  # fmt: skip


def _cmpf(op: Op) -> Run:
    compare = COMPARE_FLOATS[op.int("predicate")]
    return lambda x, y: np.asarray(compare(x, y))


def fused_multiply_add(x: Any, y: Any, z: Any) -> Any:
    if x.dtype == np.float64:
        return x * y + z
    return x.astype(np.float64) * y.astype(np.float64) + z.astype(np.float64)


def _fma(op: Op) -> Run:
    return lambda x, y, z: typed(fused_multiply_add(x, y, z), op.result)


def power(x: Any, y: Any) -> Any:
    return np.power(x, y.astype(x.dtype))


def half_away(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(np.ones_like(x), x), np.zeros_like(x))


# ---------------------------------------------------------------------------------------------- casts


def to_integer(x: Any, dtype: DTypeLike, low: int, high: int) -> Any:
    """A float rounded towards zero; poison where it is not a number or not within the limits."""
    whole = np.trunc(x.astype(np.float64))
    good = (whole >= low) & (whole <= high) if high < 2**53 else (whole >= low) & (whole < float(high + 1))
    kept = np.where(good, whole, 0)
    return np.where(good, kept.astype(np.uint64 if low == 0 else np.int64).astype(dtype), poison((), np.dtype(dtype)))


def _fptosi(op: Op) -> Run:
    n = bits(op.result.dtype)
    return lambda x: to_integer(x, op.result.dtype, -(2 ** (n - 1)), 2 ** (n - 1) - 1)


def _fptoui(op: Op) -> Run:
    n = bits(op.result.dtype)
    return lambda x: to_integer(x, op.result.dtype, 0, 2**n - 1)


def _trunci(op: Op) -> Run:
    return lambda x: typed(x, op.result)


def _bitcast(op: Op) -> Run:
    return lambda x: np.asarray(x).view(op.result.number)


def _constant(op: Op) -> Run:
    value = constant(op.attribute("value"), op.result)
    value.setflags(write=False)
    return lambda: value


def _select(op: Op) -> Run:
    return lambda c, x, y: np.where(c, x, y) if isinstance(x, np.ndarray | np.generic) else x if c else y


def _convert(op: Op) -> Run:
    return lambda x: x.astype(op.result.dtype)


def _sincos(op: Op) -> Run:
    return lambda x: tuple(typed(f(wide(x)), op.result) for f in (np.sin, np.cos))


ARITH: dict[str, Rule] = {
    "constant": _constant,
    "addi": plain(lambda x, y: x ^ y if x.dtype == bool else x + y),
    "subi": plain(lambda x, y: x ^ y if x.dtype == bool else x - y),
    "muli": plain(lambda x, y: x & y if x.dtype == bool else x * y),
    "addui_extended": _add_extended,
    "subui_extended": _sub_extended,
    "mulsi_extended": _extended(lambda x, y: x * y, signed),
    "mului_extended": _extended(lambda x, y: x * y, unsigned),
    "divsi": division(_towards_zero),
    "divui": division(_towards_zero, unsigned),
    "remsi": division(np.fmod),
    "remui": division(np.fmod, unsigned),
    "floordivsi": division(np.floor_divide),
    "ceildivsi": division(lambda x, y: np.floor_divide(x, y) + (np.fmod(x, y) != 0)),
    "ceildivui": division(lambda x, y: np.floor_divide(x, y) + (np.fmod(x, y) != 0), unsigned),
    "andi": plain(np.bitwise_and),
    "ori": plain(np.bitwise_or),
    "xori": plain(np.bitwise_xor),
    "shli": shift(np.left_shift, unsigned),
    "shrsi": shift(np.right_shift, signed),
    "shrui": shift(np.right_shift, unsigned),
    "maxsi": of_signed(np.maximum),
    "maxui": of_unsigned(np.maximum),
    "minsi": of_signed(np.minimum),
    "minui": of_unsigned(np.minimum),
    "cmpi": _cmpi,
    "addf": plain(np.add),
    "subf": plain(np.subtract),
    "mulf": plain(np.multiply),
    "divf": plain(np.divide),
    "remf": plain(np.fmod),
    "negf": plain(np.negative),
    "maximumf": plain(np.maximum),
    "minimumf": plain(np.minimum),
    "maxnumf": plain(np.fmax),
    "minnumf": plain(np.fmin),
    "cmpf": _cmpf,
    "select": _select,
    "bitcast": _bitcast,
    "extf": _convert,
    "truncf": _convert,
    "convertf": _convert,
    "extsi": of_signed(lambda x: x),
    "extui": of_unsigned(lambda x: x),
    "trunci": _trunci,
    "sitofp": of_signed(lambda x: x),
    "uitofp": of_unsigned(lambda x: x),
    "fptosi": _fptosi,
    "fptoui": _fptoui,
    "index_cast": of_signed(lambda x: x),
    "index_castui": of_unsigned(lambda x: x),
}

MATH: dict[str, Rule] = {
    **{
        name: of_wide(f)
        for name, f in {
            "absf": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh,
            "atan": np.arctan, "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil,
            "copysign": np.copysign, "cos": np.cos, "cosh": np.cosh, "erf": special.erf, "erfc": special.erfc,
            "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "floor": np.floor, "log": np.log, "log10": np.log10,
            "log1p": np.log1p, "log2": np.log2, "powf": np.power, "fpowi": power, "round": half_away,
            "roundeven": np.rint, "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "sinh": np.sinh, "sqrt": np.sqrt,
            "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc, "isfinite": np.isfinite, "isinf": np.isinf,
            "isnan": np.isnan, "clampf": lambda x, low, high: np.minimum(np.maximum(x, low), high),
        }.items()
    },
    "fma": _fma,
    "absi": plain(np.abs),
    "ipowi": plain(lambda x, y: np.where(y < 0, 0, np.power(x, np.maximum(y, 0)))),
    "ctlz": plain(leading_zeros),
    "cttz": plain(trailing_zeros),
    "ctpop": plain(popcount),
    "sincos": _sincos,
}  # fmt: skip

RULES: dict[str, Rule] = {
    **{f"arith.{name}": rule for name, rule in ARITH.items()},
    **{f"math.{name}": rule for name, rule in MATH.items()},
}
