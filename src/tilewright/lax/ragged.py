"""Products of matrices by groups of rows: `ragged_dot`.

Rows of the left operand belong, in order, to groups of given sizes, and each group has a matrix of its own. The rows
are cut into tiles that each lie in one group: a group of s rows takes ceil(s / T) tiles, so that there are at most
m / T + g of them, however the sizes fall. Then all is one batched product of tiles with the matrices of their groups,
and the work is that of the rows, not rows times groups. Tiles past the last one, and what a tile has past its group's
end, count nothing. Source of the layout: Gale, Narayanan, Young and Zaharia, "MegaBlocks: efficient sparse training
with mixture-of-experts" (2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.api.transformations import vmap
from ..core.ir.array import Array
from ..core.ir.binding import with_out_sharding
from ..core.ir.types import INT32, as_dtype, canonical_dtype, is_integer
from ..core.jit.inline_jit import inline_jit
from ..core.primitives.contraction.dot_general import (
    accumulator,
    canonical_dimension_numbers,
    canonical_precision,
    dot_general,
    free_axes,
    result_dtype,
)
from ..core.primitives.custom.custom_derivatives import linear_call
from ..core.primitives.elementwise.comparison import lt_p, select
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.movement.gather_dimension_numbers import GatherScatterMode, ScatterDimensionNumbers
from ..core.primitives.movement.gather_scatter import GatherDimensionNumbers, gather_p, scatter_add_p
from ..core.primitives.movement.shape import broadcast_in_dim, broadcasted_iota, expand_dims, full, reshape, transpose
from ..core.primitives.reduction.reduce import reduce_sum_p
from ..core.primitives.special.cumulative import cumsum
from ..core.support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from ..core.tracing.array_conversion import as_array
from ..core.tracing.trace import dtype_of, shape_of


@dataclass(frozen=True)
class RaggedDotDimensionNumbers:
    """The axes of `ragged_dot_general`.

    `dot_dimension_numbers` are those of `dot_general`. `lhs_ragged_dimensions` is the one axis of the left operand
    whose elements belong to groups; `rhs_group_dimensions` the one axis of the right operand that numbers the groups,
    or none.
    """

    dot_dimension_numbers: Any
    lhs_ragged_dimensions: Any
    rhs_group_dimensions: Any


def _taken(x: Any, places: Any) -> Any:
    """Rows of a matrix by an array of places; zeros for those past the end."""
    rank = len(shape_of(places))
    return gather_p.bind(
        x, expand_dims(places, (rank,)), dimension_numbers=GatherDimensionNumbers((rank,), (0,), (0,)),
        slice_sizes=(1, shape_of(x)[1]), indices_are_sorted=False, unique_indices=False,
        mode=GatherScatterMode.FILL_OR_DROP, fill_value=0,
    )  # fmt: skip


@dataclass(frozen=True)
class _Tiles:
    """The tiles of rows cut by groups: the group of each, the rows that it holds, and the place of each row in them.

    A row that a tile lacks, and the place of a row of no group, are past the end.
    """

    group: Any  # (tiles,)
    rows: Any  # (tiles, T)
    places: Any  # (rows,)

    def of(self, x: Any) -> Any:
        """The tiles of an array, (tiles, T, columns); a row that a tile lacks is zero."""
        return _taken(x, self.rows)

    def back(self, tiles: Any) -> Any:
        """The rows of tiles (tiles, T, columns) where they belong, and zeros in rows of no group.

        Each row has one place at most, so that the transpose is to take rows too, and adds nothing up.
        """
        flat = reshape(tiles, (-1, shape_of(tiles)[2]))
        places = reshape(self.rows, (-1,)), self.places
        return linear_call(lambda at, x: _taken(x, at[1]), lambda at, ct: _taken(ct, at[0]), places, flat)


def _of_ended(ends: Any, values: Any, count: int) -> Any:
    """For each of `count` positions the sum of the values of those groups that end there or before."""
    shape = (shape_of(ends)[0], count)
    ended = lt_p.bind(broadcast_in_dim(ends, shape, (0,)), broadcasted_iota(INT32, shape, 1) + np.int32(1))
    return reduce_sum_p.bind(select(ended, broadcast_in_dim(values, shape, (0,)), full(shape, 0, INT32)), axes=(0,))


def _tiles(sizes: Any, rows: int) -> _Tiles:
    groups = shape_of(sizes)[0]
    tile = min(max(16, 1 << max(rows // groups, 1).bit_length() - 1), 128)
    count = rows // tile + groups
    each = (sizes + np.int32(tile - 1)) // np.int32(tile)
    ends = cumsum(each)
    lacking = each * np.int32(tile) - sizes
    grid = count, tile
    first = broadcasted_iota(INT32, (count,), 0) * np.int32(tile) - _of_ended(ends, lacking, count)
    found = broadcast_in_dim(first, grid, (0,)) + broadcasted_iota(INT32, grid, 1)
    inside = lt_p.bind(found, broadcast_in_dim(_of_ended(ends - each, sizes, count), grid, (0,)))
    row = broadcasted_iota(INT32, (rows,), 0)
    belongs = lt_p.bind(row, broadcast_in_dim(reduce_sum_p.bind(sizes, axes=(0,)), (rows,), ()))
    places = row + _of_ended(cumsum(sizes), lacking, rows)
    return _Tiles(
        group=_of_ended(ends, full((groups,), 1, INT32), count),
        rows=select(inside, found, full(grid, rows, INT32)),
        places=select(belongs, places, full((rows,), count * tile, INT32)),
    )


def _rows_by_groups(lhs: Any, rhs: Any, sizes: Any, how: dict[str, Any]) -> Any:
    """(m, k) rows, (g, k, n) matrices and (g,) sizes: each row times the matrix of its group."""
    tiles = _tiles(sizes, shape_of(lhs)[0])
    numbers = GatherDimensionNumbers((1, 2), (0,), (0,))
    matrices = gather_p.bind(
        rhs, expand_dims(tiles.group, (1,)), dimension_numbers=numbers, slice_sizes=(1, *shape_of(rhs)[1:]),
        indices_are_sorted=True, unique_indices=False, mode=GatherScatterMode.CLIP, fill_value=None,
    )  # fmt: skip
    return tiles.back(dot_general(tiles.of(lhs), matrices, (((2,), (1,)), ((0,), (0,))), **how))


def _sums_by_groups(lhs: Any, rhs: Any, sizes: Any, how: dict[str, Any]) -> Any:
    """(m, k) and (m, n) rows and (g,) sizes: for each group the product of its rows, (g, k, n)."""
    tiles = _tiles(sizes, shape_of(lhs)[0])
    parts = dot_general(tiles.of(lhs), tiles.of(rhs), (((1,), (1,)), ((0,), (0,))), **how)
    wide = accumulator(dtype_of(parts))
    numbers = ScatterDimensionNumbers((1, 2), (0,), (0,))
    out = scatter_add_p.bind(
        full((shape_of(sizes)[0], *shape_of(parts)[1:]), 0, wide), expand_dims(tiles.group, (1,)),
        convert_element_type(parts, wide), dimension_numbers=numbers, indices_are_sorted=True, unique_indices=False,
        mode=GatherScatterMode.FILL_OR_DROP,
    )  # fmt: skip
    return convert_element_type(out, dtype_of(parts))


def _sizes(x: Any, axes: Any) -> tuple[int, ...]:
    return tuple(shape_of(x)[axis] for axis in axes)


def _flat(x: Any, *parts: Any) -> Any:
    """The axes of an array in order, each part made one axis."""
    order = [axis for part in parts for axis in part]
    return reshape(transpose(x, order), tuple(math.prod(_sizes(x, part)) for part in parts))


class _Axes:
    """The axes of both operands by role, those of the left one before and after the ragged one apart."""

    def __init__(self, lhs: Any, rhs: Any, numbers: RaggedDotDimensionNumbers):
        ranks = len(shape_of(lhs)), len(shape_of(rhs))
        (self.ragged,) = (int(a) % ranks[0] for a in numbers.lhs_ragged_dimensions)
        self.group = tuple(int(a) % ranks[1] for a in numbers.rhs_group_dimensions)
        (self.lc, self.rc), (self.lb, self.rb) = canonical_dimension_numbers(numbers.dot_dimension_numbers, *ranks)
        self.lf, self.rf = free_axes(ranks[0], self.lc, self.lb), free_axes(ranks[1], self.rc, self.rb, self.group)

    def around(self, axes: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        at = axes.index(self.ragged)
        return axes[:at], axes[at + 1 :]


def _grouped_sizes(sizes: Any, shape: tuple[int, ...], repeated: int) -> Any:
    """Sizes (g,), or of `shape` and then (g,), as an array of groups (product of `shape`, g) of flattened elements."""
    found: Any = shape_of(sizes)
    if not found or found[:-1] not in ((), shape):
        raise ShapeError(f"ragged_dot: group_sizes of shape {found}", f"one size for each group, or {(*shape, 'g')}")
    whole = sizes if len(found) > 1 or not shape else broadcast_in_dim(sizes, (*shape, *found), (len(shape),))
    return reshape(whole, (math.prod(shape), found[-1])) * np.int32(repeated)


def ragged_dot_general(
    lhs: Any, rhs: Any, group_sizes: Any, ragged_dot_dimension_numbers: RaggedDotDimensionNumbers,
    precision: Any = None, preferred_element_type: Any = None, group_offset: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """A product of which one axis of the left operand is cut into groups of given sizes.

    If that axis is free, each group has a matrix of its own along the right operand's group axis, and the result is
    that of `dot_general`. If it is contracted, each group has a sum of its own, along a first axis of the result. If it
    is a batch axis, the groups change nothing. `group_sizes` are integers, (g,), or with the batch and outer axes of
    the left operand before; what lies past the last group counts as zero. The matrices have derivatives. The result
    lies as `out_sharding` says.

    Raises `ShapeError` where sizes do not fit and `DtypeError` for sizes that are no integers.

    >>> import numpy as np
    >>> from tilewright import lax
    >>> from tilewright.lax import RaggedDotDimensionNumbers as Numbers
    >>> x, w, sizes = np.ones((5, 2), np.float32), np.ones((2, 2, 3), np.float32), np.int32([2, 3])
    >>> numbers = Numbers((((1,), (1,)), ((), ())), lhs_ragged_dimensions=[0], rhs_group_dimensions=[0])
    >>> lax.ragged_dot_general(x, w, sizes, numbers).shape
    (5, 3)
    """
    if group_offset is not None:
        raise UnsupportedError("ragged_dot: group_offset is not supported", "pass the groups from there on")
    if out_sharding is not None:
        return with_out_sharding(out_sharding, ragged_dot_general, lhs, rhs, group_sizes, ragged_dot_dimension_numbers,
                             precision, preferred_element_type)  # fmt: skip
    lhs, rhs, sizes = as_array(lhs), as_array(rhs), as_array(group_sizes)
    if not is_integer(dtype_of(sizes)):
        raise DtypeError(f"ragged_dot: group_sizes have dtype {dtype_of(sizes)}", "pass integers")
    preferred = None if preferred_element_type is None else canonical_dtype(as_dtype(preferred_element_type))
    result_dtype(dtype_of(lhs), dtype_of(rhs), preferred)
    given = ragged_dot_dimension_numbers
    (lc, rc), (lb, rb) = given.dot_dimension_numbers
    dot = (tuple(map(tuple, (lc, rc))), tuple(map(tuple, (lb, rb))))
    numbers = RaggedDotDimensionNumbers(dot, tuple(given.lhs_ragged_dimensions), tuple(given.rhs_group_dimensions))
    return _ragged(lhs, rhs, sizes, numbers, canonical_precision(precision), preferred)


@inline_jit("numbers", "precision", "preferred")
def _ragged(lhs: Any, rhs: Any, sizes: Any, numbers: RaggedDotDimensionNumbers, precision: Any, preferred: Any) -> Any:
    sizes = convert_element_type(sizes, INT32)
    how = {"precision": precision, "preferred_element_type": preferred}
    axes = _Axes(lhs, rhs, numbers)
    if axes.ragged in axes.lb:
        return dot_general(lhs, rhs, ((axes.lc, axes.rc), (axes.lb, axes.rb)), **how)
    return (_ragged_free if axes.ragged in axes.lf else _ragged_sum)(axes, lhs, rhs, sizes, how)


def _zeros(dims: tuple[int, ...], lhs: Any, rhs: Any, how: dict[str, Any]) -> Any:
    return full(dims, 0, result_dtype(dtype_of(lhs), dtype_of(rhs), how["preferred_element_type"]))


def _ragged_free(axes: _Axes, lhs: Any, rhs: Any, sizes: Any, how: dict[str, Any]) -> Any:
    if len(axes.group) != 1:
        raise ArgumentError("ragged_dot: the right operand has no group axis", "name one in rhs_group_dimensions")
    if _sizes(rhs, axes.group) != shape_of(sizes)[-1:]:
        raise ShapeError(
            f"ragged_dot: {shape_of(sizes)[-1]} group sizes for {_sizes(rhs, axes.group)[0]} matrices", "one for each"
        )
    outer, inner = axes.around(axes.lf)
    batch, lead = _sizes(lhs, axes.lb), _sizes(lhs, outer)
    dims = (*batch, *_sizes(lhs, axes.lf), *_sizes(rhs, axes.rf))
    if not shape_of(sizes)[-1] or not math.prod(dims):
        return _zeros(dims, lhs, rhs, how)
    sizes = _grouped_sizes(sizes, (*batch, *lead), math.prod(_sizes(lhs, inner)))
    sizes = reshape(sizes, (math.prod(batch), math.prod(lead), -1))
    left = _flat(lhs, axes.lb, outer, (axes.ragged, *inner), axes.lc)
    right = _flat(rhs, axes.rb, axes.group, axes.rc, axes.rf)

    def core(x: Any, y: Any, n: Any) -> Any:
        return _rows_by_groups(x, y, n, how)

    plain = not batch and not lead
    out = core(left[0, 0], right[0], sizes[0, 0]) if plain else vmap(vmap(core, (0, None, 0)))(left, right, sizes)
    return reshape(out, dims)


def _ragged_sum(axes: _Axes, lhs: Any, rhs: Any, sizes: Any, how: dict[str, Any]) -> Any:
    if axes.group:
        raise ArgumentError("ragged_dot: a sum by groups has no group axis of the right operand", "leave it empty")
    outer, inner = axes.around(axes.lc)
    place = dict(zip(axes.lc, axes.rc, strict=True))
    batch, lead = _sizes(lhs, axes.lb), _sizes(lhs, outer)
    dims = (shape_of(sizes)[-1], *batch, *_sizes(lhs, axes.lf), *_sizes(rhs, axes.rf))
    if not math.prod((*dims, *_sizes(lhs, axes.lc))):
        return _zeros(dims, lhs, rhs, how)
    sizes = _grouped_sizes(sizes, (*batch, *lead), math.prod(_sizes(lhs, inner)))
    sizes = reshape(sizes, (math.prod(batch), math.prod(lead), -1))
    run = (axes.ragged, *inner)
    left = _flat(lhs, axes.lb, outer, run, axes.lf)
    right = _flat(rhs, axes.rb, [place[a] for a in outer], [place[a] for a in run], axes.rf)

    def core(x: Any, y: Any, n: Any) -> Any:
        return _sums_by_groups(x, y, n, how)

    if batch or lead:
        out = reduce_sum_p.bind(vmap(vmap(core))(left, right, sizes), axes=(1,))
        out = transpose(out, (1, 0, 2, 3))
    else:
        out = core(left[0, 0], right[0, 0], sizes[0, 0])
    return reshape(out, dims)


def ragged_dot(
    lhs: Any, rhs: Any, group_sizes: Any, precision: Any = None, preferred_element_type: Any = None,
    group_offset: Any = None, out_sharding: Any = None,
) -> Array:  # fmt: skip
    """Each row of (m, k) times the matrix of its group: (g, k, n) matrices and (g,) sizes give (m, n).

    The first `group_sizes[0]` rows belong to group 0, and so on; rows past the last group give zeros. The rest and the
    errors as `ragged_dot_general`.

    >>> import numpy as np
    >>> x, w = np.ones((3, 2), np.float32), np.arange(2.0, dtype=np.float32).reshape(2, 1, 1) + np.zeros((2, 2, 1), "f")
    >>> ragged_dot(x, w, np.array([1, 2])).tolist()
    [[0.0], [2.0], [2.0]]
    """
    if len(shape_of(lhs)) != 2 or len(shape_of(rhs)) != 3:
        raise ShapeError(f"ragged_dot of shapes {shape_of(lhs)} and {shape_of(rhs)}", "(m, k) and (g, k, n)")
    numbers = RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return ragged_dot_general(
        lhs, rhs, group_sizes, numbers, precision, preferred_element_type, group_offset, out_sharding
    )
