"""`jax.experimental.random`'s names: a generator that counts its draws itself, in a Ref.

Draw number n uses the key `fold_in(key, n)`, so that the numbers are those of `tilewright.random`, which computes
without a state. A generator may be an argument of functions under `jit` and `vmap` (after `split`) or be closed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import random
from ..core.ir.array import DTypeLike
from ..core.ir.binding import is_evaluating
from ..core.primitives.movement.shape import as_shape, broadcast_shapes
from ..core.support.errors import ArgumentError, ShapeError
from ..core.support.pytree import register_dataclass
from ..lang.frontend.mutable_arrays import Ref, new_ref
from ..numpy import asarray, zeros
from ..numpy.util import Array, ArrayLike, shape_of

Size = int | Sequence[int] | None


def _shape(size: Size, *limits: ArrayLike) -> tuple[int, ...]:
    if size is None:
        return broadcast_shapes(*map(shape_of, limits)) if limits else ()
    return as_shape(size, "size")


@register_dataclass
@dataclass(frozen=True, slots=True)
class StatefulPRNG:
    """A generator of random numbers, each call another draw; `stateful_rng` makes one."""

    _base_key: Any
    _counter: Ref

    def key(self, shape: int | Sequence[int] = ()) -> Array:
        """A new key, or an array of keys.

        Raises:
          ShapeError: the generator is split: use it within `vmap`.

        >>> rng = stateful_rng(0)
        >>> bool((random.key_data(rng.key()) == random.key_data(random.fold_in(random.key(0), 0))).all())
        True
        """
        if shape_of(self._base_key):
            raise ShapeError(f"a draw from a generator split into {shape_of(self._base_key)}",
                             "pass it to a function under `vmap`")  # fmt: skip
        key = random.fold_in(self._base_key, self._counter[...])
        self._counter[...] += 1
        sizes = as_shape(shape, "shape")
        return random.split(key, sizes) if sizes else key

    def random(self, size: Size = None, dtype: DTypeLike = float) -> Array:
        """Uniform numbers from 0 to below 1.

        >>> stateful_rng(0).random(3).shape
        (3,)
        """
        return random.uniform(self.key(), _shape(size), dtype)

    def uniform(self, low: ArrayLike = 0, high: ArrayLike = 1, size: Size = None, *, dtype: DTypeLike = float) -> Array:
        """Uniform numbers from `low` to below `high`; without a size, of the shape that both broadcast to.

        >>> rng = stateful_rng(42)
        >>> rng.uniform()
        Array(0.5302608, dtype=float32)
        >>> rng.uniform()
        Array(0.72766423, dtype=float32)
        """
        return random.uniform(self.key(), _shape(size, low, high), dtype, low, high)

    def normal(self, loc: ArrayLike = 0, scale: ArrayLike = 1, size: Size = None, *, dtype: DTypeLike = float) -> Array:
        """Normal numbers of a mean and a standard deviation.

        >>> stateful_rng(0).normal(size=(2, 3)).shape
        (2, 3)
        """
        sample = random.normal(self.key(), _shape(size, loc, scale), dtype)
        return (asarray(loc) + asarray(scale) * sample).astype(sample.dtype)

    def integers(self, low: ArrayLike, high: ArrayLike | None = None, size: Size = None, *, dtype: Any = int) -> Array:
        """Integers from `low` to below `high`, or from 0 to below `low`.

        >>> bool((stateful_rng(0).integers(10, size=4) < 10).all())
        True
        """
        low, high = (0, low) if high is None else (low, high)
        return random.randint(self.key(), _shape(size, low, high), low, high, dtype)

    def split(self, num: int | Sequence[int]) -> StatefulPRNG:
        """Generators of their own in one object, for `vmap` over them.

        >>> from tilewright import vmap
        >>> vmap(lambda rng: rng.uniform())(stateful_rng(123).split(3)).shape
        (3,)
        """
        return StatefulPRNG(self.key(num), new_ref(zeros(num, int)))

    def spawn(self, n_children: int) -> list[StatefulPRNG]:
        """A list of so many generators of their own.

        >>> len(stateful_rng(0).spawn(2))
        2
        """
        return [StatefulPRNG(key, new_ref(0)) for key in self.key(n_children)]


def stateful_rng(seed: ArrayLike | None = None, *, impl: Any = None) -> StatefulPRNG:
    """A generator of random numbers that counts its draws; without a seed, of one that the system gives.

    Raises:
      ArgumentError: no seed within a function that is traced, which would draw the same numbers in every call.

    >>> stateful_rng(0).key().shape
    ()
    """
    if seed is None:
        if not is_evaluating():
            raise ArgumentError("stateful_rng() without a seed in a function that is traced", "pass a seed")
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    return StatefulPRNG(random.key(seed, impl=impl), new_ref(0))


__all__ = ["StatefulPRNG", "stateful_rng"]
__dir__: Callable[[], list[str]] = __all__.copy
