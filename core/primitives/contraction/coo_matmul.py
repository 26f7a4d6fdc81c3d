"""The product of a sparse matrix, given by its elements with their rows and columns, with a dense one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.primitive import AxisInfo, Linear, Primitive, Zero
from ...ir.types import ArrayType, is_bool, is_integer
from ...support.errors import DtypeError, ShapeError
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import like, zeros
from ...transforms.structural_primitives import add_tangents, broadcast_in_dim_p, moveaxis, moved, reshape_to, spread
from ..elementwise.arithmetic import add_p, mul_p
from ..elementwise.bitwise import and_p
from ..elementwise.comparison import ge_p, lt_p, select_n_p
from ..movement.gather_dimension_numbers import FILL, GatherDimensionNumbers, ScatterDimensionNumbers
from ..movement.gather_functions import gather
from ..movement.scatter_functions import scatter_add
from ..movement.shape import broadcasted_iota, expand_dims
from ..reduction.reduce import reduce_sum_p


def _typing(data: ArrayType, rows: ArrayType, columns: ArrayType, dense: ArrayType, *, size: int) -> ArrayType:
    if data.ndim != 1 or rows.shape != data.shape or columns.shape != data.shape or dense.ndim != 2:
        shown = ", ".join(t.show() for t in (data, rows, columns, dense))
        raise ShapeError(f"coo_matmul takes three vectors of one length and a matrix, got {shown}", "reshape them")
    if data.dtype != dense.dtype or is_bool(data.dtype):
        raise DtypeError(f"coo_matmul of {data.show()} and {dense.show()}", "cast them to one dtype of numbers")
    if rows.dtype != columns.dtype or not is_integer(rows.dtype):
        raise DtypeError(f"coo_matmul with indices {rows.show()} and {columns.show()}", "integers of one dtype")
    return ArrayType((size, dense.shape[1]), data.dtype)


def _numpy(data: Operand, rows: Operand, columns: Operand, dense: Operand, *, size: int) -> Any:
    inside = (rows >= 0) & (rows < size) & (columns >= 0) & (columns < dense.shape[0])
    out = np.zeros((size, dense.shape[1]), dense.dtype)
    np.add.at(out, rows[inside], data[inside, None] * dense[columns[inside]])
    return out


def _from_outside(index: Operand, size: int) -> Any:
    """Indices as gathers and scatters take them, negative ones beyond the end."""
    return select_n_p.bind(lt_p.bind(index, like(index, 0)), index, spread(like(index, size), shape_of(index)))


def _rows(x: Operand, index: Operand) -> Any:
    """The rows of a matrix at some indices; zeros where there is none."""
    places = expand_dims(_from_outside(index, shape_of(x)[0]), (1,))
    numbers = GatherDimensionNumbers((1,), (0,), (0,))
    return gather(x, places, numbers, (1, shape_of(x)[1]), mode=FILL, fill_value=0)


def _expand(data: Array, rows: Array, columns: Array, dense: Array, *, size: int) -> Any:
    out: Any = zeros(ArrayType((size, shape_of(dense)[1]), typeof(dense).dtype))
    if 0 in (*shape_of(dense), *shape_of(data), size):
        return out
    found = _rows(dense, columns)
    products = mul_p.bind(found, broadcast_in_dim_p.bind(data, shape=shape_of(found), broadcast_dimensions=(0,)))
    numbers = ScatterDimensionNumbers((1,), (0,), (0,))
    places = expand_dims(_from_outside(rows, size), (1,))
    return scatter_add(out, places, products, numbers, mode=FILL)


def _inside(index: Operand, size: int) -> Any:
    return and_p.bind(ge_p.bind(index, like(index, 0)), lt_p.bind(index, like(index, size)))


def sampled(rows: ArrayLike, columns: ArrayLike, a: ArrayLike, b: ArrayLike) -> Any:
    """The elements of `a @ b.T` at some rows and columns; 0 where one of them is outside."""
    if 0 in (*shape_of(a), *shape_of(b), *shape_of(rows)):
        return zeros(ArrayType(shape_of(rows), typeof(a).dtype))
    return reduce_sum_p.bind(mul_p.bind(_rows(a, rows), _rows(b, columns)), axes=(1,))


def _jvp(primals: Sequence[Any], tangents: Sequence[Any], *, size: int) -> Any:
    data, rows, columns, dense = primals
    out = coo_matmul_p.bind(*primals, size=size)
    found: Any = Zero(typeof(out).tangent())
    if type(tangents[0]) is not Zero:
        found = add_tangents(found, coo_matmul_p.bind(tangents[0], rows, columns, dense, size=size))
    if type(tangents[3]) is not Zero:
        found = add_tangents(found, coo_matmul_p.bind(data, rows, columns, tangents[3], size=size))
    return out, found


def _transpose(
    ct: Operand, data: Operand | Linear, rows: Array, columns: Array, dense: Operand | Linear, *, size: int
) -> list[Any]:
    if type(ct) is Zero:
        return [None] * 4
    if isinstance(data, Linear):
        return [sampled(rows, columns, ct, dense), None, None, None]
    return [None, None, None, coo_matmul_p.bind(data, columns, rows, ct, size=dense.shape[0])]


def _batch(axis: AxisInfo, args: Sequence[Any], dims: Sequence[int | None], *, size: int) -> Any:
    """Dense matrices side by side where they alone are many; else one matrix with many along its diagonal."""
    data, rows, columns, dense = args
    n = axis.size
    if all(d is None for d in dims[:3]):
        wide = moveaxis(dense, dims[3], 1)  # type: ignore[arg-type]
        k, _, width = shape_of(wide)
        out = coo_matmul_p.bind(data, rows, columns, reshape_to(wide, (k, n * width)), size=size)
        return reshape_to(out, (size, n, width)), 1
    data, rows, columns, dense = (moved(axis, x, d, 0) for x, d in zip(args, dims, strict=True))
    _, k, width = shape_of(dense)
    count = shape_of(data)[1]
    place = broadcasted_iota(typeof(rows).dtype, (n, count), 0)
    flat = [reshape_to(_shifted(index, place, each, n), (n * count,)) for index, each in ((rows, size), (columns, k))]
    out = coo_matmul_p.bind(reshape_to(data, (n * count,)), *flat, reshape_to(dense, (n * k, width)), size=n * size)
    return reshape_to(out, (n, size, width)), 0


def _shifted(index: Operand, place: Array, size: int, count: int) -> Any:
    """Indices into one of `count` parts as indices into the whole; what was outside of its part stays outside."""
    moved_on = add_p.bind(index, mul_p.bind(place, like(index, size)))
    return select_n_p.bind(_inside(index, size), spread(like(index, count * size), shape_of(index)), moved_on)


coo_matmul_p: Primitive = Primitive(
    "coo_matmul", _typing, jvp=_jvp, transpose=_transpose, batch=_batch, numpy=_numpy, expand=_expand
)


def coo_matmul(data: ArrayLike, rows: ArrayLike, columns: ArrayLike, dense: ArrayLike, *, size: int) -> Any:
    """The product of a sparse matrix of `size` rows with a dense one of shape (k, n): shape (size, n).

    The elements `data` are at `rows` and `columns`, vectors of one length, in any order; those at one place are added
    up, and those whose row or column is outside count nothing.

    Raises:
      ShapeError, DtypeError: incompatible operands.

    >>> import numpy as np
    >>> eye, places = np.ones(2, np.float32), np.arange(2, dtype=np.int32)
    >>> coo_matmul(eye, places, places, np.ones((2, 1), np.float32), size=3).shape
    (3, 1)
    """
    return coo_matmul_p.bind(data, rows, columns, dense, size=size)


PRIMITIVES = (coo_matmul_p,)

__all__ = ["coo_matmul", "coo_matmul_p"]
