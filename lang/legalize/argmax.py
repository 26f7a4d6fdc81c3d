"""Positions of extrema, of reductions that give numbers only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.array import Array
from ...core.ir.primitive import Primitive
from ...core.ir.types import INT32, is_bool, is_float
from ...core.primitives.elementwise.bitwise import or_p
from ...core.primitives.elementwise.comparison import eq_p, ne_p, select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.shape import broadcast_in_dim_p, iota_p
from ...core.primitives.reduction.reduce import argmax_p, argmin_p, reduce_max_p, reduce_min_p
from ...core.tracing.trace import shape_of, typeof


def _position(extremum: Primitive) -> Callable[..., Any]:
    """The least place where the extremum (or NaN) is."""

    def rewrite(x: Array, *, axes: Sequence[int], index_dtype: np.dtype[Any]) -> Any:
        (axis,), shape = axes, shape_of(x)
        x = convert_element_type(x, INT32) if is_bool(typeof(x).dtype) else x
        kept = tuple(d for d in range(len(shape)) if d != axis)
        best = broadcast_in_dim_p.bind(extremum.bind(x, axes=(axis,)), shape=shape, broadcast_dimensions=kept)
        found = eq_p.bind(x, best)
        found = or_p.bind(found, ne_p.bind(x, x)) if is_float(typeof(x).dtype) else found
        place = iota_p.bind(dtype=INT32, shape=shape, dimension=axis)
        far = broadcast_in_dim_p.bind(np.int32(shape[axis]), shape=shape, broadcast_dimensions=())
        return convert_element_type(reduce_min_p.bind(select_n_p.bind(found, far, place), axes=(axis,)), index_dtype)

    return rewrite


REWRITES: dict[Primitive, Callable[..., Any]] = {argmax_p: _position(reduce_max_p), argmin_p: _position(reduce_min_p)}
