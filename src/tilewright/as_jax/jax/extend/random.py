"""`jax.extend.random`: the generators of keys by their dtypes, and the function that the default one is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ....core.ir.types import RBG, THREEFRY, UNSAFE_RBG
from ....core.primitives.keys.threefry import random_wrap_p, threefry2x32_p
from ....core.primitives.movement.shape import reshape
from ....core.tracing.trace import shape_of
from ....random.generators import paired_hash, seeded
from ...missing import not_adapted

if TYPE_CHECKING:
    from ....core.ir.types import KeyDtype


threefry_prng_impl: KeyDtype
rbg_prng_impl: KeyDtype
unsafe_rbg_prng_impl: KeyDtype
threefry_prng_impl, rbg_prng_impl, unsafe_rbg_prng_impl = THREEFRY, RBG, UNSAFE_RBG


def random_seed(seeds: Any, impl: Any) -> Any:
    """A key of a seed.

    >>> random_seed(0, threefry_prng_impl).shape
    ()
    """
    return seeded(seeds, impl)


def seed_with_impl(impl: Any, seed: Any) -> Any:
    """A key of a seed, the generator first.

    >>> seed_with_impl(rbg_prng_impl, 0).shape
    ()
    """
    return seeded(seed, impl)


def threefry_2x32(keypair: Any, count: Any) -> Any:
    """The hash threefry-2x32 of an array of uint32 numbers under a key of two, the first half paired with the second.

    >>> threefry_2x32(np.zeros(2, np.uint32), np.zeros(2, np.uint32)).tolist()
    [1797259609, 2579123966]
    """
    keys = random_wrap_p.bind(keypair, impl=THREEFRY)
    return reshape(paired_hash(keys, reshape(count, (int(np.prod(shape_of(count))),))), shape_of(count))


__all__ = [
    "random_seed", "rbg_prng_impl", "seed_with_impl", "threefry2x32_p", "threefry_2x32", "threefry_prng_impl",
    "unsafe_rbg_prng_impl",
]  # fmt: skip
__getattr__: Callable[..., Any] = not_adapted("jax.extend.random")
