"""A block as part of its Ref: where it starts, and which of its elements are in bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.types import INT32
from ...core.primitives.elementwise.arithmetic import add_p, mul_p, sub_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import ge_p, lt_p
from ...core.primitives.movement.shape import iota_p
from ...core.primitives.refs import ref_views as refs
from ...core.primitives.refs.ref_indexing import dslice
from ..kernel.block_spec import BlockAxis

if TYPE_CHECKING:
    from ...core.primitives.refs.ref_views import AnyRef


def starts_of(axes: Sequence[BlockAxis], index: Sequence[Any]) -> list[Any]:
    """The first element of a block along each axis, from its index."""
    return [
        sub_p.bind(i, np.int32(a.padding[0])) if a.element else mul_p.bind(i, np.int32(a.size))
        for i, a in zip(index, axes, strict=True)
    ]


def block_part(
    ref: AnyRef, axes: Sequence[BlockAxis], starts: Sequence[Any], ends: Sequence[Any]
) -> tuple[Any, Any]:
    """The part of a Ref where a block starts, and the mask of its elements between 0 and `ends` (None: all).

    An end is None along an axis where every block is in bounds.
    """
    entries = [s if a.squeezed else dslice(s, a.size) for s, a in zip(starts, axes, strict=True)]
    kept = tuple(a.size for a in axes if not a.squeezed)
    mask, seen = None, 0
    for axis, start, end in zip(axes, starts, ends, strict=True):
        if end is not None:
            place = add_p.bind(iota_p.bind(dtype=INT32, shape=kept, dimension=seen), start)
            inside = and_p.bind(ge_p.bind(place, np.int32(0)), lt_p.bind(place, end))
            mask = inside if mask is None else and_p.bind(mask, inside)
        seen += not axis.squeezed
    return refs.view(ref, tuple(entries)), mask
