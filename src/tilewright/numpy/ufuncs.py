"""The functions of two operands that are objects, with NumPy's methods: `add.reduce`, `maximum.accumulate`, ..."""

from __future__ import annotations

import numpy as np

from . import elementwise
from .ufunc_object import ufunc

add = ufunc(elementwise.add, 2, 1, name="add", identity=0, doc="The sum of two arrays; of booleans, their disjunction.")
multiply = ufunc(
    elementwise.multiply, 2, 1, name="multiply", identity=1, doc="The product; of booleans, their conjunction."
)
subtract = ufunc(elementwise.subtract, 2, 1, name="subtract", doc="The difference of two arrays.")
negative = ufunc(elementwise.negative, 1, 1, name="negative", doc="The number with its sign changed.")
maximum = ufunc(elementwise.maximum, 2, 1, name="maximum", doc="The larger of two; nan where either is nan.")
minimum = ufunc(elementwise.minimum, 2, 1, name="minimum", doc="The smaller of two; nan where either is nan.")
bitwise_and = ufunc(elementwise.bitwise_and, 2, 1, name="bitwise_and", identity=-1, doc="Conjunction of bits.")
bitwise_or = ufunc(elementwise.bitwise_or, 2, 1, name="bitwise_or", identity=0, doc="Disjunction of bits.")
bitwise_xor = ufunc(elementwise.bitwise_xor, 2, 1, name="bitwise_xor", identity=0, doc="Exclusive or of bits.")
logical_and = ufunc(elementwise.logical_and, 2, 1, name="logical_and", identity=True, doc="Whether both are true.")
logical_or = ufunc(elementwise.logical_or, 2, 1, name="logical_or", identity=False, doc="Whether either is true.")
logical_xor = ufunc(
    elementwise.logical_xor, 2, 1, name="logical_xor", identity=False, doc="Whether exactly one is true."
)
logaddexp = ufunc(
    elementwise.logaddexp, 2, 1, name="logaddexp", identity=-np.inf, doc="`log(exp(x) + exp(y))` without overflow."
)
logaddexp2 = ufunc(
    elementwise.logaddexp2, 2, 1, name="logaddexp2", identity=-np.inf, doc="`log2(2**x + 2**y)` without overflow."
)

# doctest does not look for objects.
__test__ = {f.__name__: f.__doc__ for f in list(globals().values()) if isinstance(f, ufunc)}

__all__ = [
    "add", "bitwise_and", "bitwise_or", "bitwise_xor", "logaddexp", "logaddexp2", "logical_and", "logical_or",
    "logical_xor", "maximum", "minimum", "multiply", "negative", "subtract",
]  # fmt: skip
