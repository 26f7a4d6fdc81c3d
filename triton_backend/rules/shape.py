"""Operations that move elements: by tensor operations where they keep order, by `tt.gather` otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_bool
from ...core.primitives.movement.shape import (
    broadcast_in_dim_p,
    concatenate_p,
    iota_p,
    pad_p,
    reshape_p,
    rev_p,
    slice_p,
    split_p,
    squeeze_p,
    transpose_p,
)
from ..builders import (
    INT8,
    Int,
    add,
    all_lanes,
    arith,
    as_value,
    both,
    compare,
    convert,
    cut_axis,
    joined,
    lanes,
    less,
    mul,
    regroup,
    reshape,
    select,
    spread,
    sub,
    take,
    transpose,
)
from ..text import Value, power
from .elementwise import Rule

if TYPE_CHECKING:
    from ..lower import Lowering


def _broadcast(e: Lowering, operands: Sequence[Value], out: ArrayType, shape: Sequence[int], broadcast_dimensions: Any
               ) -> Value:  # fmt: skip
    (x,) = operands
    if not x.shape:
        return spread(e.p, x, shape)
    view = [1] * len(shape)
    for d, n in zip(broadcast_dimensions, x.shape, strict=True):
        view[d] = n
    return spread(e.p, regroup(e.p, x, view), shape)


def _reshape(e: Lowering, operands: Sequence[Value], out: ArrayType, **params: Any) -> Value:
    return reshape(e.p, operands[0], out.shape)


def _transpose(e: Lowering, operands: Sequence[Value], out: ArrayType, permutation: Sequence[int]) -> Value:
    return transpose(e.p, operands[0], permutation)


def _rev(e: Lowering, operands: Sequence[Value], out: ArrayType, dimensions: Sequence[int]) -> Value:
    (x,) = operands
    places = all_lanes(e.p, x.shape)
    for d in dimensions:
        places[d] = sub(e.p, x.shape[d] - 1, places[d])
    return take(e.p, x, x.shape, places)


def cut(e: Any, x: Value, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None = None) -> Value:
    """A static slice."""
    shape = []
    p = e.p
    for axis, (start, limit) in enumerate(zip(starts, limits, strict=True)):
        stride = 1 if strides is None else strides[axis]
        size = max(-(-(limit - start) // stride), 0)
        shape.append(size)
        if not size:
            continue
        if stride == 1:
            x = cut_axis(p, x, axis, start, size)
            continue
        new = (*x.shape[:axis], size, *x.shape[axis + 1 :])
        places = all_lanes(p, new)
        places[axis] = add(p, mul(p, places[axis], stride), start)
        x = take(p, x, new, places)
    return p.constant(0, x.dtype, shape) if 0 in shape else x


def _slice(e: Lowering, operands: Sequence[Value], out: ArrayType, start_indices: Any, limit_indices: Any, strides: Any
           ) -> Value:  # fmt: skip
    (x,) = operands
    found = cut(e, x, start_indices, limit_indices, strides)
    short = [d for d, n in enumerate(x.shape) if n != out.shape[d]]
    if len(short) == 1 and set(strides or ()) <= {1}:
        e.p.cuts[found.name, found.shape] = x, short[0], start_indices[short[0]]
    return found


def _iota(e: Any, operands: Sequence[Value], out: ArrayType, dtype: Any, shape: Sequence[int], dimension: int) -> Value:
    places = lanes(e.p, shape[dimension], dimension, len(shape))
    return spread(e.p, convert(e.p, places, dtype), shape)


def _pad(e: Lowering, operands: Sequence[Value], out: ArrayType, padding_config: Any) -> Value:
    """Each element of the result is one of the operand's, or the fill."""
    p, (x, fill) = e.p, operands
    if 0 in x.shape:
        return spread(p, fill, out.shape)
    places, inside = [], None
    for d, (here, (low, _, holes)) in enumerate(zip(all_lanes(p, out.shape), padding_config, strict=True)):
        at = sub(p, here, low)
        place = arith(p, "divsi", at, holes + 1)
        places.append(place)
        if low or holes or x.shape[d] != out.shape[d]:
            whole = as_value(p, at)
            fits = both(p, compare(p, "ge", whole, p.constant(0, whole.dtype)), less(p, place, x.shape[d]))
            if holes:
                fits = both(p, fits, compare(p, "eq", as_value(p, mul(p, place, holes + 1)), whole))
            inside = both(p, inside, fits)
    found = take(p, x, out.shape, places)
    return found if inside is None else select(p, inside, found, fill)


