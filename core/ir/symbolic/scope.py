"""Symbols and what is known of them: scopes, constraints, the text of sizes, and deciding comparisons.

A comparison is decided by intervals: each symbol is 1 or more, each operation has bounds, and constraints
(those given, and those that define the operations) are subtracted, times a number, where that cancels a term, a few at
a time. It is sound and not complete: what it cannot decide is an error that names the comparison.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ...support.errors import ArgumentError, ArgumentTypeError, ShapeError
from .dim import APPLY, CONSTANT, Dim, Monomial, Operation, Size, evaluated, made, symbol

DEPTH = 3  # constraints that are combined, at most
_SIGNS = {ast.GtE: ">=", ast.LtE: "<=", ast.Gt: ">", ast.Lt: "<", ast.Eq: "=="}
_COMPARE = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt, "==": operator.eq}
Interval = tuple[float, float]


class Constraint(NamedTuple):
    """A comparison of two sizes that holds in a scope, and its text."""

    text: str
    sign: str
    left: Size
    right: Size

    def holds(self, values: Mapping[str, Size]) -> bool:
        """Whether it holds for some values of the symbols."""
        return _COMPARE[self.sign](evaluated(self.left, values), evaluated(self.right, values))


class SymbolicScope:
    """Symbols of one function, with the constraints that hold of them.

    >>> scope = SymbolicScope(["b >= 8", "mod(b, 4) == 0"])
    >>> b, t = symbolic_shape("b, t", scope=scope)
    >>> b >= 4, b % 4, (b * t) // b
    (True, 0, t)
    """

    def __init__(self, constraints: Sequence[str] = ()):
        if isinstance(constraints, str):
            raise ArgumentError(f"constraints are {constraints!r}", "pass a sequence of strings")
        self.equal: dict[Monomial, Size] = {}
        self.positive: list[Dim] = []  # sizes that are 0 or more
        self.constraints: list[Constraint] = []
        self._found: dict[Any, float] = {}  # the least that a size can be, by its terms and how far was searched
        for text in constraints:
            self._add(text)
        self._found.clear()  # of what was asked before the last constraint

    def _add(self, text: str) -> None:
        try:
            node = ast.parse(text.replace("^", "**").strip(), mode="eval").body
        except SyntaxError:
            raise _unreadable(text) from None
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or type(node.ops[0]) not in _SIGNS:
            raise ArgumentError(f"the constraint {text!r}", "a comparison by >=, <=, >, < or ==, such as 'b >= 8'")
        sign = _SIGNS[type(node.ops[0])]
        left, right = _size(node.left, self, text), _size(node.comparators[0], self, text)
        self.constraints.append(Constraint(text, sign, left, right))
        difference = {">=": left - right, "<=": right - left, ">": left - right - 1, "<": right - left - 1}.get(sign)
        if sign != "==":
            if isinstance(difference, Dim):
                self.positive.append(difference)
            elif difference is not None and difference < 0:
                raise ArgumentError(f"the constraint {text!r} cannot hold", "take it away")
        elif isinstance(left, Dim) and len(left.terms) == 1 and left.terms[0][1] == 1:
            self.equal[left.terms[0][0]] = right
        else:
            raise ArgumentError(f"the constraint {text!r}", "the left of == is one symbol, product or operation")

    def known(self) -> str:
        """The constraints as text."""
        return "that each symbol is 1 or more" + "".join(f", {c.text}" for c in self.constraints)

    # ------------------------------------------------------------ deciding

    def is_positive(self, size: Size) -> bool | None:
        """Whether a size is 0 or more; None where that is not known."""
        if not isinstance(size, Dim):
            return size >= 0
        if self._least(size, DEPTH) >= 0:
            return True
        return False if self._least(-size - 1, DEPTH) >= 0 else None

    def bounds(self, size: Size) -> Interval:
        """Between which numbers a size lies."""
        if not isinstance(size, Dim):
            return size, size
        return self._least(size, DEPTH), -self._least(-size, DEPTH)

    def _least(self, size: Size, depth: int) -> float:
        if not isinstance(size, Dim):
            return size
        found = self._found.get((size.terms, depth))
        if found is None:
            found = self._found[size.terms, depth] = self._searched(size, depth)
        return found

    def _searched(self, size: Dim, depth: int) -> float:
        best = sum(_scaled(_monomial_range(m, self, depth), c)[0] for m, c in size.terms)
        if depth == 0 or best >= 0:
            return best
        terms = dict(size.terms)
        for constraint in (*self.positive, *_defining(size, self)):
            for monomial, c in constraint.terms:
                mine = terms.get(monomial, 0)
                if monomial == CONSTANT or mine * c <= 0:
                    continue
                rest = abs(c) * size - abs(mine) * constraint
                least = self._least(rest, depth - 1)
                best = max(best, math.ceil(least / abs(c)) if math.isfinite(least) else least)
                if best >= 0:
                    return best
        return best


def _scaled(interval: Interval, by: float) -> Interval:
    low, high = (0 if by == 0 else by * end for end in interval)
    return min(low, high), max(low, high)


def _monomial_range(monomial: Monomial, scope: SymbolicScope, depth: int) -> Interval:
    low, high = 1.0, 1.0
    for factor, power in monomial:
        a, b = (1.0, math.inf) if isinstance(factor, str) else _operation_range(factor, scope, depth)
        for _ in range(power):
            ends = [0 if 0 in (x, y) else x * y for x in (low, high) for y in (a, b)]
            low, high = min(ends), max(ends)
    return low, high


def _operation_range(operation: Operation, scope: SymbolicScope, depth: int) -> Interval:
    if depth == 0:
        return -math.inf, math.inf

    def interval(size: Size) -> Interval:
        return scope._least(size, depth - 1), -scope._least(-size, depth - 1)

    (a, b), (c, d) = interval(operation.left), interval(operation.right)
    if operation.name == "max":
        return max(a, c), max(b, d)
    if operation.name == "min":
        return min(a, c), min(b, d)
    if operation.name == "mod" and c > 0:
        return 0, d - 1
    if operation.name == "floordiv" and c > 0:
        return _floor(a, d if a >= 0 else c), _floor(b, c if b >= 0 else d)
    return -math.inf, math.inf


def _floor(number: float, by: float) -> float:
    """Floor division of numbers that may be infinite, by a positive one."""
    if math.isinf(number):
        return number
    return (0 if number >= 0 else -1) if math.isinf(by) else number // by


def _defining(size: Dim, scope: SymbolicScope) -> Iterator[Dim]:
    """What the operations in a size are, as sizes that are 0 or more."""
    for monomial, _ in size.terms:
        for factor, _ in monomial:
            if isinstance(factor, Operation):
                it = made({((factor, 1),): 1}, scope)
                if factor.name == "floordiv":
                    found = [factor.left - factor.right * it, factor.right * it - factor.left + factor.right - 1]
                else:
                    over = it if factor.name == "max" else -it
                    sides = (factor.left, factor.right) if factor.name in ("max", "min") else ()
                    found = [over - side if factor.name == "max" else over + side for side in sides]
                yield from (f for f in found if isinstance(f, Dim))


# ---------------------------------------------------------------------------- text


LONGEST, HIGHEST, MOST_TERMS = 4096, 64, 256  # characters of the text of a size, its powers, its terms


def _unreadable(text: str) -> ShapeError:
    return ShapeError(f"{text!r} is not a size", "a sum of products of names and integers, with floordiv(a, b), "
                      "mod(a, b), max(a, b), min(a, b) and powers by ^")  # fmt: skip


def _bounded(size: Size, text: str) -> Size:
    """A size; raises `ShapeError` where it is too large to be one, as a text from elsewhere may have it."""
    if abs(size) >> 63 if isinstance(size, int) else len(size.terms) > MOST_TERMS:
        raise _unreadable(text)
    return size


def _size(node: ast.AST, scope: SymbolicScope, text: str) -> Size:
    """The size that a piece of syntax stands for."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return made(dict(symbol(name, scope).terms), scope)
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            return -_size(inner, scope, text)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int(power))) if power >= 0:
            if power > HIGHEST:
                raise _unreadable(text)
            found, base = 1, _size(left, scope, text)
            for _ in range(power):
                found = _bounded(found * base, text)
            return found
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_size(left, scope, text), _size(right, scope, text)), text)
        case ast.Call(func=ast.Name(id=name), args=[left, right]) if name in APPLY:
            return APPLY[name](_size(left, scope, text), _size(right, scope, text))
    raise _unreadable(text)


