"""Products with sparse matrices. On the CPU, jaxlib's routine computes them row by row once the rows are in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.types import INT32, ArrayType
from ...core.primitives.contraction.coo_matmul import coo_matmul_p
from ...core.primitives.control_flow.cond import cond
from ...core.primitives.elementwise.arithmetic import add_p, div_p, mul_p, sub_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import ge_p, le_p, lt_p, select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.gather_dimension_numbers import FILL, ScatterDimensionNumbers
from ...core.primitives.movement.gather_functions import take_along
from ...core.primitives.movement.scatter_functions import scatter_add
from ...core.primitives.movement.shape import broadcasted_iota, concatenate, expand_dims, slice_in_dim
from ...core.primitives.movement.sort import sort_p
from ...core.primitives.reduction.reduce import reduce_and_p
from ...core.primitives.special.cumulative import cumsum_p
from ...core.tracing.trace import shape_of
from ...core.transforms.rule_helpers import like, zeros
from ...core.transforms.structural_primitives import spread
from .emit import Emitter, Operand
from .linalg.call import call, expanded, inline

if TYPE_CHECKING:
    from ...core.ir.array import Array

TARGET = "cpu_csr_sparse_dense_ffi"
_DTYPES = frozenset(map(np.dtype, ("int32", "int64", "float32", "float64", "complex64", "complex128")))
NARROW = 8  # columns of the dense matrix up to which a gather and a scatter take less time than putting rows in order
_plainly = expanded(coo_matmul_p)


def _within(index: Array, size: int) -> Any:
    return and_p.bind(ge_p.bind(index, like(index, 0)), lt_p.bind(index, like(index, size)))


def _in_order(key: Array, columns: Array, data: Array, size: int) -> Any:
    """Elements in order of their rows; where they are so already, as from most makers, nothing is moved."""
    count = shape_of(key)[0]

    def put_in_order(key: Array, columns: Array, data: Array) -> Any:
        places = broadcasted_iota(INT32, (count,), 0)
        if (size + 1) * count < 1 << 31:  # both in one number, which takes a third of the time
            both = add_p.bind(mul_p.bind(key, np.int32(count)), places)
            (both,) = sort_p.bind(both, dimension=0, is_stable=False, num_keys=1)
            key = div_p.bind(both, np.int32(count))
            places = sub_p.bind(both, mul_p.bind(key, np.int32(count)))
        else:
            key, places = sort_p.bind(key, places, dimension=0, is_stable=True, num_keys=1)
        return key, take_along(columns, places, 0), take_along(data, places, 0)

    before, after = slice_in_dim(key, 0, count - 1), slice_in_dim(key, 1, count)
    ordered = reduce_and_p.bind(le_p.bind(before, after), axes=(0,))
    return cond(ordered, lambda *xs: xs, put_in_order, key, columns, data)


def _by_rows(operands: Sequence[Any], size: int, width: int) -> Any:
    """Elements, the place where each row begins, and columns; what is outside comes last, in no row."""
    data, rows, columns = operands
    rows, columns = (convert_element_type(index, INT32) for index in (rows, columns))
    inside = and_p.bind(_within(rows, size), _within(columns, width))
    key = select_n_p.bind(inside, spread(np.int32(size), shape_of(rows)), rows)
    key, columns, data = _in_order(key, columns, data, size)
    ones, counts = spread(np.int32(1), shape_of(key)), zeros(ArrayType((size + 1,), INT32))
    numbers = ScatterDimensionNumbers((), (0,), (0,))
    counts = scatter_add(counts, expand_dims(key, (1,)), ones, numbers, indices_are_sorted=True, mode=FILL)
    ends = cumsum_p.bind(slice_in_dim(counts, 0, size), axis=0, reverse=False)
    begins = zeros(ArrayType((1,), INT32))
    return data, concatenate([begins, ends], 0), columns


def _on_cpu(e: Emitter, operands: list[Operand], out: ArrayType, *, size: int) -> Operand:
    data, _, _, dense = operands
    if out.dtype not in _DTYPES or dense.shape[1] <= NARROW or 0 in (*data.shape, *dense.shape, size):
        return _plainly(e, operands, out, size=size)
    parts = inline(e, lambda *xs: _by_rows(xs, size, dense.shape[0]), operands[:3])
    return call(e, TARGET, [*parts, dense], [out], 0)[0]


def _coo_matmul(e: Emitter, operands: list[Operand], out: ArrayType, *, size: int) -> Operand:
    return (_on_cpu if e.platform == "cpu" else _plainly)(e, operands, out, size=size)


RULES = {coo_matmul_p: _coo_matmul}
