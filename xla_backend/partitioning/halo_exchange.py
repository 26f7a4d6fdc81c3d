"""What a device takes of its neighbours' parts of an array: the rows that windows see past the ends of a part.

A device has `have` elements of a dimension and wants others, some of them the same; the others are sent over, from as
many devices on either side as have any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.primitives.elementwise.arithmetic import add_p, mul_p
from ...core.primitives.elementwise.bitwise import or_p
from ...core.primitives.elementwise.comparison import lt_p, select_n_p
from ...core.primitives.movement.dynamic_slice import dynamic_slice_in_dim
from ...core.primitives.movement.shape import broadcast_in_dim_p, concatenate, iota_p, pad_p, slice_in_dim
from ...core.primitives.spmd.collective import axis_index_p
from ...core.tracing.trace import typeof
from ...lang.kernel.kernel import EDGE
from ...lang.partition.per_device import Piece
from ..stablehlo.spmd import kernel_permute_p

if TYPE_CHECKING:
    from ...core.ir.array import Array, ArrayLike


def place(names: Sequence[Any], sizes: Sequence[int]) -> Any:
    """A device's number along some axes of the mesh."""
    number: Any = np.int32(0)
    for name, size in zip(names, sizes, strict=True):
        number = add_p.bind(mul_p.bind(number, np.int32(size)), axis_index_p.bind(axes=(name,)))
    return number


def moved(
    x: Array, d: int, piece: Piece, end: int, names: tuple[Any, ...], sizes: Sequence[int], fill: ArrayLike | None
) -> Any:
    """A device's piece of dimension `d` of an array that ends at `end`, of its own and its neighbours' parts.

    Beyond the array's ends there is `fill`: of a part, what the array was padded with.
    """
    have, count = typeof(x).shape[d], int(np.prod(sizes))
    starts = [q * piece.step - piece.before for q in range(count)]
    left = max(0, *(q * have - s for q, s in enumerate(starts)))
    right = max(0, *(s + piece.length - (q + 1) * have for q, s in enumerate(starts)))
    sent_left = max(0, *(q * have - max(s, 0) for q, s in enumerate(starts)))
    sent_right = max(0, *(min(s + piece.length, end) - (q + 1) * have for q, s in enumerate(starts) if s < end))
    parts = [x]
    for hop in range(1, -(-sent_left // have) + 1):
        size = min(have, sent_left - (hop - 1) * have)
        parts.insert(0, _sent(slice_in_dim(x, have - size, have, axis=d), names, count, hop))
    for hop in range(1, -(-sent_right // have) + 1):
        size = min(have, sent_right - (hop - 1) * have)
        parts.append(_sent(slice_in_dim(x, 0, size, axis=d), names, count, -hop))
    found = concatenate(parts, d) if len(parts) > 1 else x
    if (left, right) != (sent_left, sent_right):
        config = [(0, 0, 0)] * typeof(x).ndim
        config[d] = (left - sent_left, right - sent_right, 0)
        found = pad_p.bind(found, np.zeros((), typeof(x).dtype)[()], padding_config=tuple(config))
    drift = piece.step - have
    outside = starts[0] < 0 or starts[-1] + piece.length > count * have
    number = place(names, sizes) if drift or outside else None
    if outside and fill is not None and not (fill is not EDGE and np.all(fill == 0)):
        first = add_p.bind(mul_p.bind(number, np.int32(have)), np.int32(-left))
        found = _filled(found, d, first, count * have, x, fill)
    if drift:
        start = add_p.bind(mul_p.bind(number, np.int32(drift)), np.int32(left - piece.before))
        return dynamic_slice_in_dim(found, start, piece.length, d, allow_negative_indices=False)
    return slice_in_dim(found, left - piece.before, left - piece.before + piece.length, axis=d)


def _sent(x: Array, names: tuple[Any, ...], count: int, hop: int) -> Any:
    """What the device `hop` places before this one has; zeros where there is none."""
    perm = tuple((q, q + hop) for q in range(count) if 0 <= q + hop < count)
    return kernel_permute_p.bind(x, axes=names, perm=perm)


def _filled(x: Array, d: int, first: Array, end: int, own: Array, fill: ArrayLike) -> Any:
    """An array whose element 0 is number `first` of the whole, with a fill before 0 and from `end` on.

    In place of the array's edge elements there are the device's own.
    """
    shape, dtype = typeof(x).shape, typeof(x).dtype
    number = add_p.bind(iota_p.bind(dtype=np.dtype(np.int32), shape=shape, dimension=d), _spread(first, shape))
    before = lt_p.bind(number, _spread(np.int32(0), shape))
    after = lt_p.bind(_spread(np.int32(end - 1), shape), number)
    if fill is not EDGE:
        value = _spread(np.asarray(fill).astype(dtype)[()], shape)
        return select_n_p.bind(or_p.bind(before, after), x, value)
    have = typeof(own).shape[d]
    edges = [broadcast_in_dim_p.bind(slice_in_dim(own, i, i + 1, axis=d), shape=shape,
                                     broadcast_dimensions=tuple(range(len(shape)))) for i in (0, have - 1)]  # fmt: skip
    return select_n_p.bind(after, select_n_p.bind(before, x, edges[0]), edges[1])


def _spread(x: ArrayLike, shape: Sequence[int]) -> Any:
    return broadcast_in_dim_p.bind(x, shape=tuple(shape), broadcast_dimensions=())