_BINARY: dict[type, Any] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: APPLY["floordiv"], ast.Mod: APPLY["mod"],
}  # fmt: skip


def parse(text: str, scope: SymbolicScope) -> Size:
    """The size that a text stands for.

    Raises:
      ShapeError: the text is not one of a size.
    """
    if len(text) > LONGEST:
        raise _unreadable(f"{text[:40]}...")
    try:
        return _size(ast.parse(text.replace("^", "**").strip(), mode="eval").body, scope, text)
    except (SyntaxError, ValueError, ZeroDivisionError, RecursionError, MemoryError) as error:
        if isinstance(error, ShapeError):
            raise
        raise _unreadable(text) from None


def _parts(text: str) -> list[str]:
    """A text cut at the commas that are in no brackets."""
    parts, depth = [""], 0
    for c in text:
        depth += (c in "(") - (c in ")")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return parts if parts[-1].strip() else parts[:-1]


def symbolic_dim_bounds(dimension: int) -> Interval:
    """Between which numbers, both included, a size is known to be; infinite where nothing is known.

    Raises:
      ArgumentTypeError: what is given is no size.

    >>> (b,) = symbolic_shape("b", constraints=["b <= 64"])
    >>> symbolic_dim_bounds(2 * b + 1)
    (3, 129)
    """
    if not isinstance(dimension, (Dim, int)):
        raise ArgumentTypeError(f"symbolic_dim_bounds of {dimension!r}", "pass a size: of `symbolic_shape`, or an int")
    if not isinstance(dimension, Dim):
        return dimension, dimension
    low, high = (int(end) if math.isfinite(end) else end for end in dimension.scope.bounds(dimension))
    return low, high


