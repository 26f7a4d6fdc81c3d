"""Cases of reductions over windows."""

from typing import Any

import numpy as np

from tests.support.cases import Case
from tilewright.core.ir.types import ArrayType, as_dtype
from tilewright.core.primitives.elementwise.arithmetic import add, mul
from tilewright.core.primitives.elementwise.comparison import ge_p, le_p
from tilewright.core.primitives.reduction.reduce_window import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_p,
    reduce_window_sum_p,
    select_and_gather_add_p,
    select_and_scatter_add_p,
)
from tilewright.core.tracing.trace import trace_program


def _type(shape: tuple, dtype: Any = "float32") -> ArrayType:
    return ArrayType(shape, as_dtype(dtype))


def _params(window: tuple, **options: Any) -> dict[str, Any]:
    ones = (1,) * len(window)
    return {
        "window_dimensions": window, "window_strides": ones, "padding": ((0, 0),) * len(window),
        "base_dilation": ones, "window_dilation": ones,
    } | options  # fmt: skip


_PLAIN = _params((2, 3))
_PADDED = _params((2, 3), window_strides=(2, 1), padding=((1, 0), (1, 2)))
_DILATED = _params(
    (2, 2), base_dilation=(2, 1), window_dilation=(1, 2), window_strides=(1, 2), padding=((1, 1), (0, 1))
)
_NO_DILATION = {k: v for k, v in _PADDED.items() if "dilation" not in k}


def _compound(dtype: Any) -> Any:
    """a + b + ab, an associative operation with identity 0."""
    scalar = _type((), dtype)
    return trace_program(lambda a, b: [add(add(a, b), mul(a, b))], [scalar, scalar], "compound")


CASES = [
    *(
        Case(p, (_type((4, 5), dtype),), params, note=f"{note}", low=-20 if dtype == "int32" else -2,
             high=20 if dtype == "int32" else 2, tolerance=2e-2 if dtype == "bfloat16" else 1e-5)
        for p in (reduce_window_sum_p, reduce_window_max_p, reduce_window_min_p)
        for params, note in ((_PLAIN, "plain"), (_PADDED, "padded"), (_DILATED, "dilated"))
        for dtype in (("float32", "int32", "bfloat16") if note == "padded" else ("float32",))
        # The extremum under dilation has no reverse derivative.
        if note != "dilated" or p is reduce_window_sum_p
    ),
    Case(reduce_window_max_p, (_type((4, 5)),), _DILATED, grad=(False,), note="dilated"),
    Case(reduce_window_sum_p, (_type((5,), "complex64"),), _params((2,)), note="complex"),
    Case(select_and_gather_add_p, (_type((4, 5)), _type((4, 5))), _PADDED | {"select_prim": ge_p},
         grad=(True, False), note="max"),
    Case(select_and_gather_add_p, (_type((4, 5)), _type((4, 5))), _PLAIN | {"select_prim": le_p},
         grad=(True, False), note="min"),
    Case(select_and_scatter_add_p, (_type((2, 6)), _type((4, 5))), _NO_DILATION | {"select_prim": ge_p},
         grad=(True, False), note="max"),
    # The jvp of this one: tests/core/primitives/test_reduce_window.py.
    Case(reduce_window_p, (_type((4, 3)), _type(())), _params((2, 2), padding=((0, 1), (0, 0)))
         | {"computation": _compound("float32")}, grad=(False, False), note="generic",
         operands=(np.linspace(-0.9, 0.8, 12, dtype=np.float32).reshape(4, 3), np.float32(0))),
]  # fmt: skip
