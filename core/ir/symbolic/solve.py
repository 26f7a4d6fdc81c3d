"""Solve for the values of symbols that make the stated sizes equal the actual ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...support.errors import ExportError
from .dim import CONSTANT, Dim, Size, evaluated, is_symbolic, symbols

if TYPE_CHECKING:
    from .scope import SymbolicScope

Named = tuple[str, Size, Size]  # how a size is called in messages, what was stated, what came


def undetermined(sizes: Sequence[Size]) -> list[str]:
    """The symbols of some sizes that these sizes, were they known, would not determine."""
    stated = [s for s in sizes if isinstance(s, Dim)]
    found: dict[str, Any] = {}
    while new := next(filter(None, (one_unknown(s, found) for s in stated)), None):
        found[new[0]] = 1
    return [name for name in symbols(stated) if name not in found]


def one_unknown(size: Dim, known: Mapping[str, Any]) -> tuple[str, int] | None:
    """The one symbol that is not known of `c * symbol + what is known`, and c; None for other sizes."""
    left = [name for name in symbols([size]) if name not in known]
    if len(left) != 1:
        return None
    terms = [(m, c) for m, c in size.terms if left[0] in symbols([Dim(((m, c),), size.scope)])]
    if len(terms) != 1 or terms[0][0] != ((left[0], 1),):
        return None
    return left[0], terms[0][1]


def solved(sizes: Sequence[Named]) -> dict[str, Size]:
    """The value of each symbol.

    Raises:
      ExportError: no values fit; the message names the size.
    """
    values: dict[str, Size] = {}
    left = [named for named in sizes if isinstance(named[1], Dim)]
    while found := next(((named, one) for named in left if (one := one_unknown(named[1], values))), None):
        (name, stated, came), (symbol, c) = found
        rest = came - evaluated(_known_part(stated, symbol), values)
        value = rest // c
        if rest % c != 0 or not _may_be_one(value):
            raise ExportError(f"{name} is {came}, and was exported as {stated}",
                              f"a size for which {symbol} is an integer of 1 or more")  # fmt: skip
        values[symbol] = value
    for name, stated, came in sizes:
        wanted = evaluated(stated, values)
        if wanted != came:
            where = ", ".join(f"{k} = {v}" for k, v in values.items() if k in symbols([stated]))
            raise ExportError(f"{name} is {came}, and was exported as {stated}" + (f", where {where}" if where else ""),
                              f"pass an array of that size, {wanted}")  # fmt: skip
    return values


def _known_part(size: Dim, name: str) -> Size:
    total: Size = 0
    for monomial, c in size.terms:
        if monomial != ((name, 1),):
            total = total + (c if monomial == CONSTANT else Dim(((monomial, c),), size.scope))
    return total


def _may_be_one(value: Size) -> bool:
    return value.scope.is_positive(value - 1) is not False if is_symbolic(value) else value >= 1


def check_constraints(scope: SymbolicScope, values: dict[str, Size]) -> None:
    """Raise `ExportError` where values of symbols break a constraint of their scope."""
    for constraint in scope.constraints:
        if not constraint.holds(values):
            names = set(symbols([constraint.left, constraint.right]))
            where = ", ".join(f"{k} = {v}" for k, v in values.items() if k in names)
            raise ExportError(f"the constraint {constraint.text!r} of the export does not hold where {where}",
                              "pass arrays of other sizes")  # fmt: skip