def symbolic_shape(
    shape_spec: str | None, *, constraints: Sequence[str] = (), scope: SymbolicScope | None = None,
    like: Sequence[Any] | None = None,
) -> tuple[Size, ...]:  # fmt: skip
    """The sizes that a text names, such as "b, 2*t, 128": symbols are integers of 1 or more.

    `constraints` are comparisons of sizes that hold. Sizes that are used together are of one `scope`, which has its own
    constraints. `_` and `...` in the text stand for the sizes of `like`.

    Raises:
      ShapeError: the text is not one of sizes. ArgumentError: a constraint that is no comparison, or cannot hold.

    >>> b, n = symbolic_shape("b, 2*b + 1")
    >>> n - b, b * n, n > b
    (b + 1, 2*b^2 + b, True)
    """
    if scope is None:
        scope = SymbolicScope(constraints)
    elif constraints:
        raise ArgumentError("constraints beside a scope", "give them to the SymbolicScope")
    text = (shape_spec or "...").strip()
    if text.startswith("(") and text.endswith(")") and text.count("(") == 1:
        text = text[1:-1]
    parts = [p.strip() for p in _parts(text)]
    if "..." in parts:
        at, known = parts.index("..."), list(like or ())
        rest = len(known) - (len(parts) - 1)
        if like is None or rest < 0:
            raise ShapeError(f"the shape {shape_spec!r} of {like!r}", "give `like` as many sizes as it stands for")
        parts[at : at + 1] = ["_"] * rest
    if "_" in parts and (like is None or len(like) != len(parts)):
        raise ShapeError(f"the shape {shape_spec!r} of {like!r}", "give `like`, of as many sizes, for each _")
    return tuple(like[i] if p == "_" else parse(p, scope) for i, p in enumerate(parts))  # type: ignore[index]
