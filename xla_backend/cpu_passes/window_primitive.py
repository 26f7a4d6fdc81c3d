"""Overlapping windows of an array, without a gather: a reshape of the array for every stride's worth of a window.

    windows(x; specs) -> array with axes (count, size) for each axis of x       specs: (first, count, stride, size)

A body that takes windows and then uses static parts of them (a stencil) never needs the windows themselves: see
`narrow_windows.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.axis_relation import FREE, MOVER
from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType
from ...core.primitives.movement.shape import concatenate, pad, reshape_to, slice_in_dim
from ...core.tracing.trace import dtype_of, shape_of

if TYPE_CHECKING:
    from ...core.ir.array import Array

Spec = tuple[int, int, int, int]


def _typing(x: ArrayType, *, specs: tuple[Spec, ...]) -> ArrayType:
    return x.with_shape(n for _, count, _, size in specs for n in (count, size))


def cut_axis(x: Array, axis: int, spec: Spec) -> Any:
    """Windows (first, count, stride, size) along one axis, which becomes (count, size): slices and reshapes alone."""
    first, count, stride, size = spec
    shape = shape_of(x)
    before, after = shape[:axis], shape[axis + 1 :]
    parts = []
    for offset in range(0, size, stride):
        width = min(stride, size - offset)
        length = (count - 1) * stride + width
        part = slice_in_dim(x, first + offset, first + offset + length, 1, axis)
        if length < count * stride:
            room = [(0, count * stride - length if d == axis else 0, 0) for d in range(len(shape))]
            part = pad(part, np.zeros((), dtype_of(part))[()], room)
        part = reshape_to(part, (*before, count, stride, *after))
        parts.append(part if width == stride else slice_in_dim(part, 0, width, 1, axis + 1))
    return parts[0] if len(parts) == 1 else concatenate(parts, axis + 1)


def _expand(x: Array, *, specs: tuple[Spec, ...]) -> Any:
    for axis in reversed(range(len(specs))):
        first, count, stride, size = specs[axis]
        x = cut_axis(x, axis, (first, count, stride if count > 1 else size, size))
    return x


windows_p: Primitive = Primitive("windows", _typing, expand=_expand, work=FREE, kind=MOVER)
