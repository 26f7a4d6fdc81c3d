"""What may be chosen: parameters with the values of each, as lists or by rules, and what of their product is legal."""

from __future__ import annotations

import inspect
import itertools
import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..core.errors import ArgumentError

Configuration = dict[str, Any]
Space = Mapping[str, Any] | Sequence[Configuration] | Callable[..., Any]
MOST = 2**18  # configurations that are looked at; of a larger space this many are drawn


def powers_of_two(least: int, most: int) -> list[int]:
    """The powers of two from `least` to `most`.

    >>> powers_of_two(16, 100)
    [16, 32, 64]
    """
    return [2**k for k in range(max(most, 1).bit_length()) if least <= 2**k <= most]


def divisors(n: int, least: int = 1, most: int | None = None) -> list[int]:
    """The divisors of n from `least` to `most`.

    >>> divisors(12, 2, 6)
    [2, 3, 4, 6]
    """
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return [d for d in sorted({*small, *(n // d for d in small)}) if least <= d <= (n if most is None else most)]


def permutations(items: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Every order of some items, of the axes of a grid say.

    >>> permutations("ij")
    [('i', 'j'), ('j', 'i')]
    """
    return list(itertools.permutations(items))


def configurations(
    space: Space, args: Sequence[Any], kwargs: Mapping[str, Any], where: Callable[..., bool] | None = None
) -> list[Configuration]:
    """Every configuration of a space that `where` takes.

    A space is a dict of the values of each parameter (their product), a list of configurations, or a function of the
    arguments that gives either; values may be a function of the arguments too. `where` is called with the parameters
    that it names. Of a product of more than 2**18 configurations that many are drawn, always the same ones.

    Raises:
      ArgumentError: there is no configuration.
    """
    given = space(*args, **kwargs) if callable(space) else space
    if isinstance(given, Mapping):
        values = {n: _values(v, args, kwargs) for n, v in given.items()}
        found = [dict(zip(values, row, strict=True)) for row in _product(list(values.values()))]
    else:
        found = [dict(c) for c in given]
    if where is not None:
        names = inspect.signature(where).parameters
        found = [c for c in found if where(**{n: c[n] for n in names if n in c})]
    if not found:
        raise ArgumentError(f"autotune: the space {given!r} has no configuration", "give at least one")
    return found


def _values(given: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    found: Any = given(*args, **kwargs) if callable(given) else given
    return list(found)


def _product(values: Sequence[Sequence[Any]]) -> Iterator[tuple[Any, ...]]:
    if math.prod(map(len, values)) <= MOST:
        yield from itertools.product(*values)
        return
    draw, seen = random.Random(0), set[tuple[int, ...]]()
    while len(seen) < MOST:
        row = tuple(draw.randrange(len(v)) for v in values)
        if row not in seen:
            seen.add(row)
            yield tuple(v[i] for v, i in zip(values, row, strict=True))


def names_of(space: Space) -> set[str]:
    """The parameters that a space is known to choose; none where it depends on the arguments."""
    if callable(space):
        return set()
    return {name for one in ([space] if isinstance(space, Mapping) else space) for name in one}
