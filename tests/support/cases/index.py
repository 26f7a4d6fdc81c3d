"""Cases of dynamic slices, gathers and scatters."""

from typing import Any

import numpy as np

from tilewright.core.ir.types import ArrayType, bfloat16
from tilewright.core.primitives.movement.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from tilewright.core.primitives.movement.gather_dimension_numbers import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from tilewright.core.primitives.movement.gather_scatter import (
    gather_p,
    scatter_add_p,
    scatter_apply_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)

from . import Case
from .shape import t

CLIP, FILL, PROMISE = GatherScatterMode.CLIP, GatherScatterMode.FILL_OR_DROP, GatherScatterMode.PROMISE_IN_BOUNDS
INDEX = ArrayType((), "int32")
ROWS = GatherDimensionNumbers((1,), (0,), (0,))  # whole rows: x[i]
PAIRS = GatherDimensionNumbers((), (0, 1), (0, 1))  # elements: x[i, j]
WINDOWS = GatherDimensionNumbers((0, 2), (), (1, 0))  # windows, positions given column first
BATCHED = GatherDimensionNumbers((2,), (1,), (1,), (0,), (0,))  # x[b, i[b], :]


def i32(*shape):
    return t(*shape, dtype="int32")


def gather(x, indices, numbers, sizes, mode, fill: Any = 0, note="", grad=None):
    params = {"dimension_numbers": numbers, "slice_sizes": sizes, "indices_are_sorted": False, "unique_indices": False,
              "mode": mode, "fill_value": fill}  # fmt: skip
    low = 0.0 if mode is PROMISE else -2.0
    return Case(gather_p, (x, indices), params, low=low, note=f"{mode.value}{note}", grad=grad)


def scatter(primitive, x, indices, updates, numbers, mode=FILL, *, unique=False, grad=None, operands=None, note=""):
    params = {"dimension_numbers": ScatterDimensionNumbers(*numbers), "indices_are_sorted": False,
              "unique_indices": unique, "mode": mode}  # fmt: skip
    low = 0.0 if mode is PROMISE else -2.0
    note = f"{mode.value}{note}"
    return Case(primitive, (x, indices, updates), params, low=low, grad=grad, operands=operands, note=note)


def apply_case():
    from tilewright.core.primitives.elementwise.arithmetic import mul_p
    from tilewright.core.tracing.trace import trace_program

    double = trace_program(lambda v: [mul_p.bind(v, v)], [t()], "square")
    case = scatter(scatter_apply_p, t(4, 3), i32(3, 1), t(3, 3), ROWS, operands=None)
    return Case(case.primitive, case.types, case.params | {"update": double})


_rng = np.random.default_rng(0)
DISTINCT = (
    _rng.uniform(-2, 2, (4, 3)).astype(np.float32),
    np.array([[2], [0], [3]], np.int32),
    _rng.uniform(-2, 2, (3, 3)).astype(np.float32),
)

CASES = [
    Case(dynamic_slice_p, (t(5), INDEX), {"slice_sizes": (3,)}),
    Case(dynamic_slice_p, (t(4, 5), INDEX, INDEX), {"slice_sizes": (2, 3)}, low=-1, high=4),
    Case(dynamic_slice_p, (t(4, dtype=bfloat16), t(dtype="uint8")), {"slice_sizes": (4,)}, low=0, high=200),
    Case(dynamic_slice_p, (t(3, 2, dtype="int32"), INDEX, t(dtype="int64")), {"slice_sizes": (0, 1)}),
    Case(dynamic_update_slice_p, (t(5), t(2), INDEX), low=-1, high=6),
    Case(dynamic_update_slice_p, (t(4, 5), t(2, 3), INDEX, INDEX), low=-1, high=4),
    Case(dynamic_update_slice_p, (t(4, dtype="complex64"), t(1, dtype="complex64"), INDEX)),
    Case(dynamic_update_slice_p, (t(4, dtype="bool"), t(0, dtype="bool"), INDEX)),
    *[gather(t(4, 3), i32(2, 1), ROWS, (1, 3), mode) for mode in (CLIP, FILL, PROMISE)],
    gather(t(4, 3), i32(2, 1), ROWS, (1, 3), FILL, None, "-nan", grad=(False, False)),
    gather(i32(4, 3), i32(2, 1), ROWS, (1, 3), FILL, None),
    gather(t(4, 3, dtype="uint8"), i32(2, 1), ROWS, (1, 3), FILL, None),
    gather(t(4, 3, dtype="bool"), i32(2, 1), ROWS, (1, 3), FILL, None),
    gather(t(4, 3, dtype=bfloat16), i32(2, 1), ROWS, (1, 3), FILL),
    gather(t(2, 3), i32(2, 4, 2), PAIRS, (1, 1), FILL),
    gather(t(2, 3), t(4, 2, dtype="uint8"), PAIRS, (1, 1), FILL),
    gather(t(4, 5), i32(3, 2), WINDOWS, (2, 3), CLIP),
    gather(t(4, 5), i32(3, 2), WINDOWS, (2, 3), FILL),
    gather(t(3, 4, 2), i32(3, 2, 1), BATCHED, (1, 1, 2), FILL),
    gather(t(3, 4, 2, dtype="complex64"), i32(3, 2, 1), BATCHED, (1, 1, 2), CLIP),
    gather(t(4, 3), i32(0, 1), ROWS, (1, 3), FILL),
    *[scatter(p, t(4, 3), i32(3, 1), t(3, 3), ROWS, mode)
      for p in (scatter_p, scatter_add_p, scatter_sub_p) for mode in (CLIP, FILL, PROMISE)],
    *[scatter(p, t(3, 4, 2), i32(3, 2, 1), t(3, 2, 2), BATCHED) for p in (scatter_p, scatter_add_p, scatter_max_p)],
    *[scatter(p, t(4, 5), i32(3, 2), t(2, 3, 3), WINDOWS, mode)
      for p in (scatter_p, scatter_add_p, scatter_sub_p) for mode in (CLIP, FILL)],
    *[scatter(p, t(6, 7), i32(3, 2), t(3, 3, 5), WINDOWS) for p in (scatter_p, scatter_add_p, scatter_max_p)],
    *[scatter(p, t(2, 3), i32(5, 2), t(5), PAIRS) for p in (scatter_p, scatter_min_p, scatter_max_p)],
    *[scatter(p, i32(4, 3), i32(3, 1), i32(3, 3), ROWS) for p in (scatter_p, scatter_mul_p, scatter_min_p)],
    *[scatter(p, t(4, 3, dtype=bfloat16), i32(3, 1), t(3, 3, dtype=bfloat16), ROWS, grad=(False,) * 3)
      for p in (scatter_p, scatter_add_p, scatter_max_p)],
    scatter(scatter_add_p, t(4, 3, dtype="complex64"), i32(3, 1), t(3, 3, dtype="complex64"), ROWS),
    scatter(scatter_p, t(4, 3, dtype="bool"), i32(3, 1), t(3, 3, dtype="bool"), ROWS),
    scatter(scatter_mul_p, t(4, 3), i32(3, 1), t(3, 3), ROWS, grad=(True, False, False)),
    *[scatter(p, t(4, 3), i32(3, 1), t(3, 3), ROWS, unique=True, operands=DISTINCT, note="-unique")
      for p in (scatter_p, scatter_add_p, scatter_mul_p, scatter_min_p)],
    scatter(scatter_add_p, t(4, 3), i32(0, 1), t(0, 3), ROWS),
    apply_case(),
]  # fmt: skip
