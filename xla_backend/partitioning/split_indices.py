"""Gathers and scatters along axes that devices split: each device applies the indices that fall into its part.

The indices are whole on each device. A scatter drops the updates of other devices' parts, without communication; a
gather reads zeros for these, and the results are summed over the devices: an all-reduce of the result in place of an
all-gather of the operand. Updates by maxima and minima may be split too: each device applies its own, and the results
are joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.program import Eqn
from ...core.primitives.elementwise.arithmetic import mul_p, sub_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import clamp, le_p, select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.gather_dimension_numbers import CLIP, FILL, default_fill, window_sizes
from ...core.primitives.movement.gather_scatter import PRIMITIVES, gather_p, scatter_max_p, scatter_min_p
from ...core.primitives.movement.shape import broadcast_in_dim_p, concatenate, slice_in_dim
from ...core.primitives.reduction.reduce import reduce_and_p
from ...core.primitives.spmd.varying_axes import mesh_axes, pmax_invariant_p, pmin_invariant_p, pvary
from ...core.tracing.trace import typeof
from ..stablehlo.spmd import kernel_sum_p
from .halo_exchange import place

if TYPE_CHECKING:
    from ...core.ir.array import Array, ArrayLike

JOINED = {scatter_max_p: pmax_invariant_p, scatter_min_p: pmin_invariant_p}
Part = Callable[[Eqn, Sequence[Any]], Any]


def indexed_name(d: int) -> str:
    """The name of an operand's indexed axis in the rule of its operation."""
    return f"i{d}"


def indexed(eqn: Eqn) -> tuple[int, ...]:
    """The axes of an operand along which each index of a gather or scatter selects one element.

    Of a gather only where the result is no larger than the operand, and of numbers, since results are summed.
    """
    if eqn.primitive not in PRIMITIVES:
        return ()
    d, (x, indices, *_) = eqn.params["dimension_numbers"], [a.type for a in eqn.inputs]
    limit = np.iinfo(indices.dtype).max
    if eqn.primitive is gather_p:
        if eqn.outputs[0].type.size > x.size or np.dtype(x.dtype).kind not in "iufcV" or x.dtype == bool:
            return ()
        gone, index_map = d.collapsed_slice_dims, d.start_index_map
    else:
        gone, index_map = d.inserted_window_dims, d.scatter_dims_to_operand_dims
    return tuple(a for a in gone if a in index_map and 1 < x.shape[a] <= min(limit, 2**31 - 1))


def listed(eqn: Eqn) -> dict[int, int]:
    """The axes of the indices along which updates are listed that devices may apply apart, and those of the updates."""
    if eqn.primitive not in JOINED or eqn.outputs[0].type.dtype == bool:
        return {}
    d, updates = eqn.params["dimension_numbers"], eqn.inputs[2].type
    places = [u for u in range(updates.ndim) if u not in d.update_window_dims]
    return {k: u for k, u in enumerate(places) if k not in d.scatter_indices_batching_dims and updates.shape[u] > 1}


def joined(eqn: Eqn, out: Array, over: tuple[Any, ...]) -> Any:
    """A result of a device's own updates, joined with those of the devices along some axes."""
    return JOINED[eqn.primitive].bind(pvary(out, over), axes=over) if over else out


def on_part(eqn: Eqn, split: Mapping[int, tuple[Any, ...]], parts: Sequence[Any], apply: Part) -> Any:
    """The operation on a device's part of its operand; `split` has the mesh axes of the indexed axes."""
    x, indices, *updates = parts
    gathers = eqn.primitive is gather_p
    d, shape = eqn.params["dimension_numbers"], eqn.inputs[0].type.shape
    index_map = d.start_index_map if gathers else d.scatter_dims_to_operand_dims
    sizes = eqn.params["slice_sizes"] if gathers else window_sizes(shape, eqn.inputs[2].type.shape, d)
    lasts = [shape[a] - sizes[a] for a in index_map]
    if eqn.params["mode"] is CLIP:
        indices = _bounded(indices, [0] * len(lasts), lasts)
    shifted = _shifted(indices, index_map, split, typeof(x).shape, shape)
    params = eqn.params | {"mode": FILL}
    if not gathers:
        return apply(eqn.replace(params=params), [x, shifted, *updates])
    out = apply(eqn.replace(params=params | {"fill_value": 0}), [x, shifted])
    over = tuple(name for names in split.values() for name in names)
    out = kernel_sum_p.bind(pvary(out, over), axes=over)
    return _filled(eqn, out, indices, lasts) if eqn.params["mode"] is FILL else out


def _columns(indices: Array) -> list[Any]:
    """The indices of each indexed axis."""
    last = typeof(indices).ndim - 1
    return [slice_in_dim(indices, k, k + 1, axis=last) for k in range(typeof(indices).shape[last])]


def _joined(columns: Sequence[Any]) -> Any:
    return concatenate(columns, typeof(columns[0]).ndim - 1) if len(columns) > 1 else columns[0]


def _number(value: int, like: Array) -> Any:
    """A bound of indices: beyond their dtype it is the dtype's own."""
    dtype = np.dtype(typeof(like).dtype)
    return dtype.type(max(np.iinfo(dtype).min, min(value, np.iinfo(dtype).max)))


def _bounded(indices: Array, lows: Sequence[int], highs: Sequence[int]) -> Any:
    return _joined([clamp(_number(low, c), c, _number(high, c))
                    for c, low, high in zip(_columns(indices), lows, highs, strict=True)])  # fmt: skip


def _shifted(indices: Array, index_map: Sequence[int], split: Mapping[int, Any], have: Sequence[int],
             shape: Sequence[int]) -> Any:  # fmt: skip
    """The indices as seen from the start of a device's part; those outside of the array stay outside of every part."""
    indices = convert_element_type(_bounded(indices, [-1] * len(index_map), [shape[a] for a in index_map]), np.int32)
    columns = _columns(indices)
    for k, a in enumerate(index_map):
        if a in split:
            sizes = [mesh_axes()[name] for name in split[a]]
            start = mul_p.bind(place(split[a], sizes), np.int32(have[a]))
            outside = le_p.bind(columns[k], _like(np.int32(-1), columns[k]))
            moved = sub_p.bind(columns[k], _like(start, columns[k]))
            columns[k] = select_n_p.bind(outside, moved, columns[k])
    return _joined(columns)


def _like(value: ArrayLike, x: Array) -> Any:
    return broadcast_in_dim_p.bind(value, shape=typeof(x).shape, broadcast_dimensions=())


def _filled(eqn: Eqn, out: Array, indices: Array, lasts: Sequence[int]) -> Any:
    """A gather's result with the fill value where windows leave the array."""
    inside = [and_p.bind(le_p.bind(_like(_number(0, c), c), c), le_p.bind(c, _like(_number(last, c), c)))
              for c, last in zip(_columns(indices), lasts, strict=True)]  # fmt: skip
    last = typeof(indices).ndim - 1
    valid = reduce_and_p.bind(_joined(inside), axes=(last,))
    shape, dtype, fill = typeof(out).shape, typeof(out).dtype, eqn.params["fill_value"]
    value = np.asarray(default_fill(dtype) if fill is None else fill).astype(dtype)[()]
    batch = tuple(i for i in range(len(shape)) if i not in eqn.params["dimension_numbers"].offset_dims)
    valid = broadcast_in_dim_p.bind(valid, shape=shape, broadcast_dimensions=batch)
    return select_n_p.bind(valid, broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=()), out)
