"""Random bits and keys: the hash of a counter, which starts at each block's offset.

Kernels hold keys as their words, uint32 along a last axis that is never cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.ir.array import Array
from ..core.ir.primitive import Primitive
from ..core.ir.types import UINT32, ArrayType, is_key
from ..core.primitives.elementwise.arithmetic import add_p, mul_p
from ..core.primitives.elementwise.bitwise import or_p, shift_left_p, shift_right_logical_p, xor_p
from ..core.primitives.elementwise.conversion import convert_element_type
from ..core.primitives.keys import threefry as r
from ..core.primitives.movement.shape import broadcast_in_dim_p, concatenate_p, iota_p, reshape_p, slice_in_dim
from ..core.tracing.trace import shape_of
from .generate.accumulators import full
from .generate.loops import Cut, Loops
from .template import Params, Parts, Types, grouped, own

if TYPE_CHECKING:
    from ..core.primitives.refs.ref_views import AnyRef

Pair = tuple[Any, Any]


def _words(cut: Cut, t: ArrayType, words: int = 2) -> Any:
    """Blocks of keys (or of anything else) that follow the first loops."""
    if not is_key(t.dtype):
        return cut.spec(range(t.ndim), t.shape)
    return cut.spec([*range(t.ndim), None], (*t.shape, words))


def _pair(block: Array) -> Pair:
    """The two words of a block of keys, as arrays of the keys' shape."""
    shape = shape_of(block)
    last = len(shape) - 1
    parts = (slice_in_dim(block, i, i + 1, 1, last) for i in range(2))
    first, second = (reshape_p.bind(p, new_sizes=shape[:-1], dimensions=None) for p in parts)
    return first, second


def _joined(pair: Pair) -> Any:
    shape = (*shape_of(pair[0]), 1)
    columns = [reshape_p.bind(w, new_sizes=shape, dimensions=None) for w in pair]
    return concatenate_p.bind(*columns, dimension=len(shape) - 1)


def _hash(cut: Cut, keys: Array, shape: tuple[int, ...]) -> Pair:
    """The hash of each element's number, for tiles of (axes of the keys, axes of `shape`)."""
    lead = len(cut.tiles) - len(shape)
    counter = full(np.uint32(0), cut.tiles)
    for d in range(lead, len(cut.tiles)):
        stride = math.prod(shape[d - lead + 1 :])
        place = iota_p.bind(dtype=UINT32, shape=cut.tiles, dimension=d)
        if cut.split(d):
            place = add_p.bind(place, convert_element_type(cut.id(d) * np.int32(cut.tiles[d]), UINT32))
        counter = add_p.bind(counter, mul_p.bind(place, np.uint32(stride)))
    words = [
        broadcast_in_dim_p.bind(w, shape=cut.tiles, broadcast_dimensions=tuple(range(lead))) if cut.tiles else w
        for w in _pair(keys)
    ]
    high, low = r.threefry2x32_p.bind(*words, np.uint32(0), counter)
    return high, low


def _counted(finish: Callable[..., Any]) -> Any:
    """The cut of what hashes a counter under each key; `finish(pair, params)` makes the result of the words."""

    def cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
        def body(keys: AnyRef, o: AnyRef) -> None:
            o[...] = finish(_hash(cut, keys[...], params["shape"]), params)

        return Parts(body, [_words(cut, types[0])], [_words(cut, outs[0])])

    return cut


def _bits(pair: Pair, params: Params) -> Any:
    width = r.UINTS[params["bit_width"]]
    if params["bit_width"] == 64:
        high, low = (convert_element_type(w, width) for w in pair)
        return or_p.bind(shift_left_p.bind(high, np.uint64(32)), low)
    return convert_element_type(xor_p.bind(*pair), width)


def _counted_loops(types: Types, params: Params) -> Loops:
    return Loops((*types[0].shape, *params["shape"]))


def _seed_cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    (seeds,) = types

    def body(seeds_ref: AnyRef, o: AnyRef) -> None:
        value = seeds_ref[...]
        low = convert_element_type(value, UINT32)
        high = full(np.uint32(0), cut.tiles)
        if seeds.dtype.itemsize == 8:
            high = convert_element_type(shift_right_logical_p.bind(value, seeds.dtype.type(32)), UINT32)
        o[...] = _joined((high, low))

    return Parts(body, [_words(cut, seeds)], [_words(cut, outs[0])])


def _fold_cut(types: Types, outs: Types, params: Params, cut: Cut) -> Parts:
    keys, data = types

    def spec(t: ArrayType) -> Any:
        return _words(cut, t) if t.shape or not is_key(t.dtype) else cut.spec([None], (2,))

    def body(keys_ref: AnyRef, data_ref: AnyRef, o: AnyRef) -> None:
        pair = r.threefry2x32_p.bind(*_pair(keys_ref[...]), np.uint32(0), data_ref[...])
        o[...] = _joined((pair[0], pair[1]))

    return Parts(body, [spec(keys), spec(data)], [_words(cut, outs[0])])


_KEYED: dict[Primitive, tuple[Callable[..., Parts], Callable[..., Loops]]] = {
    r.random_bits_p: (_counted(_bits), _counted_loops),
    r.random_split_p: (_counted(lambda p, _: _joined(p)), _counted_loops),
    r.random_seed_p: (_seed_cut, lambda types, _: Loops(types[0].shape)),
    r.random_fold_in_p: (_fold_cut, lambda types, _: Loops(types[0].shape or types[1].shape)),
}
TEMPLATES = {
    r.threefry2x32_p: grouped("random", r.threefry2x32_p),
    **{p: own("random", p, parts, loops, words=True) for p, (parts, loops) in _KEYED.items()},
}
