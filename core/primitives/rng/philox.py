"""Bits by hashing a counter with a key, as XLA's `RngBitGenerator` makes them.

Philox4x32-10 hashes four words of counter under two words of key into four words of bits, in ten rounds of two products
whose upper halves are kept. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(2011). The state is four words (k0, k1, c0, c1): under the key (k0, k1), block i hashes the counter (c0, c1, k0, k1)
plus i, a number of 128 bits whose lowest word comes first.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...ir.array import Array, ArrayLike, DTypeLike
from ...ir.binding import with_out_sharding
from ...ir.types import UINT32, as_dtype, canonical_dtype, is_integer
from ...support.errors import ArgumentError, DtypeError, ShapeError
from ...tracing.trace import shape_of, typeof
from ..custom.checkpoint import optimization_barrier_p
from ..elementwise.arithmetic import add_p, mul_p, mulhi_p
from ..elementwise.bitwise import or_p, shift_left_p, xor_p
from ..elementwise.comparison import lt_p
from ..elementwise.conversion import bitcast_convert_type, convert_element_type
from ..keys.threefry import UINTS, threefry2x32_p
from ..movement.shape import as_shape, broadcast_in_dim, concatenate, expand_dims, iota, reshape, slice_in_dim, squeeze

if TYPE_CHECKING:
    from ...support.pytree import PyTree

MULTIPLIERS = (np.uint32(0xD2511F53), np.uint32(0xCD9E8D57))
WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
Words = list[Any]


class RandomAlgorithm(enum.IntEnum):
    """What `rng_bit_generator` hashes with; the default is Philox on every platform."""

    RNG_DEFAULT = 0
    RNG_THREE_FRY = 1
    RNG_PHILOX = 2


def philox4x32(counter: Words, key: Words) -> Words:
    """The four words of bits of a counter (four arrays of one shape) under a key (two arrays, or scalars)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        high0, low0 = mulhi_p.bind(c[0], MULTIPLIERS[0]), mul_p.bind(c[0], MULTIPLIERS[0])
        high1, low1 = mulhi_p.bind(c[2], MULTIPLIERS[1]), mul_p.bind(c[2], MULTIPLIERS[1])
        c = [_xor(high1, c[1], k[0]), low1, _xor(high0, c[3], k[1]), low0]
        k = [add_p.bind(word, by) for word, by in zip(k, WEYL, strict=True)]
    return c


def _xor(x: Array, y: Array, z: Array) -> Any:
    return xor_p.bind(xor_p.bind(x, y), z)


def split_words(state: PyTree) -> Words:
    """The words along the last axis of an array, each an array without it."""
    last = len(shape_of(state)) - 1
    return [squeeze(slice_in_dim(state, i, i + 1, axis=last), (last,)) for i in range(shape_of(state)[last])]


def join_words(words: Words) -> Any:
    """The inverse of `split_words`."""
    axis = len(shape_of(words[0]))
    return concatenate([expand_dims(word, (axis,)) for word in words], axis)


def _plus(words: Words, by: ArrayLike) -> Words:
    """A number of several words, the lowest first, with one of one word added."""
    total = []
    for word in words:
        total.append(add_p.bind(word, by))
        by = convert_element_type(lt_p.bind(total[-1], by), UINT32)
    return total


def _spread(word: Array, lead: int, shape: tuple[int, ...]) -> Any:
    return broadcast_in_dim(word, shape, tuple(range(lead)))


def hashed(state: PyTree, blocks: int, algorithm: RandomAlgorithm) -> Any:
    """The bits of so many blocks for each state: (..., 4) words to (..., words of the blocks)."""
    lead = len(shape_of(state)) - 1
    shape = (*shape_of(state)[:-1], blocks)
    k0, k1, c0, c1 = (_spread(word, lead, shape) for word in split_words(state))
    block = broadcast_in_dim(iota(UINT32, blocks), shape, (lead,))
    if algorithm is RandomAlgorithm.RNG_THREE_FRY:
        words = threefry2x32_p.bind(k0, k1, *_plus([c0, c1], block))
    else:
        words = philox4x32(_plus([c0, c1, k0, k1], block), [k0, k1])
    if blocks > 256:
        words = optimization_barrier_p.bind(*words)  # else XLA hashes each block anew for each of its words
    return reshape(join_words(words), (*shape[:-1], len(words) * blocks))


def bits_of(state: PyTree, shape: tuple[int, ...], width: int, algorithm: RandomAlgorithm) -> tuple[Any, int]:
    """Unsigned integers of a width in bits, of the states' shape and then `shape`; and how many blocks were used."""
    size = math.prod(shape)
    words = size * (2 if width == 64 else 1)
    per_block = 2 if algorithm is RandomAlgorithm.RNG_THREE_FRY else 4
    blocks = -(-words // per_block)
    if blocks >= 2**32:
        raise ArgumentError(f"random bits of shape {shape} count past 2^32", "split the key and draw in parts")
    flat = hashed(state, blocks, algorithm)
    lead = shape_of(flat)[:-1]
    flat = slice_in_dim(flat, 0, words, axis=len(lead))
    if width == 64:
        pairs = split_words(reshape(flat, (*lead, size, 2)))
        low, high = (convert_element_type(word, UINTS[64]) for word in pairs)
        flat = or_p.bind(shift_left_p.bind(high, np.uint64(32)), low)
    return reshape(convert_element_type(flat, UINTS[width]), (*lead, *shape)), blocks


def rng_bit_generator(
    key: ArrayLike, shape: Sequence[int], dtype: DTypeLike = np.uint32, algorithm: Any = RandomAlgorithm.RNG_DEFAULT, *,
    out_sharding: Any = None,
) -> tuple[Any, Any]:  # fmt: skip
    """Random bits of an integer dtype from a state of four uint32 words (or two uint64): (new state, bits).

    The same bits on every platform: those of XLA's Philox, or of threefry2x32 with `RNG_THREE_FRY`.

    >>> import numpy as np
    >>> rng_bit_generator(np.array([1, 2, 3, 4], np.uint32), (3,))[1].tolist()
    [512747620, 1298009047, 1267190206]
    """
    if out_sharding is not None:
        return with_out_sharding(out_sharding, rng_bit_generator, key, shape, dtype, algorithm)
    found, type_ = canonical_dtype(as_dtype(dtype)), typeof(key)
    if not is_integer(found) or 8 * found.itemsize not in UINTS:
        raise DtypeError(f"rng_bit_generator of dtype {found}", "an integer dtype of 8 to 64 bits")
    if (type_.shape, str(type_.dtype)) not in (((4,), "uint32"), ((2,), "uint64")):
        raise ShapeError(f"rng_bit_generator takes a state, got {type_.show()}", "four uint32 words, or two uint64")
    wide = type_.shape == (2,)
    state = reshape(bitcast_convert_type(key, UINT32), (4,)) if wide else key
    bits, blocks = bits_of(state, as_shape(shape, "rng_bit_generator"), 8 * found.itemsize, RandomAlgorithm(algorithm))
    k0, k1, c0, c1 = split_words(state)
    state = join_words([k0, k1, *_plus([c0, c1], np.uint32(blocks))])
    if wide:
        state = bitcast_convert_type(reshape(state, (2, 2)), UINTS[64])
    return state, convert_element_type(bits, found)
