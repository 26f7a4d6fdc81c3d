"""Vectors moved about: slices, concatenations, rotations, reshapes, broadcasts, transposes.

All take and give 32-bit vectors of rank two or more; masks travel as integers. What libtpu lowers directly is one
operation; the rest is composed of these.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .text import SSA, Shape, Writer

LANES = 128


def as_words(w: Writer, x: SSA) -> SSA:
    """A mask as integers 0 and 1; any other vector itself."""
    return w.op("arith.extui", [x], x.shape, "i32") if x.element == "i1" else x


def as_mask(w: Writer, x: SSA, like: str) -> SSA:
    """What `as_words` undoes, where `like` is the element type it was given."""
    if like != "i1" or x.element == "i1":
        return x
    zero = w.constant(0, "i32", x.shape)
    return w.op("arith.cmpi", [x, zero], x.shape, "i1", "predicate = 1 : i64")


def broadcast(w: Writer, x: SSA, shape: Shape) -> SSA:
    """Axes of size 1 (and leading ones that are absent) repeated."""
    if x.shape == shape:
        return x
    y = w.op("vector.broadcast", [as_words(w, x)], shape, as_words_element(x))
    return as_mask(w, y, x.element)


def as_words_element(x: SSA) -> str:
    return "i32" if x.element == "i1" else x.element


def cut(w: Writer, x: SSA, starts: Sequence[int], sizes: Sequence[int]) -> SSA:
    """A contiguous part."""
    assert x.shape is not None
    if tuple(sizes) == x.shape:
        return x
    y = as_words(w, x)
    lists = [f"[{', '.join(map(str, v))}]" for v in (starts, sizes, [1] * len(sizes))]
    attributes = f"offsets = {lists[0]}, sizes = {lists[1]}, strides = {lists[2]}"
    y = w.op("vector.extract_strided_slice", [y], tuple(sizes), y.element, attributes)
    return as_mask(w, y, x.element)


def cut_axis(w: Writer, x: SSA, axis: int, start: int, size: int) -> SSA:
    """`x[..., start : start + size, ...]` along one axis."""
    assert x.shape is not None
    starts = [start if d == axis else 0 for d in range(len(x.shape))]
    return cut(w, x, starts, [size if d == axis else n for d, n in enumerate(x.shape)])


def concatenate(w: Writer, xs: Sequence[SSA], axis: int) -> SSA:
    xs = [x for x in xs if x.shape is not None and x.shape[axis]]
    if len(xs) == 1:
        return xs[0]
    words = [as_words(w, x) for x in xs]
    shape = list(words[0].shape or ())
    shape[axis] = sum(x.shape[axis] for x in words if x.shape is not None)
    y = w.op("tpu.concatenate", words, tuple(shape), words[0].element, f"dimension = {axis} : i32")
    return as_mask(w, y, xs[0].element)


def filled(w: Writer, x: SSA, shape: Sequence[int], value: Any = 0) -> SSA:
    """A constant vector of the element type of another."""
    return w.constant(value, x.element, tuple(shape))


def pad_axis(w: Writer, x: SSA, axis: int, before: int, after: int, value: Any = 0) -> SSA:
    """A vector with elements of one value before and after along an axis; negative: taken off."""
    assert x.shape is not None
    if before < 0 or after < 0:
        start, end = max(-before, 0), x.shape[axis] - max(-after, 0)
        x = cut_axis(w, x, axis, start, end - start)
        before, after = max(before, 0), max(after, 0)
    assert x.shape is not None

    def side(n: int) -> SSA:
        return filled(w, x, [n if d == axis else m for d, m in enumerate(x.shape or ())], value)

    parts = [*([side(before)] if before else []), x, *([side(after)] if after else [])]
    return concatenate(w, parts, axis)


def rotate(w: Writer, x: SSA, shift: SSA, axis: int) -> SSA:
    """Elements moved up along an axis by a scalar (at least zero, below the size), those past the end to the start."""
    assert x.shape is not None
    if x.shape[axis] == 1:
        return x
    y = as_words(w, x)
    y = w.op("tpu.dynamic_rotate", [y, shift], y.shape, y.element, f"dimension = {axis} : si32")
    return as_mask(w, y, x.element)


def transpose(w: Writer, x: SSA, permutation: Sequence[int]) -> SSA:
    assert x.shape is not None
    if list(permutation) == list(range(len(permutation))):
        return x
    y = as_words(w, x)
    shape = tuple(x.shape[p] for p in permutation)
    y = w.op("tpu.transpose", [y], shape, y.element, f"permutation = array<i64: {', '.join(map(str, permutation))}>")
    return as_mask(w, y, x.element)


def iota(w: Writer, shape: Shape, axis: int) -> SSA:
    """Positions along an axis, as integers."""
    if shape[axis] == 1:
        return w.constant(0, "i32", shape)
    return w.op("tpu.iota", [], shape, "i32", f"dimensions = array<i32: {axis}>")


# ---------------------------------------------------------------------------- reshapes


def cast(w: Writer, x: SSA, shape: Shape) -> SSA:
    """A reshape that libtpu has."""
    return x if x.shape == shape else w.op("vector.shape_cast", [x], shape, x.element)


def reshape(w: Writer, x: SSA, shape: Shape) -> SSA:
    """Any reshape, row-major."""
    if x.shape == shape:
        return x
    y = as_words(w, x)
    assert y.shape is not None
    if _without_ones(y.shape) == _without_ones(shape) or not math.prod(shape):
        return as_mask(w, cast(w, y, shape), x.element)
    rows = (math.prod(y.shape[:-1]), y.shape[-1])
    out = (math.prod(shape[:-1]), shape[-1])
    y = _rows(w, cast(w, y, rows), out)
    return as_mask(w, cast(w, y, shape), x.element)


def _without_ones(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def _rows(w: Writer, x: SSA, out: tuple[int, int]) -> SSA:
    """A matrix as a matrix of other rows."""
    assert x.shape is not None
    n, q = x.shape[1], out[1]
    if n == q:
        return x
    if q % n == 0:
        return _joined(w, x, out)
    if n % q == 0:
        return _split(w, x, out)
    return _pieced(w, x, out)


def _pieced(w: Writer, x: SSA, out: tuple[int, int]) -> SSA:
    """Rows concatenated from pieces of other rows."""
    assert x.shape is not None
    n, q = x.shape[1], out[1]
    rows = []
    for first in range(0, out[0] * q, q):
        pieces, at = [], first
        while at < first + q:
            size = min(n - at % n, first + q - at)
            pieces.append(cut(w, x, [at // n, at % n], [1, size]))
            at += size
        rows.append(concatenate(w, pieces, 1))
    return concatenate(w, rows, 0)


def _fits(n: int, many: int) -> bool:
    """Whether libtpu folds `many` rows of `n` lanes into one, or unfolds them."""
    return n * many <= LANES or n % LANES == 0


def _joined(w: Writer, x: SSA, out: tuple[int, int]) -> SSA:
    assert x.shape is not None
    n, many = x.shape[1], out[1] // x.shape[1]
    apart = cast(w, x, (out[0], many, n))
    if many == 1 or (_fits(n, many) and n > 1):
        return cast(w, apart, out)
    if n == 1 and out[0] == 1:
        return transpose(w, x, (1, 0))
    if n == 1:
        return cast(w, transpose(w, apart, (0, 2, 1)), out)
    parts = [cast(w, cut_axis(w, apart, 1, j, 1), (out[0], n)) for j in range(many)]
    return concatenate(w, parts, 1)


def _split(w: Writer, x: SSA, out: tuple[int, int]) -> SSA:
    assert x.shape is not None
    m, (n, q) = x.shape[0], (x.shape[1], out[1])
    many = n // q
    if q > 1 and _fits(q, many):
        return cast(w, cast(w, x, (m, many, q)), out)
    if q == 1 and m == 1:
        return transpose(w, x, (1, 0))
    if q == 1:
        return cast(w, transpose(w, cast(w, x, (m, 1, n)), (0, 2, 1)), out)
    parts = [cast(w, cut_axis(w, x, 1, j * q, q), (m, 1, q)) for j in range(many)]
    return cast(w, concatenate(w, parts, 1), out)


# ---------------------------------------------------------------------------- strides and reversal


def strided(w: Writer, x: SSA, axis: int, stride: int) -> SSA:
    """Every `stride`-th element along an axis, from the first."""
    assert x.shape is not None
    if stride == 1 or x.shape[axis] == 1:
        return x
    rank, count = len(x.shape), -(-x.shape[axis] // stride)
    if axis == rank - 1:
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        return transpose(w, strided(w, transpose(w, x, swapped), rank - 2, stride), swapped)
    y = pad_axis(w, as_words(w, x), axis, 0, count * stride - x.shape[axis])
    assert y.shape is not None
    lead, rest = y.shape[:axis], y.shape[axis + 1 :]
    y = reshape(w, y, (*lead, count, stride, *rest))
    y = cut_axis(w, y, axis + 1, 0, 1)
    return as_mask(w, reshape(w, y, (*lead, count, *rest)), x.element)


def spread_out(w: Writer, x: SSA, axis: int, stride: int, value: Any) -> SSA:
    """Elements spread by `stride` along an axis, with a fill value between them (and after the last)."""
    assert x.shape is not None
    rank, n = len(x.shape), x.shape[axis]
    if axis == rank - 1:
        swapped = [*range(rank - 2), rank - 1, rank - 2]
        return transpose(w, spread_out(w, transpose(w, x, swapped), rank - 2, stride, value), swapped)
    lead, rest = x.shape[:axis], x.shape[axis + 1 :]
    y = reshape(w, as_words(w, x), (*lead, n, 1, *rest))
    y = pad_axis(w, y, axis + 1, 0, stride - 1, value)
    return as_mask(w, reshape(w, y, (*lead, n * stride, *rest)), x.element)


def reverse(w: Writer, x: SSA, axis: int) -> SSA:
    """Elements in the other order along an axis: halves of ever smaller size exchanged."""
    assert x.shape is not None
    n = x.shape[axis]
    if n == 1:
        return x
    size = 1 << (n - 1).bit_length()
    y = pad_axis(w, as_words(w, x), axis, size - n, 0)
    assert y.shape is not None
    place, step = iota(w, y.shape, axis), 1
    while step < size:
        up = rotate(w, y, w.constant(step, "i32"), axis)
        down = rotate(w, y, w.constant(size - step, "i32"), axis)
        bit = w.op("arith.andi", [place, w.constant(step, "i32", y.shape)], y.shape, "i32")
        y = w.op("arith.select", [as_mask(w, bit, "i1"), up, down], y.shape, y.element)
        step *= 2
    return as_mask(w, cut_axis(w, y, axis, 0, n), x.element)
