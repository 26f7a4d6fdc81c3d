"""The generators of random keys: what each makes of a seed, and how it splits, folds and draws.

`threefry2x32` keys are two words, and its operations are primitives. An `rbg` key is four words: two threefry keys, by
which it is split and folded, and the state of a Philox generator, by which it draws; `unsafe_rbg` splits and folds by
Philox too, which is faster and less well studied. Without `threefry_partitionable`, threefry keys are split and drawn
from as JAX did before 0.5: the numbers of one half of a sample are hashed with those of the other. A `philox` key is
two words, the key of Philox4x32-10; what it draws, its parts and what it is folded with are hashes of counters that
never meet. Bits are the same on every platform.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.ir.array import Array
from ..core.ir.types import PHILOX, RBG, THREEFRY, UINT32, UNSAFE_RBG, KeyDtype
from ..core.primitives.elementwise.bitwise import or_p, shift_left_p, xor_p
from ..core.primitives.elementwise.conversion import bitcast_convert_type, convert_element_type
from ..core.primitives.keys.threefry import (
    UINTS,
    random_bits_p,
    random_clone_p,
    random_fold_in_p,
    random_seed_p,
    random_split_p,
    random_unwrap_p,
    random_wrap_p,
    threefry2x32_p,
)
from ..core.primitives.movement.shape import (
    broadcast_shapes,
    broadcast_to,
    concatenate,
    expand_dims,
    iota,
    reshape,
    slice_in_dim,
)
from ..core.primitives.rng.philox import RandomAlgorithm, bits_of, hashed
from ..core.support.config import current
from ..core.support.errors import ArgumentError
from ..core.tracing.trace import shape_of, typeof

BY_PHILOX = RandomAlgorithm.RNG_PHILOX


class Generator(NamedTuple):
    """`seed(integers)` makes keys; `split(keys, shape)`, `fold_in(keys, words)`, `bits(keys, width, shape)` use them.

    All take arrays of keys too, whose axes come first.
    """

    dtype: KeyDtype
    seed: Callable[[Any], Any]
    split: Callable[[Any, tuple[int, ...]], Any]
    fold_in: Callable[[Any, Any], Any]
    bits: Callable[[Any, int, tuple[int, ...]], Any]


def _threefry_seed(seed: Array) -> Any:
    return random_seed_p.bind(seed, impl=THREEFRY)


def paired_hash(keys: Any, numbers: Any) -> Any:
    """The hash of a row of uint32 numbers under each threefry key: the first half with the second, padded by a 0."""
    lead, (size,) = shape_of(keys), shape_of(numbers)
    if size >= 2**32 - 1:
        raise ArgumentError(f"{size} words of random bits count past 2^32", "split the key and draw in parts")
    half, words, end = (size + 1) // 2, random_unwrap_p.bind(keys), len(lead)
    numbers = concatenate([numbers, np.zeros(size % 2, np.uint32)], 0)
    operands = [slice_in_dim(words, i, i + 1, axis=end) for i in (0, 1)]
    operands += [slice_in_dim(numbers, i * half, (i + 1) * half) for i in (0, 1)]
    pair = threefry2x32_p.bind(*[broadcast_to(x, (*lead, half)) for x in operands])
    return slice_in_dim(concatenate(pair, end), 0, size, axis=end)


def _threefry_split(keys: Any, shape: tuple[int, ...]) -> Any:
    if current().threefry_partitionable:
        return random_split_p.bind(keys, shape=shape)
    words = paired_hash(keys, iota(UINT32, 2 * math.prod(shape)))
    return random_wrap_p.bind(reshape(words, (*shape_of(keys), *shape, 2)), impl=THREEFRY)


def _threefry_bits(keys: Any, width: int, shape: tuple[int, ...]) -> Any:
    if current().threefry_partitionable:
        return random_bits_p.bind(keys, bit_width=width, shape=shape)
    lead, size = shape_of(keys), math.prod(shape)
    words = paired_hash(keys, iota(UINT32, (size * width + 31) // 32))
    end = len(lead)
    if width == 64:
        high, low = (convert_element_type(slice_in_dim(words, i * size, (i + 1) * size, axis=end), UINTS[64])
                     for i in (0, 1))  # fmt: skip
        words = or_p.bind(shift_left_p.bind(high, np.uint64(32)), low)
    elif width < 32:
        parts = bitcast_convert_type(words, UINTS[width])
        words = slice_in_dim(reshape(parts, (*lead, math.prod(shape_of(parts)[end:]))), 0, size, axis=end)
    return reshape(words, (*lead, *shape))


def _doubled(seed: Any) -> Any:
    """The words of a threefry key, twice."""
    words = random_unwrap_p.bind(_threefry_seed(seed))
    return concatenate([words, words], len(shape_of(words)) - 1)


def _halves(keys: Array) -> list[Any]:
    """The two threefry keys of keys of four words."""
    words = random_unwrap_p.bind(keys)
    last = len(shape_of(words)) - 1
    return [random_wrap_p.bind(slice_in_dim(words, i, i + 2, axis=last), impl=THREEFRY) for i in (0, 2)]


def _whole(halves: list[Any]) -> Any:
    words = [random_unwrap_p.bind(half) for half in halves]
    return random_wrap_p.bind(concatenate(words, len(shape_of(words[0])) - 1), impl=RBG)


def _philox_bits(keys: Array, width: int, shape: tuple[int, ...]) -> Any:
    return bits_of(random_unwrap_p.bind(keys), shape, width, BY_PHILOX)[0]


def _unsafe_split(keys: Array, shape: tuple[int, ...]) -> Any:
    """Every tenth block of bits is a key."""
    lead, count = shape_of(keys), math.prod(shape)
    blocks = reshape(hashed(random_unwrap_p.bind(keys), 10 * count, BY_PHILOX), (*lead, count, 10, 4))
    axis = len(lead) + 1
    return random_wrap_p.bind(reshape(slice_in_dim(blocks, 0, 1, axis=axis), (*lead, *shape, 4)), impl=UNSAFE_RBG)


def _unsafe_fold(keys: Array, data: Any) -> Any:
    """The exclusive or with the tenth block of bits of a key that is made of the data."""
    tenth = slice_in_dim(hashed(_doubled(data), 10, BY_PHILOX), 36, 40, axis=len(shape_of(data)))
    words = random_unwrap_p.bind(random_clone_p.bind(keys))
    shape = max(shape_of(words), shape_of(tenth), key=len)
    return random_wrap_p.bind(xor_p.bind(broadcast_to(words, shape), broadcast_to(tenth, shape)), impl=UNSAFE_RBG)


# What a `philox` key hashes: block `i` of its bits is the hash of the counter (i, 0, k0, k1), of the words of its parts
# that of (i, 1, k0, k1), and folded with `data` it is the first words of that of (data, 2, k0, k1).
_DRAWN, _PARTS, _FOLDED = (np.uint32(use) for use in range(3))


def _philox_state(keys: Array, first: Any, use: np.uint32) -> Any:
    """The states that hash the counters of one use from `first` on, of the shape of both."""
    words = random_unwrap_p.bind(keys)
    lead = broadcast_shapes(shape_of(words)[:-1], shape_of(first))
    counter = [broadcast_to(expand_dims(x, (len(shape_of(x)),)), (*lead, 1)) for x in (first, use)]
    return concatenate([broadcast_to(words, (*lead, 2)), *counter], len(lead))


def _philox_split(keys: Any, shape: tuple[int, ...]) -> Any:
    lead, count = shape_of(keys), math.prod(shape)
    words = hashed(_philox_state(keys, np.uint32(0), _PARTS), -(-count // 2), BY_PHILOX)  # a block is two keys
    words = slice_in_dim(words, 0, 2 * count, axis=len(lead))
    return random_wrap_p.bind(reshape(words, (*lead, *shape, 2)), impl=PHILOX)


def _philox_fold(keys: Array, data: Any) -> Any:
    block = hashed(_philox_state(random_clone_p.bind(keys), data, _FOLDED), 1, BY_PHILOX)
    return random_wrap_p.bind(slice_in_dim(block, 0, 2, axis=len(shape_of(block)) - 1), impl=PHILOX)


GENERATORS = {
    "threefry2x32": Generator(
        THREEFRY,
        _threefry_seed,
        _threefry_split,
        lambda keys, data: random_fold_in_p.bind(keys, data),
        _threefry_bits,
    ),
    "rbg": Generator(
        RBG,
        lambda seed: random_wrap_p.bind(_doubled(seed), impl=RBG),
        lambda keys, shape: _whole([_threefry_split(half, shape) for half in _halves(keys)]),
        lambda keys, data: _whole([random_fold_in_p.bind(half, data) for half in _halves(random_clone_p.bind(keys))]),
        _philox_bits,
    ),
    "unsafe_rbg": Generator(
        UNSAFE_RBG,
        lambda seed: random_wrap_p.bind(_doubled(seed), impl=UNSAFE_RBG),
        _unsafe_split,
        _unsafe_fold,
        _philox_bits,
    ),
    "philox": Generator(
        PHILOX,
        lambda seed: random_seed_p.bind(seed, impl=PHILOX),
        _philox_split,
        _philox_fold,
        lambda keys, width, shape: bits_of(_philox_state(keys, np.uint32(0), _DRAWN), shape, width, BY_PHILOX)[0],
    ),
}
_NAMES = {generator.dtype: name for name, generator in GENERATORS.items()}


def generator_of(spec: Any) -> Generator:
    """A generator by its name, its keys' dtype, or None for the one of `default_prng_impl`."""
    name = current().default_prng_impl if spec is None else _NAMES.get(spec, spec) if _hashable(spec) else spec
    if not isinstance(name, str) or name not in GENERATORS:
        raise ArgumentError(f"there is no random generator {spec!r}", f"one of {', '.join(map(repr, GENERATORS))}")
    return GENERATORS[name]


def _hashable(x: Any) -> bool:
    return type(x).__hash__ is not None


def generator_name(keys: Any) -> str:
    """The name of the generator of keys."""
    return _NAMES[typeof(keys).dtype]


def generator(keys: Any) -> Generator:
    """The generator of keys."""
    return GENERATORS[generator_name(keys)]


def seeded(seed: Any, impl: Any) -> Any:
    """A key of a seed, a Python integer or an integer array without axes."""
    return generator_of(impl).seed(np.int64(seed) if isinstance(seed, int) else seed)
