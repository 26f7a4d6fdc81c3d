"""Scans along an axis that devices split: a local scan, one exchange of totals, one pass that joins them.

The totals of earlier devices are joined by one masked reduction, and so are the prefixes of short parts: these compile
in a fraction of the time of a scan in steps.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.program import Eqn
from ...core.ir.types import is_complex
from ...core.primitives.elementwise.arithmetic import add_p, exp_p, log_p, sub_p
from ...core.primitives.elementwise.comparison import eq_p, is_finite_p, le_p, lt_p, select_n_p
from ...core.primitives.movement.shape import broadcast_in_dim, broadcast_in_dim_p, iota_p, slice_in_dim
from ...core.primitives.reduction.reduce import (
    MAXIMUM,
    MINIMUM,
    PRODUCT,
    SUM,
    reduce_max_p,
    reduce_min_p,
    reduce_prod_p,
    reduce_sum_p,
)
from ...core.primitives.special.cumulative import COMBINE, cumlogsumexp_p, cummax_p, cummin_p, cumprod_p, cumsum_p
from ...core.primitives.spmd.collective import all_gather_p
from ...core.primitives.spmd.varying_axes import mesh_axes
from ...core.tracing.trace import typeof
from .halo_exchange import place

if TYPE_CHECKING:
    from ...core.ir.array import Array, ArrayLike

# What pads a scanned axis: reversed scans begin with the padding.
NEUTRAL = {cumsum_p: SUM.neutral, cumprod_p: PRODUCT.neutral, cummax_p: MAXIMUM.neutral, cummin_p: MINIMUM.neutral,
           cumlogsumexp_p: lambda dtype: np.asarray(-np.inf).astype(dtype)[()]}  # fmt: skip
_REDUCE = {cumsum_p: reduce_sum_p, cumprod_p: reduce_prod_p, cummax_p: reduce_max_p, cummin_p: reduce_min_p}
_SHORT = 32  # elements of a device's part up to which each prefix is a reduction of its own


def scan_parts(eqn: Eqn, x: Array, over: tuple[Any, ...]) -> Any:
    """A device's part of a scan along an axis that the mesh axes `over` split."""
    axis, reverse = eqn.params["axis"], eqn.params["reverse"]
    sizes = [mesh_axes()[name] for name in over]
    count, number = math.prod(sizes), place(over, sizes)
    shape = typeof(x).shape
    simple = not is_complex(typeof(x).dtype)
    local = _prefixes(eqn, x) if simple and shape[axis] <= _SHORT else eqn.primitive.bind(x, **eqn.params)
    last = 0 if reverse else shape[axis] - 1
    total = slice_in_dim(local, last, last + 1, axis=axis)
    totals = all_gather_p.bind(total, axes=over, dimension=axis, size=count, tiled=True)
    first = np.int32(count - 1 if reverse else 0)
    if not simple:  # the part before is the scan of the totals, with this device's place masked
        totals = eqn.primitive.bind(totals, **eqn.params)
    numbers = _along(typeof(totals).shape, axis)
    own = _spread(number, typeof(totals).shape)
    ahead = lt_p.bind(own, numbers) if reverse else lt_p.bind(numbers, own)
    if simple:
        offset = _reduced(eqn, totals, ahead, axis)
    else:
        neighbour = add_p.bind(own, _spread(np.int32(1 if reverse else -1), typeof(totals).shape))
        picked = select_n_p.bind(eq_p.bind(numbers, neighbour), _spread(_zero(totals), typeof(totals).shape), totals)
        offset = reduce_sum_p.bind(picked, axes=(axis,))
    kept = [d for d in range(len(shape)) if d != axis]
    joined = COMBINE[eqn.primitive](broadcast_in_dim(offset, shape, kept), local)
    return select_n_p.bind(eq_p.bind(number, first), joined, local)


def _zero(x: Array) -> Any:
    return np.zeros((), typeof(x).dtype)[()]


def _spread(value: ArrayLike, shape: tuple[int, ...]) -> Any:
    return broadcast_in_dim_p.bind(value, shape=shape, broadcast_dimensions=())


def _along(shape: tuple[int, ...], d: int) -> Any:
    return iota_p.bind(dtype=np.dtype(np.int32), shape=shape, dimension=d)


def _prefixes(eqn: Eqn, x: Array) -> Any:
    """The scan of a short axis: for each element a reduction of those up to it."""
    axis, shape = eqn.params["axis"], typeof(x).shape
    n = shape[axis]
    square = (*shape[: axis + 1], n, *shape[axis + 1 :])  # prefixes, then elements
    wide = broadcast_in_dim(x, square, [d + (d >= axis) for d in range(len(shape))])
    prefix, element = _along(square, axis), _along(square, axis + 1)
    kept = le_p.bind(prefix, element) if eqn.params["reverse"] else le_p.bind(element, prefix)
    return _reduced(eqn, wide, kept, axis + 1)


def _reduced(eqn: Eqn, x: Array, kept: Array, axis: int) -> Any:
    """The elements that are kept along an axis, joined; the neutral element where there are none."""
    shape, dtype = typeof(x).shape, typeof(x).dtype
    neutral = _spread(NEUTRAL[eqn.primitive](dtype), shape)
    x = select_n_p.bind(kept, neutral, x)
    if eqn.primitive is not cumlogsumexp_p:
        return _REDUCE[eqn.primitive].bind(x, axes=(axis,))
    top = reduce_max_p.bind(x, axes=(axis,))
    rest = typeof(top).shape
    top = select_n_p.bind(is_finite_p.bind(top), _spread(_zero(x), rest), top)
    over = broadcast_in_dim(top, shape, [d for d in range(len(shape)) if d != axis])
    total = reduce_sum_p.bind(exp_p.bind(sub_p.bind(x, over)), axes=(axis,))
    return add_p.bind(log_p.bind(total), top)
