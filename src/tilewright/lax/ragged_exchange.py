"""`ragged_all_to_all`: members of a named axis send each other slices of rows, of sizes that only the data tell."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from ..core.ir.array import Array
from ..core.ir.types import INT32, is_integer
from ..core.primitives.elementwise.bitwise import and_p
from ..core.primitives.elementwise.comparison import le_p, lt_p, select
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.gather_dimension_numbers import GatherScatterMode
from ..core.primitives.movement.gather_scatter import GatherDimensionNumbers, gather_p
from ..core.primitives.movement.shape import broadcast_in_dim, broadcasted_iota, expand_dims, reshape
from ..core.primitives.reduction.reduce import reduce_max_p
from ..core.primitives.spmd.collective import all_gather, all_to_all
from ..core.support.errors import DtypeError, ShapeError
from ..core.tracing.array_conversion import as_array
from ..core.tracing.trace import dtype_of, shape_of


def ragged_all_to_all(
    operand: Any, output: Any, input_offsets: Any, send_sizes: Any, output_offsets: Any, recv_sizes: Any, *,
    axis_name: Hashable, axis_index_groups: Any = None,
) -> Array:  # fmt: skip
    """`output` (m, ...) with rows that the members of a named axis send to this one, of their `operand`s (r, ...).

    The four vectors of k integers tell of k slices, k / n for each of the n members in order: `send_sizes[i]` rows of
    `operand` from `input_offsets[i]` go to rows `output_offsets[i]` and after of the receiver's `output`. `recv_sizes`
    are the sizes of the slices that this member receives. Where slices overlap, the last one counts.

    XLA has such an operation for GPUs and TPUs alone. This is one for every target, with derivatives and batches: the
    members gather each other's rows, n r of them, and each selects its own.

    Raises:
      ShapeError: rows of other shapes; vectors that are not of one size, or whose size n does not divide.
      DtypeError: offsets or sizes that are not integers; `operand` and `output` of two dtypes.
      Others: those of `all_to_all`.

    >>> import tilewright as tw
    >>> from tilewright import numpy as tnp
    >>> def exchange(x, n):  # each sends n[i] of its rows to member i, which stacks them
    ...     received = tw.lax.all_to_all(n, "i", 0, 0, tiled=True)
    ...     places = tw.lax.all_to_all(tnp.cumsum(received) - received, "i", 0, 0, tiled=True)
    ...     return ragged_all_to_all(x, tnp.zeros(4), tnp.cumsum(n) - n, n, places, received, axis_name="i")
    >>> x, n = tnp.array([[1.0, 2.0, 2.0], [3.0, 4.0, 0.0]]), tnp.array([[1, 2], [1, 1]])
    >>> print(tw.vmap(exchange, axis_name="i")(x, n))
    [[1. 3. 0. 0.]
     [2. 2. 4. 0.]]
    """
    operand, output = as_array(operand), as_array(output)
    slices = [as_array(v) for v in (input_offsets, send_sizes, output_offsets, recv_sizes)]
    _check(operand, output, slices)

    def exchanged(x: Any) -> Any:
        return all_to_all(x, axis_name, 0, 0, axis_index_groups=axis_index_groups, tiled=True)

    starts, _, places, sizes = (convert_element_type(v, INT32) for v in slices)
    starts, places = exchanged(starts), exchanged(places)
    rows = all_gather(operand, axis_name, axis_index_groups=axis_index_groups)
    members, held = shape_of(rows)[:2]
    count, wanted = shape_of(sizes)[0], shape_of(output)[0]

    def of_slices(x: Any) -> Any:
        return broadcast_in_dim(x, (wanted, count), (1,))

    row, number = (broadcasted_iota(INT32, (wanted, count), axis) for axis in (0, 1))
    inside = and_p.bind(le_p.bind(of_slices(places), row), lt_p.bind(row, of_slices(places + sizes)))
    last = reduce_max_p.bind(select(inside, number, np.int32(-1)), axes=(1,))  # the slice that a row is of, or -1
    mine = number == expand_dims(last, (1,))
    source = number // np.int32(count // members) * np.int32(held) + of_slices(starts - places) + row
    found = reduce_max_p.bind(select(mine, source, np.int32(0)), axes=(1,))
    return select(_along_rows(lt_p.bind(last, np.int32(0)), output), output, _rows(rows, found))


def _check(operand: Any, output: Any, slices: list[Any]) -> None:
    if not shape_of(operand) or shape_of(operand)[1:] != shape_of(output)[1:] or not shape_of(output):
        raise ShapeError(f"ragged_all_to_all of rows of shape {shape_of(operand)} into {shape_of(output)}",
                         "give both arrays rows of one shape")  # fmt: skip
    if dtype_of(operand) != dtype_of(output):
        raise DtypeError(f"ragged_all_to_all of {dtype_of(operand)} into {dtype_of(output)}", "convert one of them")
    if not all(is_integer(dtype_of(v)) for v in slices):
        raise DtypeError("offsets or sizes of ragged_all_to_all that are not integers", "convert them to int32")
    if len({shape_of(v) for v in slices}) > 1 or len(shape_of(slices[0])) != 1:
        raise ShapeError(f"offsets and sizes of ragged_all_to_all of shapes {[shape_of(v) for v in slices]}",
                         "give four vectors of one size")  # fmt: skip


def _along_rows(x: Any, like: Any) -> Any:
    return broadcast_in_dim(x, shape_of(like), (0,))


def _rows(members: Any, index: Any) -> Any:
    """Rows of an array (members, rows, ...), numbered over both."""
    shape = shape_of(members)
    flat = reshape(members, (shape[0] * shape[1], *shape[2:]))
    numbers = GatherDimensionNumbers(tuple(range(1, len(shape) - 1)), (0,), (0,))
    return gather_p.bind(
        flat, expand_dims(index, (1,)), dimension_numbers=numbers, slice_sizes=(1, *shape[2:]),
        indices_are_sorted=False, unique_indices=False, mode=GatherScatterMode.FILL_OR_DROP, fill_value=0,
    )  # fmt: skip
