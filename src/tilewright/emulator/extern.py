"""The functions of libdevice (`__nv_*`) and of ROCm's ocml (`__ocml_*`) by name, as NumPy functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from ..core.support.errors import EmulationError
from . import arith

Function = Callable[..., Any]


def _log_gamma(x: Any) -> Any:
    return special.gammaln(x)


FLOATS: dict[str, Function] = {
    "fabs": np.abs, "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign, "cos": np.cos,
    "cosh": np.cosh, "cospi": lambda x: np.cos(np.pi * x), "cyl_bessel_i0": special.i0, "cyl_bessel_i1": special.i1,
    "i0": special.i0, "i1": special.i1, "j0": special.j0, "j1": special.j1, "y0": special.y0, "y1": special.y1,
    "erf": special.erf, "erfc": special.erfc, "erfcinv": special.erfcinv, "erfcx": special.erfcx,
    "erfinv": special.erfinv, "exp": np.exp, "exp10": lambda x: np.power(np.asarray(10, x.dtype), x), "exp2": np.exp2,
    "expm1": np.expm1, "fdim": lambda x, y: np.maximum(x - y, 0), "floor": np.floor, "fma": arith.fused_multiply_add,
    "fmod": np.fmod, "fmax": np.fmax, "fmin": np.fmin, "hypot": np.hypot, "ldexp": np.ldexp, "scalbn": np.ldexp,
    "lgamma": _log_gamma, "log": np.log, "log10": np.log10, "log1p": np.log1p, "log2": np.log2,
    "nearbyint": np.rint, "rint": np.rint, "nextafter": np.nextafter, "normcdf": special.ndtr,
    "normcdfinv": special.ndtri, "pow": np.power, "powi": arith.power, "pown": arith.power,
    "rcbrt": lambda x: 1 / np.cbrt(x), "remainder": lambda x, y: x - y * np.rint(x / y), "round": arith.half_away,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "sinh": np.sinh, "sinpi": lambda x: np.sin(np.pi * x),
    "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "tgamma": special.gamma, "trunc": np.trunc,
    "saturate": lambda x: np.where(np.isnan(x), 0, np.clip(x, 0, 1)),
    "fast_exp": np.exp, "fast_exp10": lambda x: np.power(np.asarray(10, x.dtype), x), "fast_log": np.log,
    "fast_log2": np.log2, "fast_log10": np.log10, "fast_pow": np.power, "fast_sin": np.sin, "fast_cos": np.cos,
    "fast_tan": np.tan, "fast_fdivide": np.divide, "fast_tanh": np.tanh,
    "isnan": np.isnan, "isinf": np.isinf, "finite": np.isfinite, "isfinite": np.isfinite, "signbit": np.signbit,
}  # fmt: skip


def _high_product(view: Function) -> Function:
    def high(x: Any, y: Any) -> Any:
        exact = np.asarray(view(x).astype(object) * view(y).astype(object), object)
        shifted = np.vectorize(lambda v: (v >> arith.bits(x.dtype)) & (2 ** arith.bits(x.dtype) - 1), [np.uint64])
        return shifted(exact).astype(arith.unsigned(x).dtype).view(x.dtype)

    return high


def _reversed_bits(x: Any) -> Any:
    width = arith.bits(x.dtype)
    u = arith.unsigned(x)
    one = u.dtype.type(1)
    out = np.zeros_like(u)
    for i in range(width):
        out |= ((u >> u.dtype.type(i)) & one) << u.dtype.type(width - 1 - i)
    return out.view(x.dtype)


INTEGERS: dict[str, Function] = {
    "abs": np.abs, "llabs": np.abs, "clz": arith.leading_zeros, "clzll": arith.leading_zeros,
    "popc": arith.popcount, "popcll": arith.popcount, "brev": _reversed_bits, "brevll": _reversed_bits,
    "ffs": lambda x: np.where(x == 0, 0, arith.trailing_zeros(x) + 1),
    "ffsll": lambda x: np.where(x == 0, 0, arith.trailing_zeros(x) + 1),
    "mulhi": _high_product(arith.signed), "mul64hi": _high_product(arith.signed),
    "umulhi": _high_product(arith.unsigned), "umul64hi": _high_product(arith.unsigned),
}  # fmt: skip


def extern(symbol: str, dtype: Any) -> Function:
    """The function behind a symbol, for a first operand of `dtype`; the symbol must be that of the dtype."""
    found, expected = _lookup(symbol)
    if found is None:
        raise EmulationError(f"the emulator has no function {symbol}")
    if expected is not None and dtype != expected:
        raise EmulationError(f"{symbol} is of {np.dtype(expected).name}, and is given {dtype.name}")
    return found


def _lookup(symbol: str) -> tuple[Function | None, Any]:
    if symbol.startswith("__ocml_"):
        name, _, suffix = symbol[len("__ocml_") :].rpartition("_")
        return FLOATS.get(name), {"f32": np.float32, "f64": np.float64, "f16": np.float16}.get(suffix)
    if not symbol.startswith("__nv_"):
        return None, None
    name = symbol[len("__nv_") :]
    if name in INTEGERS:
        return INTEGERS[name], None
    if name in FLOATS:
        return FLOATS[name], np.float64
    if name[-1] == "d":
        return FLOATS.get(name[:-1]), np.float64
    return (FLOATS.get(name[:-1]), np.float32) if name[-1] == "f" else (None, None)
