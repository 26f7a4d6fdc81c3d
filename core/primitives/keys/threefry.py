"""Random bits: the threefry2x32 hash, and primitives on arrays of opaque keys.

A key of the threefry generator is two uint32 words. Bits, splits and folds are all one hash of a
64-bit counter under the key: element `i` of a sample depends on the key and `i` alone, so that the
parts of a sample can be computed apart. Each key primitive but `random_wrap` and `random_unwrap` is
defined by its expansion, which converts to words and back by these two.

Source of the hash: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.array import Array, ArrayLike, Operand
from ...ir.axis_relation import FREE, IDENTITY, POINTWISE, Loops, Relation, Work, pointwise
from ...ir.primitive import Primitive
from ...ir.types import UINT32, ArrayType, KeyDtype, Shape, is_integer, is_key
from ...support.errors import ArgumentError, DtypeError, ShapeError
from ...tracing.trace import shape_of, typeof
from ...transforms.rule_helpers import no_tangent
from ..elementwise.arithmetic import add_p
from ..elementwise.bitwise import or_p, shift_left_p, shift_right_logical_p, xor_p
from ..elementwise.conversion import convert_element_type
from ..movement.shape import broadcast_in_dim, concatenate, expand_dims, iota, reshape, slice_in_dim, squeeze

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA
UINTS = {bits: np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)}


# ---------------------------------------------------------------------------- the hash


def _threefry_typing(*words: ArrayType) -> list[ArrayType]:
    if any(w.dtype != UINT32 for w in words):
        raise DtypeError(f"threefry2x32 of {', '.join(w.show() for w in words)}", "all four operands are uint32")
    shapes = {w.shape for w in words if w.shape}
    if len(shapes) > 1:
        raise ShapeError(f"threefry2x32 of shapes {sorted(shapes)}", "operands have one shape, or are scalars")
    out = ArrayType(shapes.pop() if shapes else (), UINT32)
    return [out, out]


def threefry_rounds(k1: Any, k2: Any, x1: Any, x2: Any, rotate: Callable[..., Any], number: Any) -> tuple[Any, Any]:
    """The 20 rounds, over anything with `+` and `^`; `rotate(x, by)` rotates left, `number` makes a constant."""
    keys = (k1, k2, k1 ^ k2 ^ number(PARITY))
    x1, x2 = x1 + keys[0], x2 + keys[1]
    for group in range(5):
        for by in ROTATIONS[group % 2]:
            x1 = x1 + x2
            x2 = rotate(x2, by) ^ x1
        x1 = x1 + keys[(group + 1) % 3]
        x2 = x2 + (keys[(group + 2) % 3] + number(group + 1))
    return x1, x2


def _threefry_numpy(*words: np.ndarray) -> Any:
    k1, k2, x1, x2 = np.broadcast_arrays(*words)

    def rotate(x: ArrayLike, by: int) -> Any:
        return (x << np.uint32(by)) | (x >> np.uint32(32 - by))

    return threefry_rounds(k1, k2, x1, x2, rotate, np.uint32)


class _Word:
    """A uint32 value with operators, for `threefry_rounds`."""

    __slots__ = ("value",)

    def __init__(self, value: ArrayLike):
        self.value = value

    def __add__(self, other: _Word) -> _Word:
        return _Word(add_p.bind(self.value, other.value))

    def __xor__(self, other: _Word) -> _Word:
        return _Word(xor_p.bind(self.value, other.value))

    def rotate(self, by: int) -> _Word:
        left = shift_left_p.bind(self.value, np.uint32(by))
        return _Word(or_p.bind(left, shift_right_logical_p.bind(self.value, np.uint32(32 - by))))


def _threefry_expand(*words: Any) -> Any:
    shape = next((shape_of(w) for w in words if shape_of(w)), ())
    k1, k2, x1, x2 = (_Word(broadcast_in_dim(w, shape, ()) if shape_of(w) != shape else w) for w in words)
    out1, out2 = threefry_rounds(k1, k2, x1, x2, _Word.rotate, lambda n: _Word(np.uint32(n)))
    return [out1.value, out2.value]


_HASH = Work(flops=119)  # 20 rounds of an addition, a rotation and an exclusive or; keys are added 6 times

threefry2x32_p: Primitive = Primitive(
    "threefry2x32",
    typing=_threefry_typing,
    jvp=no_tangent(lambda: threefry2x32_p),
    numpy=_threefry_numpy,
    expand=_threefry_expand,
    multiple=True,
    relation=pointwise,
    work=_HASH,
    kind=POINTWISE,
)


# ---------------------------------------------------------------------------- keys and their words


def _key_type(keys: ArrayType, name: str) -> KeyDtype:
    if not is_key(keys.dtype):
        raise DtypeError(f"{name} takes random keys, got {keys.show()}", "make one with `random.key(seed)`")
    return keys.dtype


def _wrap_typing(words: ArrayType, *, impl: KeyDtype) -> ArrayType:
    if words.dtype != UINT32 or words.ndim == 0 or words.shape[-1] != impl.words:
        raise ShapeError(
            f"random_wrap of {words.show()}: keys of {impl} are uint32 arrays whose last axis has size {impl.words}",
            "pass what `random.key_data` gave",
        )
    return ArrayType(words.shape[:-1], impl)


def _unwrap_typing(keys: ArrayType) -> ArrayType:
    return ArrayType((*keys.shape, _key_type(keys, "random_unwrap").words), UINT32)


def _leading(ins: Sequence[Any], outs: Sequence[Any], **_: Any) -> Relation:
    """Parallel along the axes that keys and result share; what only one of them has stays in one piece."""
    (x,), (out,), loops = ins, outs, Loops()
    shared = loops.axes(x.shape[: min(x.ndim, out.ndim)])
    (*parts,), kinds = loops.whole(*x.shape[len(shared) :], *out.shape[len(shared) :])
    old, new = parts[: x.ndim - len(shared)], parts[x.ndim - len(shared) :]
    return loops.relation([(*shared, *old)], [(*shared, *new)], kinds)


random_wrap_p: Primitive = Primitive(
    "random_wrap",
    typing=_wrap_typing,
    jvp=no_tangent(lambda: random_wrap_p),
    relation=_leading,
    work=FREE,
    numpy=lambda words, *, impl: np.ascontiguousarray(words).view(impl.storage)[..., 0],
)
random_unwrap_p: Primitive = Primitive(
    "random_unwrap",
    typing=_unwrap_typing,
    jvp=no_tangent(lambda: random_unwrap_p),
    relation=_leading,
    work=FREE,
    numpy=lambda keys: keys[keys.dtype.names[0]],
)


def _split_words(keys: Array, extra: int = 0) -> tuple[Any, Any]:
    """The two words of threefry keys, with `extra` axes of size 1 behind."""
    words = random_unwrap_p.bind(keys)
    ndim = len(shape_of(words)) - 1
    pair = (squeeze(slice_in_dim(words, i, i + 1, axis=ndim), (ndim,)) for i in range(2))
    first, second = (expand_dims(w, tuple(range(ndim, ndim + extra))) if extra else w for w in pair)
    return first, second


def _join_words(first: Array, second: Array) -> Any:
    axis = len(shape_of(first))
    return concatenate([expand_dims(first, (axis,)), expand_dims(second, (axis,))], axis)


def _hash_counter(keys: Operand, shape: Shape) -> list[Any]:
    """Two words for each key and each index of `shape`: the hash of the index, counted in row-major order."""
    size = math.prod(shape)
    if size > 2**32:
        raise ArgumentError(f"random bits of shape {shape} count past 2^32", "split the key and draw in parts")
    lead = shape_of(keys)
    counter = reshape(iota(UINT32, size), shape)
    if not lead:
        return threefry2x32_p.bind(*_split_words(keys), np.uint32(0), counter)
    whole = (*lead, *shape)
    first, second = (broadcast_in_dim(w, whole, tuple(range(len(whole)))) for w in _split_words(keys, len(shape)))
    counter = broadcast_in_dim(counter, whole, tuple(range(len(lead), len(whole))))
    return threefry2x32_p.bind(first, second, np.uint32(0), counter)


# ---------------------------------------------------------------------------- primitives on keys


def _bits_expand(keys: Operand, *, bit_width: int, shape: Shape) -> Any:
    high, low = _hash_counter(keys, shape)
    if bit_width == 64:
        wide = [convert_element_type(word, UINTS[64]) for word in (high, low)]
        return or_p.bind(shift_left_p.bind(wide[0], np.uint64(32)), wide[1])
    return convert_element_type(xor_p.bind(high, low), UINTS[bit_width])


def _bits_typing(keys: ArrayType, *, bit_width: int, shape: Shape) -> ArrayType:
    _key_type(keys, "random_bits")
    if bit_width not in UINTS:
        raise ArgumentError(f"random bits of width {bit_width}", f"one of {tuple(UINTS)}")
    return ArrayType((*keys.shape, *shape), UINTS[bit_width])


random_bits_p: Primitive = Primitive(
    "random_bits",
    typing=_bits_typing,
    jvp=no_tangent(lambda: random_bits_p),
    relation=_leading,
    work=_HASH,
    expand=_bits_expand,
)


def _split_typing(keys: ArrayType, *, shape: Shape) -> ArrayType:
    return ArrayType((*keys.shape, *shape), _key_type(keys, "random_split"))


def _split_expand(keys: Operand, *, shape: Shape) -> Any:
    return random_wrap_p.bind(_join_words(*_hash_counter(keys, shape)), impl=typeof(keys).dtype)


random_split_p: Primitive = Primitive(
    "random_split",
    typing=_split_typing,
    jvp=no_tangent(lambda: random_split_p),
    relation=_leading,
    work=_HASH,
    expand=_split_expand,
)


def _seed_typing(seeds: ArrayType, *, impl: KeyDtype) -> ArrayType:
    if not is_integer(seeds.dtype):
        raise DtypeError(f"a seed must be an integer, got {seeds.show()}", "cast it, or pass a Python int")
    return ArrayType(seeds.shape, impl)


def _seed_words(seeds: Array) -> tuple[Any, Any]:
    dtype = typeof(seeds).dtype
    low = convert_element_type(seeds, UINT32)
    if dtype.itemsize < 8:
        return broadcast_in_dim(np.uint32(0), shape_of(seeds), ()), low
    return convert_element_type(shift_right_logical_p.bind(seeds, dtype.type(32)), UINT32), low


random_seed_p: Primitive = Primitive(
    "random_seed",
    typing=_seed_typing,
    jvp=no_tangent(lambda: random_seed_p),
    relation=pointwise,
    kind=POINTWISE,
    expand=lambda seeds, *, impl: random_wrap_p.bind(_join_words(*_seed_words(seeds)), impl=impl),
)


def _fold_typing(keys: ArrayType, data: ArrayType) -> ArrayType:
    impl = _key_type(keys, "random_fold_in")
    if data.dtype != UINT32:
        raise DtypeError(f"random_fold_in takes uint32 data, got {data.show()}", "cast with `astype`")
    if keys.shape and data.shape and keys.shape != data.shape:
        raise ShapeError(f"random_fold_in of shapes {keys.shape} and {data.shape}", "one shape, or a scalar")
    return ArrayType(keys.shape or data.shape, impl)


def _fold_expand(keys: Array, data: Array) -> Any:
    words = threefry2x32_p.bind(*_split_words(keys), np.uint32(0), data)
    return random_wrap_p.bind(_join_words(*words), impl=typeof(keys).dtype)


random_fold_in_p: Primitive = Primitive(
    "random_fold_in",
    typing=_fold_typing,
    jvp=no_tangent(lambda: random_fold_in_p),
    relation=pointwise,
    work=_HASH,
    kind=POINTWISE,
    expand=_fold_expand,
)
random_clone_p: Primitive = Primitive(
    "random_clone",
    typing=lambda keys: ArrayType(keys.shape, _key_type(keys, "random_clone")),
    jvp=no_tangent(lambda: random_clone_p),
    relation=pointwise,
    work=FREE,
    kind=IDENTITY,
    numpy=lambda keys: keys,
)
PRIMITIVES = (
    threefry2x32_p, random_wrap_p, random_unwrap_p, random_bits_p, random_split_p, random_seed_p, random_fold_in_p,
    random_clone_p,
)  # fmt: skip
