"""Scalar memory, which is read and written a word at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir.types import ArrayType, is_bool
from ...core.primitives.elementwise.comparison import select_n_p
from ...core.primitives.refs.state_primitives import Index
from .. import vector_layout
from ..body import Body
from ..refs import Ref
from ..text import SSA
from ..values import Value, physical, wide
from .elementwise import RULES as ELEMENTWISE


def _word_places(b: Body, ref: Ref, index: Index, dynamic: Sequence[Value], clip: bool) -> list[list[SSA]]:
    """The indices of an access along each axis, as indices into scalar memory."""
    given = iter(dynamic)
    places = []
    for entry, limit in zip(index, ref.type.shape, strict=True):
        start: Any = next(given) if entry.start is None else entry.start
        size, stride = entry.size, entry.stride
        found = []
        for k in range(size):
            if isinstance(start, int) or start.known is not None:
                known: Any = start if isinstance(start, int) else start.known
                at = int(known) + k * stride
                found.append(b.w.index(min(max(at, 0), limit - 1)))
                continue
            word = b.scalar(start)
            word = b.scalar_op("arith.addi", word, b.int_constant(k * stride)) if k else word
            if clip:
                word = b.scalar_op("arith.maxsi", word, b.int_constant(0))
                word = b.scalar_op("arith.minsi", word, b.int_constant(limit - 1))
            found.append(b.as_index(word))
        places.append(found)
    return places


def _combinations(places: list[list[SSA]]) -> list[list[SSA]]:
    found: list[list[SSA]] = [[]]
    for axis in places:
        found = [[*f, p] for f in found for p in axis]
    return found


def read(b: Body, ref: Ref, index: Index, dynamic: Sequence[Value], clip: bool, out: ArrayType) -> Value:
    """Part of a Ref in scalar memory; with `clip`, indices are clamped to the bounds."""
    places = _combinations(_word_places(b, ref, index, dynamic, clip)) if index else [[b.w.index(0)]]
    words = [b.w.op("memref.load", [ref.mem, *p], None, ref.mem.element) for p in places]
    if not out.shape:
        return Value(out, scalar=_as_scalar(b, words[0], out))
    shape = physical(out.shape)
    element = wide(out.dtype)
    place, found = b.linear_iota(shape), b.w.constant(0, "i32" if element == "i1" else element, shape)
    for i, word in enumerate(words):
        here = b.w.op("arith.cmpi", [place, b.w.constant(i, "i32", shape)], shape, "i1", "predicate = 0 : i64")
        found = b.select(here, b.w.op("vector.broadcast", [word], shape, word.element), found)
    return Value(out, vector=vector_layout.as_mask(b.w, found, element))


def _as_scalar(b: Body, word: SSA, type: ArrayType) -> SSA:
    if not is_bool(type.dtype):
        return word
    return b.w.op("arith.cmpi", [word, b.int_constant(0)], None, "i1", "predicate = 1 : i64")


def write(b: Body, ref: Ref, value: Value, index: Index, dynamic: Sequence[Value], mask: Value | None) -> None:
    """Store part of a Ref of scalar memory, where a mask is true."""
    places = _combinations(_word_places(b, ref, index, dynamic, mask is not None)) if index else [[b.w.index(0)]]
    if mask is not None:
        old = read(b, ref, index, dynamic, True, ArrayType(value.shape, value.dtype))
        value = ELEMENTWISE[select_n_p](b, [mask, old, value], ArrayType(value.shape, value.dtype))
    for i, place in enumerate(places):
        word = b.scalar(value) if not value.shape or len(places) == 1 else word_of(b, value, i)
        if word.element == "i1":
            word = b.w.op("arith.extui", [word], None, "i32")
        b.w.ops("memref.store", [word, ref.mem, *place], [])


def word_of(b: Body, value: Value, i: int) -> SSA:
    """One element of a value, by its row-major place."""
    v = b.vector(value)
    assert v.shape is not None
    starts, rest = [], i
    for n in reversed(v.shape):
        starts.append(rest % n)
        rest //= n
    return b.first(vector_layout.cut(b.w, v, starts[::-1], [1] * len(v.shape)))
