"""MLIR text: lines, SSA names, the regions and loops of dialect scf, and integer arithmetic with known operands."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Names = Sequence[str]
_FOLD: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b, "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b, "divsi": lambda a, b: a // b, "remsi": lambda a, b: a % b,
    "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b, "shrui": lambda a, b: a >> b,
    "shli": lambda a, b: a << b, "minsi": min, "maxsi": max,
}  # fmt: skip
_NEUTRAL = {"addi": 0, "subi": 0, "muli": 1, "divui": 1, "divsi": 1, "ori": 0, "xori": 0, "shrui": 0, "shli": 0}


def folded(op: str, a: Any, b: Any) -> Any:
    """The result of integer arithmetic where known operands (Python integers) decide it, else None."""
    if isinstance(a, int) and isinstance(b, int):
        return _FOLD[op](a, b)
    if isinstance(b, int) and b == _NEUTRAL.get(op):
        return a
    if isinstance(a, int) and op in ("addi", "muli", "ori", "xori") and a == _NEUTRAL[op]:
        return b
    if op in ("muli", "andi") and 0 in (a, b) or op in ("remui", "remsi") and b == 1:
        return 0
    return None


class Lines:
    """The lines of one function. `made` has the results of pure operations in this region and those around it."""

    prefix = "%"

    count: int

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.made: dict[Any, Any] = {}
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"{self.prefix}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    @contextlib.contextmanager
    def region(self) -> Iterator[list[str]]:
        """Lines of an inner region; its results are not known outside."""
        outer = self.lines, self.made
        self.lines, self.made = [], dict(self.made)
        inner = self.lines
        try:
            yield inner
        finally:
            self.lines, self.made = outer

    def close(self, head: str, lines: Names) -> None:
        self.lines += [head + " {", *("  " + line for line in lines)]

    def end(self, values: Names, types: Names) -> None:
        if types:
            self.line(f"scf.yield {', '.join(values)} : {', '.join(types)}")

    def branches(self, condition: str, taken: Callable[[], tuple[Names, Names]],
                 other: Callable[[], tuple[Names, Names]]) -> list[str]:  # fmt: skip
        """`scf.if`: each branch gives values and their types."""
        with self.region() as yes:
            values, types = taken()
            self.end(values, types)
        with self.region() as no:
            self.end(*other())
        if not types:
            self.close(f"scf.if {condition}", yes)
        else:
            name = self.fresh()
            self.close(f"{name}:{len(types)} = scf.if {condition} -> ({', '.join(types)})", yes)
        if no or types:
            self.close("} else", no)
        self.line("}")
        return [f"{name}#{i}" for i in range(len(types))] if types else []

    def counted(self, bounds: Names, carried: Names, types: Names, body: Callable[..., Names], of: str = " : i32",
                attributes: str = "") -> list[str]:  # fmt: skip
        """`scf.for` over a start, an end and a step: `body(i, *carried) -> carried`; gives the last carried values."""
        i, name = self.fresh(), self.fresh()
        inner = [self.fresh() for _ in carried]
        with self.region() as lines:
            self.end(body(i, *inner), types)
        head = f"scf.for {i} = {bounds[0]} to {bounds[1]} step {bounds[2]}"
        if carried:
            pairs = ", ".join(f"{a} = {b}" for a, b in zip(inner, carried, strict=True))
            head = f"{name}:{len(types)} = {head} iter_args({pairs}) -> ({', '.join(types)})"
        self.close(head + of, lines)
        self.line("}" + attributes)
        return [f"{name}#{k}" for k in range(len(types))]

    def repeat(self, carried: Names, types: Names, before: Callable[..., tuple[str, Names]],
               after: Callable[..., Names]) -> list[str]:  # fmt: skip
        """`scf.while`: `before(*carried)` gives whether there is another iteration, and the operands of `after`."""
        name, first, second = self.fresh(), [self.fresh() for _ in carried], [self.fresh() for _ in carried]
        shown = ", ".join(types)
        of_types = f" : {shown}" if types else ""
        with self.region() as test:
            condition, values = before(*first)
            self.line(f"scf.condition({condition}) {', '.join(values)}{of_types}")
        with self.region() as iteration:
            self.line(f"scf.yield {', '.join(after(*second))}{of_types}")
        pairs = ", ".join(f"{a} = {b}" for a, b in zip(first, carried, strict=True))
        given = f"({pairs}) : ({shown}) -> ({shown})" if types else " : () -> ()"
        self.close(f"{f'{name}:{len(types)} = ' if types else ''}scf.while {given}", test)
        self.line("} do {")
        if types:
            self.line(f"^bb0({', '.join(f'{a}: {t}' for a, t in zip(second, types, strict=True))}):")
        self.lines += ["  " + line for line in iteration]
        self.line("}")
        return [f"{name}#{k}" for k in range(len(types))]
