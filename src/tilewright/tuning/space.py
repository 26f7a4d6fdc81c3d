"""What may be chosen: parameters with the values of each, as lists or by rules, and what of their product is legal."""

from __future__ import annotations

import inspect
import itertools
import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ..core.support.errors import ArgumentError, ArgumentTypeError

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
      ArgumentError: there is no configuration. ArgumentTypeError: it is no space.
    """
    given = space(*args, **kwargs) if callable(space) else space
    check_kind(given)
    if isinstance(given, Mapping):
        values = {n: _values(n, v, args, kwargs) for n, v in given.items()}
        found = [dict(zip(values, row, strict=True)) for row in _product(list(values.values()))]
    else:
        found = [dict(c) for c in given]
    if not found:
        raise ArgumentError(f"autotune: the space {given!r} has no configuration", "give at least one")
    return found if where is None else _legal(found, where)


def check_kind(space: Any) -> None:
    """Refuse what is no space.

    Raises:
      ArgumentTypeError: neither a dict, nor a sequence of dicts, nor a function.
    """
    plain = isinstance(space, Sequence) and all(isinstance(c, Mapping) for c in space)
    if not (callable(space) or isinstance(space, Mapping) or plain):
        raise ArgumentTypeError(
            f"autotune: the space is {space!r}",
            'give the values of each parameter, `{"block": [64, 128]}`, or a list of dicts',
        )


def _legal(found: list[Configuration], where: Callable[..., bool]) -> list[Configuration]:
    names = inspect.signature(where).parameters
    for name, p in names.items():
        if p.default is p.empty and p.kind is not p.VAR_KEYWORD and name not in found[0]:
            raise ArgumentError(f"autotune: `where` asks for {name!r}, which the space does not choose",
                                f"it may name {', '.join(found[0])}")  # fmt: skip
    legal = [c for c in found if where(**{n: c[n] for n in names if n in c})]
    if not legal:
        raise ArgumentError(f"autotune: `where` refuses all {len(found)} configurations of the space",
                            "let it be true of one at least")  # fmt: skip
    return legal


def _values(name: str, given: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
    found: Any = given(*args, **kwargs) if callable(given) else given
    if isinstance(found, str) or not isinstance(found, Iterable):
        raise ArgumentTypeError(f"autotune: the values of {name!r} are {found!r}", f"give a list: [{found!r}]")
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