def _concatenate(e: Lowering, operands: Sequence[Value], out: ArrayType, dimension: int) -> Value:
    p = e.p
    parts = [x for x in operands if x.shape[dimension]]
    if not parts or 0 in out.shape:
        return p.constant(0, out.dtype, out.shape)
    turned = _turned(p, parts, dimension)
    if turned is not None:
        return turned
    if is_bool(out.dtype):
        wider = [convert(p, x, INT8) for x in parts]
        return convert(p, _joined(e, wider, ArrayType(out.shape, INT8), dimension), out.dtype)
    return _joined(e, parts, out, dimension)


def _turned(p: Any, parts: Sequence[Value], axis: int) -> Value | None:
    """A value turned along an axis, where that is what two parts of it give, the first one last; else None. Halves are
    joined."""
    found = [p.cuts.get((x.name, x.shape)) for x in parts]
    if len(found) != 2 or any(one is None for one in found):
        return None
    (x, along, start), (other, across, first) = found
    ends = along == across == axis and not first and start == parts[1].shape[axis]
    if not ends or 2 * start == x.shape[axis] or x != other or start + parts[0].shape[axis] != x.padded[axis]:
        return None
    places = all_lanes(p, x.shape)
    places[axis] = add(p, places[axis], start)
    return take(p, x, x.shape, places)


def _joined(e: Lowering, parts: list[Value], out: ArrayType, axis: int) -> Value:
    """Pairs of equal power-of-two parts are interleaved by `tt.join`; otherwise each element chooses its part."""
    p = e.p
    while (
        len(parts) > 1
        and all(x.shape[axis] == x.padded[axis] == parts[0].shape[axis] for x in parts[:-1])
        and (parts[-1].padded == parts[0].padded and len(parts) == power(len(parts)))
    ):
        parts = [joined(p, a, b, axis) for a, b in zip(parts[::2], parts[1::2], strict=True)]
    found, start = None, 0
    for x in parts:
        places: list[Int] = list(all_lanes(p, out.shape))
        here = as_value(p, places[axis])
        places[axis] = sub(p, here, start)
        one = take(p, x, out.shape, places)
        if found is None:
            found = one
        else:
            found = select(p, compare(p, "ge", here, p.constant(start, here.dtype)), one, found)
        start += x.shape[axis]
    assert found is not None
    return found


def _split(e: Lowering, operands: Sequence[Value], outs: Sequence[ArrayType], sizes: Sequence[int], axis: int) -> Any:
    (x,), start, parts = operands, 0, []
    for size in sizes:
        if 0 in (size, *x.shape):
            parts.append(e.p.constant(0, x.dtype, outs[len(parts)].shape))
        else:
            parts.append(cut_axis(e.p, x, axis, start, size))
        start += size
    return parts


def _squeeze(e: Lowering, operands: Sequence[Value], out: ArrayType, dimensions: Sequence[int]) -> Value:
    return regroup(e.p, operands[0], out.shape)


RULES: dict[Primitive, Rule] = {
    broadcast_in_dim_p: _broadcast, reshape_p: _reshape, squeeze_p: _squeeze, transpose_p: _transpose, rev_p: _rev,
    slice_p: _slice, iota_p: _iota, pad_p: _pad, concatenate_p: _concatenate, split_p: _split,
}  # fmt: skip
