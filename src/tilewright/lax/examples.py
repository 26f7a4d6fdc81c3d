"""Examples of the functions that are made from tables, such as the elementwise ones: a call and what it prints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_HEAD = ">>> import numpy as np\n>>> from tilewright import lax\n"
_AT = (
    ">>> at = lax.ScatterDimensionNumbers(\n"
    "...     update_window_dims=(), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,))\n"
)
EXAMPLES = {
    "abs": ("lax.abs(np.int32([5, -3]))", "[5 3]"),
    "acos": ("lax.acos(np.float32([0.25, 0.5]))", "[1.3181161 1.0471976]"),
    "acosh": ("lax.acosh(np.float32([1, 2]))", "[0.       1.316958]"),
    "add": ("lax.add(np.int32([5, -3]), np.int32([2, 4]))", "[7 1]"),
    "asin": ("lax.asin(np.float32([0.25, 0.5]))", "[0.25268024 0.5235988 ]"),
    "asinh": ("lax.asinh(np.float32([0.25, 0.5]))", "[0.24746647 0.48121184]"),
    "atan": ("lax.atan(np.float32([0.25, 0.5]))", "[0.24497868 0.46364754]"),
    "atan2": ("lax.atan2(np.float32([1, 1]), np.float32([1, -1]))", "[0.7853982 2.3561945]"),
    "atanh": ("lax.atanh(np.float32([0.25, 0.5]))", "[0.25541282 0.54930615]"),
    "bessel_i0e": ("lax.bessel_i0e(np.float32([0.25, 0.5]))", "[0.79101706 0.64503527]"),
    "bessel_i1e": ("lax.bessel_i1e(np.float32([0.25, 0.5]))", "[0.09811264 0.15642081]"),
    "bitwise_and": ("lax.bitwise_and(np.int32([6, 5]), 3)", "[2 1]"),
    "bitwise_not": ("lax.bitwise_not(np.int32([5, -3]))", "[-6  2]"),
    "bitwise_or": ("lax.bitwise_or(np.int32([6, 5]), 3)", "[7 7]"),
    "bitwise_xor": ("lax.bitwise_xor(np.int32([6, 5]), 3)", "[5 6]"),
    "broadcast_to_rank": ("lax.broadcast_to_rank(np.float32([1, 2]), 3).shape", "(1, 1, 2)"),
    "cbrt": ("lax.cbrt(np.float32([1, 8]))", "[1. 2.]"),
    "ceil": ("lax.ceil(np.float32([0.25, -1.5]))", "[ 1. -1.]"),
    "clz": ("lax.clz(np.int32([2, 4]))", "[30 29]"),
    "cos": ("lax.cos(np.float32([0.25, 0.5]))", "[0.9689124  0.87758255]"),
    "cosh": ("lax.cosh(np.float32([0.25, 0.5]))", "[1.0314131 1.127626 ]"),
    "cumlogsumexp": ("lax.cumlogsumexp(np.float32([0, 1, 2]))", "[0.        1.3132616 2.4076056]"),
    "cummax": ("lax.cummax(np.int32([3, 1, 2]))", "[3 3 3]"),
    "cummin": ("lax.cummin(np.int32([3, 1, 2]))", "[3 1 1]"),
    "cumprod": ("lax.cumprod(np.int32([3, 1, 2]))", "[3 3 6]"),
    "cumsum": ("lax.cumsum(np.int32([3, 1, 2]))", "[3 4 6]"),
    "digamma": ("lax.digamma(np.float32([1, 4]))", "[-0.5772154  1.2561178]"),
    "div": ("lax.div(np.int32([5, -3]), np.int32([2, 4]))", "[2 0]"),
    "eq": ("lax.eq(np.int32([1, 2, 3]), 2)", "[False  True False]"),
    "erf": ("lax.erf(np.float32([0.25, 0.5]))", "[0.27632636 0.5204999 ]"),
    "erf_inv": ("lax.erf_inv(np.float32([0.25, 0.5]))", "[0.22531207 0.47693628]"),
    "erfc": ("lax.erfc(np.float32([0.25, 0.5]))", "[0.7236736  0.47950017]"),
    "exp": ("lax.exp(np.float32([0, 1]))", "[1.        2.7182817]"),
    "exp2": ("lax.exp2(np.float32([0, 3]))", "[1. 8.]"),
    "expm1": ("lax.expm1(np.float32([0, 1e-10]))", "[0.e+00 1.e-10]"),
    "floor": ("lax.floor(np.float32([0.25, -1.5]))", "[ 0. -2.]"),
    "ge": ("lax.ge(np.int32([1, 2, 3]), 2)", "[False  True  True]"),
    "gt": ("lax.gt(np.int32([1, 2, 3]), 2)", "[False False  True]"),
    "imag": ("lax.imag(np.complex64([1 + 2j]))", "[2.]"),
    "is_finite": ("lax.is_finite(np.float32([1, np.inf]))", "[ True False]"),
    "le": ("lax.le(np.int32([1, 2, 3]), 2)", "[ True  True False]"),
    "lgamma": ("lax.lgamma(np.float32([3, 4]))", "[0.6931474 1.7917603]"),
    "log": ("lax.log(np.float32([1, 4]))", "[0.        1.3862944]"),
    "log1p": ("lax.log1p(np.float32([0.25, 0.5]))", "[0.22314355 0.4054651 ]"),
    "logistic": ("lax.logistic(np.float32([0.25, 0.5]))", "[0.5621765  0.62245935]"),
    "lt": ("lax.lt(np.int32([1, 2, 3]), 2)", "[ True False False]"),
    "max": ("lax.max(np.int32([5, -3]), np.int32([2, 4]))", "[5 4]"),
    "min": ("lax.min(np.int32([5, -3]), np.int32([2, 4]))", "[ 2 -3]"),
    "mulhi": ("lax.mulhi(np.uint32([2**31, 3]), np.uint32([4, 5]))", "[2 0]"),
    "ne": ("lax.ne(np.int32([1, 2, 3]), 2)", "[ True False  True]"),
    "neg": ("lax.neg(np.int32([5, -3]))", "[-5  3]"),
    "population_count": ("lax.population_count(np.int32([3, 7]))", "[2 3]"),
    "real": ("lax.real(np.complex64([1 + 2j]))", "[1.]"),
    "reduce_and": ("lax.reduce_and(np.bool_([[True, False], [True, True]]), (1,))", "[False  True]"),
    "reduce_max": ("lax.reduce_max(np.int32([[1, 2], [3, 4]]), (1,))", "[2 4]"),
    "reduce_min": ("lax.reduce_min(np.int32([[1, 2], [3, 4]]), (1,))", "[1 3]"),
    "reduce_or": ("lax.reduce_or(np.bool_([[True, False], [True, True]]), (1,))", "[ True  True]"),
    "reduce_prod": ("lax.reduce_prod(np.int32([[1, 2], [3, 4]]), (1,))", "[ 2 12]"),
    "reduce_sum": ("lax.reduce_sum(np.int32([[1, 2], [3, 4]]), (1,))", "[3 7]"),
    "reduce_xor": ("lax.reduce_xor(np.int32([[1, 2], [3, 4]]), (1,))", "[3 7]"),
    "rem": ("lax.rem(np.int32([5, -3]), np.int32([2, 4]))", "[ 1 -3]"),
    "rsqrt": ("lax.rsqrt(np.float32([1, 4]))", "[1.  0.5]"),
    "scatter": ("lax.scatter(np.int32([1, 2, 3]), np.int32([[0], [2]]), np.int32([5, 2]), at)", "[5 2 2]"),
    "scatter_add": ("lax.scatter_add(np.int32([1, 2, 3]), np.int32([[0], [2]]), np.int32([5, 2]), at)", "[6 2 5]"),
    "scatter_max": ("lax.scatter_max(np.int32([1, 2, 3]), np.int32([[0], [2]]), np.int32([5, 2]), at)", "[5 2 3]"),
    "scatter_min": ("lax.scatter_min(np.int32([1, 2, 3]), np.int32([[0], [2]]), np.int32([5, 2]), at)", "[1 2 2]"),
    "scatter_mul": ("lax.scatter_mul(np.int32([1, 2, 3]), np.int32([[0], [2]]), np.int32([5, 2]), at)", "[5 2 6]"),
    "scatter_sub": ("lax.scatter_sub(np.int32([1, 2, 3]), np.int32([[0], [2]]), np.int32([5, 2]), at)", "[-4  2  1]"),
    "shift_left": ("lax.shift_left(np.int32([2, 4]), 1)", "[4 8]"),
    "shift_right_arithmetic": ("lax.shift_right_arithmetic(np.int32([5, -3]), 1)", "[ 2 -2]"),
    "shift_right_logical": ("lax.shift_right_logical(np.int32([2, 4]), 1)", "[1 2]"),
    "sign": ("lax.sign(np.int32([5, -3]))", "[ 1 -1]"),
    "sin": ("lax.sin(np.float32([0.25, 0.5]))", "[0.24740396 0.47942555]"),
    "sinh": ("lax.sinh(np.float32([0.25, 0.5]))", "[0.2526123  0.52109534]"),
    "sqrt": ("lax.sqrt(np.float32([1, 4]))", "[1. 2.]"),
    "square": ("lax.square(np.int32([5, -3]))", "[25  9]"),
    "sub": ("lax.sub(np.int32([5, -3]), np.int32([2, 4]))", "[ 3 -7]"),
    "tan": ("lax.tan(np.float32([0.25, 0.5]))", "[0.25534192 0.5463025 ]"),
    "tanh": ("lax.tanh(np.float32([0.25, 0.5]))", "[0.24491866 0.46211717]"),
}


def add_examples(functions: Mapping[str, Any]) -> None:
    """Append its example to the docstring of each function of the table."""
    for name, (call, printed) in EXAMPLES.items():
        setup = _HEAD + (_AT if name.startswith("scatter") else "")
        function = functions[name]
        if ">>>" not in function.__doc__:  # of a module that is loaded again
            function.__doc__ = f"{function.__doc__}\n\n{setup}>>> print({call})\n{printed}"
