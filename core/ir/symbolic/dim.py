"""`Dim`: the size of an axis as a polynomial of symbols with integer coefficients, in a normal form.

    Dim      ::= sum of coefficient * Monomial            never a constant: those are Python integers
    Monomial ::= product of Factor ^ power
    Factor   ::= name | Operation(floordiv | mod | max | min, two sizes)

Equal polynomials have equal terms, so that comparing two sizes is comparing their terms. What is known of a symbol is
in its scope (`core/ir/symbolic/scope.py`), which decides comparisons.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from ...support.errors import InconclusiveDimensionError, ShapeError
from ..dimension import dimension

if TYPE_CHECKING:
    from .scope import SymbolicScope

Size = Any  # int | Dim


class Operation(NamedTuple):
    """An operation of sizes that is no polynomial."""

    name: str
    left: Size
    right: Size

    def __str__(self) -> str:
        return f"{self.name}({self.left}, {self.right})"


Factor = str | Operation
Monomial = tuple[tuple[Factor, int], ...]
Terms = dict[Monomial, int]
CONSTANT: Monomial = ()


class Dim:
    """A size that is a polynomial of symbols."""

    __slots__ = ("scope", "terms", "_hash")
    symbolic = True  # what tells a Dim from a number without importing this module
    terms: tuple[tuple[Monomial, int], ...]
    scope: Any

    def __init__(self, terms: tuple[tuple[Monomial, int], ...], scope: SymbolicScope):
        self.terms, self.scope = terms, scope
        self._hash = hash((terms, id(scope)))

    @staticmethod
    def largest(*sizes: Size) -> Size:
        """`max_dim`, for code that does not import this module."""
        return max_dim(*sizes)

    @staticmethod
    def smallest(*sizes: Size) -> Size:
        """`min_dim`, for code that does not import this module."""
        return min_dim(*sizes)

    # ------------------------------------------------------------ arithmetic

    def __add__(self, other: int) -> Size:
        if (terms := self._terms_of(other)) is None:
            return NotImplemented
        return made(_sum(dict(self.terms), terms), self.scope)

    __radd__ = __add__

    def __neg__(self) -> Size:
        return made({m: -c for m, c in self.terms}, self.scope)

    def __pos__(self) -> Size:
        return self

    def __sub__(self, other: int) -> Size:
        if (terms := self._terms_of(other)) is None:
            return NotImplemented
        return made(_sum(dict(self.terms), terms, -1), self.scope)

    def __rsub__(self, other: int) -> Size:
        return NotImplemented if self._terms_of(other) is None else -self + other

    def __mul__(self, other: int) -> Size:
        if (terms := self._terms_of(other)) is None:
            return NotImplemented
        return made(_product(dict(self.terms), terms), self.scope)

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Size:
        if not isinstance(power, int) or power < 0:
            return NotImplemented
        result: Size = 1
        for _ in range(power):
            result = self * result
        return result

    def __floordiv__(self, other: int) -> Size:
        return NotImplemented if self._terms_of(other) is None else divided(self, other, self.scope)[0]

    def __rfloordiv__(self, other: int) -> Size:
        return NotImplemented if self._terms_of(other) is None else divided(other, self, self.scope)[0]

    def __mod__(self, other: int) -> Size:
        return NotImplemented if self._terms_of(other) is None else divided(self, other, self.scope)[1]

    def __rmod__(self, other: int) -> Size:
        return NotImplemented if self._terms_of(other) is None else divided(other, self, self.scope)[1]

    def __divmod__(self, other: int) -> Any:
        return NotImplemented if self._terms_of(other) is None else divided(self, other, self.scope)

    def __rdivmod__(self, other: Any) -> Any:
        return NotImplemented if self._terms_of(other) is None else divided(other, self, self.scope)

    def __truediv__(self, other: Any) -> Any:
        return dimension(self) / other

    def __rtruediv__(self, other: int) -> Any:
        return other / dimension(self)

    # ------------------------------------------------------------ comparisons

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim):
            if self._hash == other._hash and self.scope is other.scope and self.terms == other.terms:
                return True
            if self.scope is not other.scope:
                return False
        elif not isinstance(other, int):
            return False
        low, high = self.scope.bounds(self - other)
        return low == high == 0

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return self._hash

    def __ge__(self, other: int) -> bool:
        return self._decided(other, ">=", lambda x: x)

    def __gt__(self, other: int) -> bool:
        return self._decided(other, ">", lambda x: x - 1)

    def __le__(self, other: int) -> bool:
        return self._decided(other, "<=", lambda x: -x)

    def __lt__(self, other: int) -> bool:
        return self._decided(other, "<", lambda x: -x - 1)

    def __bool__(self) -> bool:
        return self > 0 if self.scope.bounds(self)[0] >= 0 else self != 0

    def _decided(self, other: int, sign: str, positive: Callable[..., Any]) -> bool:
        if self._terms_of(other) is None:
            return NotImplemented
        answer = self.scope.is_positive(positive(self - other))
        if answer is None:
            raise InconclusiveDimensionError(
                f"whether {self} {sign} {other} is not known",
                f"say so where the symbols are made: symbolic_shape(..., constraints=[{f'{self} {sign} {other}'!r}]); "
                f"known is {self.scope.known()}")  # fmt: skip
        return answer

    # ------------------------------------------------------------ as numbers

    def _no_number(self) -> InconclusiveDimensionError:
        return InconclusiveDimensionError(
            f"the size {self} is used as a number, and is not known while the program is traced",
            "use an operation that takes sizes, or export the function for that size alone",
        )

    def __index__(self) -> int:
        raise self._no_number()

    def __int__(self) -> int:
        raise self._no_number()

    def __float__(self) -> float:
        raise self._no_number()

    def _terms_of(self, other: int) -> Terms | None:
        if isinstance(other, Dim):
            if other.scope is not self.scope:
                raise ShapeError(f"the sizes {self} and {other} are of two scopes",
                                 "make the symbols of one function in one `SymbolicScope`")  # fmt: skip
            return dict(other.terms)
        if isinstance(other, bool) or not hasattr(other, "__index__") or getattr(other, "ndim", 0):
            return None
        try:
            return {CONSTANT: operator.index(other)}
        except TypeError:
            return None

    # ------------------------------------------------------------ text

    def __str__(self) -> str:
        shown = ""
        for monomial, c in sorted(self.terms, key=lambda t: _order(t[0]), reverse=True):
            text = show(monomial)
            number = "" if abs(c) == 1 and text else str(abs(c))
            part = "*".join(filter(None, [number, text]))
            shown += f"{'- ' if c < 0 else '+ '}{part} " if shown else f"{'-' if c < 0 else ''}{part} "
        return shown.strip()

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise TypeError(f"the size {self} has no meaning outside of its scope")


def show(monomial: Monomial) -> str:
    """A monomial as text; empty for the constant."""
    return "*".join(str(f) if p == 1 else f"{f}^{p}" for f, p in monomial)


def _order(monomial: Monomial) -> Any:
    return sum(p for _, p in monomial), show(monomial)


def is_symbolic(size: Any) -> bool:
    """Whether a size is not a number.

    >>> from tilewright import export
    >>> (b,) = export.symbolic_shape('b')
    >>> export.is_symbolic_dim(b), export.is_symbolic_dim(3)
    (True, False)
    """
    return isinstance(size, Dim)


def symbol(name: str, scope: SymbolicScope) -> Dim:
    """A size by name."""
    return Dim(((((name, 1),), 1),), scope)


# ---------------------------------------------------------------------------- terms


def _sum(left: Terms, right: Mapping[Monomial, int], times: int = 1) -> Terms:
    for monomial, c in right.items():
        left[monomial] = left.get(monomial, 0) + times * c
    return left


def _times(left: Monomial, right: Monomial) -> Monomial:
    powers: dict[Factor, int] = dict(left)
    for factor, p in right:
        powers[factor] = powers.get(factor, 0) + p
    return tuple(sorted(powers.items(), key=lambda item: str(item[0])))


def _over(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """A monomial divided by another one; None if it is no multiple of it."""
    powers = dict(monomial)
    for factor, p in divisor:
        powers[factor] = powers.get(factor, 0) - p
    if any(p < 0 for p in powers.values()):
        return None
    return tuple(item for item in powers.items() if item[1])


def _product(left: Mapping[Monomial, int], right: Mapping[Monomial, int]) -> Terms:
    result: Terms = {}
    for a, c in left.items():
        for b, d in right.items():
            _sum(result, {_times(a, b): c * d})
    return result


def terms_of(size: Size) -> Terms:
    """The terms of any size."""
    return dict(size.terms) if isinstance(size, Dim) else {CONSTANT: int(size)}


def made(terms: Terms, scope: SymbolicScope) -> Size:
    """The size of some terms, what the scope says is equal put in its place."""
    for left, right in scope.equal.items():
        for monomial in [m for m in terms if terms[m] and m != CONSTANT]:
            rest = _over(monomial, left)
            if rest is not None:
                _sum(terms, _product({rest: terms.pop(monomial)}, terms_of(right)))
    kept = {m: c for m, c in terms.items() if c}
    if not kept:
        return 0
    if kept.keys() == {CONSTANT}:
        return kept[CONSTANT]
    return Dim(tuple(sorted(kept.items(), key=lambda t: _order(t[0]))), scope)


# ---------------------------------------------------------------------------- division, extrema


def divided(size: Size, by: Size, scope: SymbolicScope) -> tuple[Size, Size]:
    """Floor division and remainder: what divides exactly is taken out, the rest is an `Operation`."""
    if not isinstance(by, Dim) and by == 0:
        raise ZeroDivisionError(f"{size} divided by zero")
    quotient: Terms = {}
    rest, divisor = terms_of(size), terms_of(by)
    lead = max(divisor, key=_order)
    for monomial in sorted(rest, key=_order, reverse=True):
        shared = _over(monomial, lead)
        whole = abs(rest.get(monomial, 0)) // abs(divisor[lead])
        if shared is None or not whole:
            continue
        part = {shared: whole if (rest[monomial] > 0) == (divisor[lead] > 0) else -whole}
        _sum(quotient, part)
        _sum(rest, _product(part, divisor), -1)
    left = made(rest, scope)
    if not isinstance(left, Dim) and not isinstance(by, Dim):
        return made(_sum(quotient, {CONSTANT: left // by}), scope), left % by
    if not isinstance(left, Dim) and left == 0:
        return made(quotient, scope), 0
    if scope.is_positive(left) and scope.is_positive(by - left - 1):
        return made(quotient, scope), left
    over = made({((Operation("floordiv", left, by), 1),): 1}, scope)
    whole_size = made(_sum(quotient, terms_of(over)), scope)
    return whole_size, made({((Operation("mod", left, by), 1),): 1}, scope)


def _extreme(name: str, sizes: Iterable[Size], pick: Callable[..., Any]) -> Size:
    result, *others = sizes
    for other in others:
        scope = next((s.scope for s in (result, other) if isinstance(s, Dim)), None)
        if scope is None:
            result = pick(result, other)
            continue
        greater = scope.is_positive(result - other)
        if greater is None and scope.is_positive(other - result):
            greater = False
        if greater is not None:
            result = result if greater == (name == "max") else other
        else:
            left, right = sorted((result, other), key=str)
            result = made({((Operation(name, left, right), 1),): 1}, scope)
    return result


def max_dim(*sizes: Size) -> Size:
    """The largest of some sizes, as an operation where it is not known which that is.

    >>> from tilewright import export
    >>> (b,) = export.symbolic_shape('b')
    >>> export.max_dim(b, b + 2)
    b + 2
    """
    return _extreme("max", sizes, max)


def min_dim(*sizes: Size) -> Size:
    """The smallest of some sizes, as an operation where it is not known which that is.

    >>> from tilewright import export
    >>> (b,) = export.symbolic_shape('b')
    >>> export.min_dim(b, b + 2)
    b
    """
    return _extreme("min", sizes, min)


APPLY: dict[str, Any] = {
    "floordiv": operator.floordiv, "mod": operator.mod, "max": max_dim, "min": min_dim,
}  # fmt: skip


# ---------------------------------------------------------------------------- with values


def symbols(sizes: Iterable[Size]) -> Iterator[str]:
    """The names in some sizes, in the order in which they come, each once."""
    seen: set[str] = set()
    for name in _names(sizes):
        if name not in seen:
            seen.add(name)
            yield name


def _names(sizes: Iterable[Size]) -> Iterator[str]:
    for size in sizes:
        for monomial, _ in size.terms if isinstance(size, Dim) else ():
            for factor, _ in monomial:
                if isinstance(factor, str):
                    yield factor
                else:
                    yield from _names((factor.left, factor.right))


def evaluated(size: Size, values: Mapping[str, Size]) -> Size:
    """A size with its symbols' values (numbers, or sizes of another scope) put in."""
    if not isinstance(size, Dim):
        return size
    total: Size = 0
    for monomial, c in size.terms:
        factors = [_factor(f, values) ** p for f, p in monomial]
        total = total + c * math.prod(factors)
    return total


def _factor(factor: Factor, values: Mapping[str, Size]) -> Size:
    if isinstance(factor, str):
        return values[factor]
    return APPLY[factor.name](evaluated(factor.left, values), evaluated(factor.right, values))
