"""The printer of Mosaic GPU's modules: single operations, regions, PTX, as MLIR text.

Values are SSA names (`str`), each of which a thread has one number of. An `Int` is a position or an address: a Python
integer where it is known, else the name of an i32. What does nothing but give a result is printed once in a region.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

Int = int | str
_FOLD: dict[str, Callable[[int, int], int]] = {
    "addi": lambda a, b: a + b, "subi": lambda a, b: a - b, "muli": lambda a, b: a * b, "divui": lambda a, b: a // b,
    "remui": lambda a, b: a % b, "divsi": lambda a, b: a // b, "remsi": lambda a, b: a % b,
    "andi": lambda a, b: a & b, "ori": lambda a, b: a | b, "xori": lambda a, b: a ^ b, "shrui": lambda a, b: a >> b,
    "shli": lambda a, b: a << b, "minsi": min, "maxsi": max,
}  # fmt: skip
_NEUTRAL = {"addi": 0, "subi": 0, "muli": 1, "divui": 1, "divsi": 1, "ori": 0, "xori": 0, "shrui": 0, "shli": 0}


def number(value: Any, type_: str) -> str:
    """A number as the body of a constant, floats by their bits."""
    if type_ == "i1":
        return "true" if value else "false"
    if type_ in ("f32", "f16", "f64"):
        one = np.asarray(value).astype({"f32": np.float32, "f16": np.float16, "f64": np.float64}[type_])
        return "0x" + one.tobytes()[::-1].hex().upper()
    bits = int(type_[1:])
    low = int(value) & ((1 << bits) - 1)
    return str(low - (1 << bits) if low >> (bits - 1) else low)


class Printer:
    """Prints the body of one kernel."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.made: dict[Any, Any] = {}  # results of pure operations in this region and those around it
        self.count = 0

    def fresh(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(text)

    def op(self, text: str) -> str:
        """`%n = text`, whatever it does."""
        name = self.fresh()
        self.lines.append(f"{name} = {text}")
        return name

    def pure(self, text: str) -> str:
        """`%n = text`, unless it is known already."""
        name = self.made.get(text)
        if name is None:
            name = self.made[text] = self.op(text)
        return name

    def constant(self, value: Any, type_: str = "i32") -> str:
        body = number(value, type_)
        return self.pure(f"arith.constant {body}" if type_ == "i1" else f"arith.constant {body} : {type_}")

    # ------------------------------------------------------------ integers

    def name(self, x: Int) -> str:
        return x if isinstance(x, str) else self.constant(x)

    def short(self, x: Int) -> str:
        """The low 16 bits."""
        return self.pure(f"arith.trunci {x} : i32 to i16") if isinstance(x, str) else self.constant(x, "i16")

    def int(self, op: str, a: Int, b: Int) -> Int:
        """i32 arithmetic of positions and addresses, folded where operands are known."""
        if isinstance(a, int) and isinstance(b, int):
            return _FOLD[op](a, b)
        if isinstance(b, int) and b == _NEUTRAL.get(op):
            return a
        if isinstance(a, int) and op in ("addi", "muli", "ori", "xori") and a == _NEUTRAL[op]:
            return b
        if op in ("muli", "andi") and 0 in (a, b) or op in ("remui", "remsi") and b == 1:
            return 0
        return self.pure(f"arith.{op} {self.name(a)}, {self.name(b)} : i32")

    def add(self, *xs: Int) -> Int:
        known = sum(x for x in xs if isinstance(x, int))
        total: Int = 0
        for x in xs:
            if isinstance(x, str):
                total = self.int("addi", total, x)
        return self.int("addi", total, known)

    def mul(self, a: Int, b: Int) -> Int:
        return self.int("muli", a, b)

    def compare(self, how: str, a: Int, b: Int) -> str:
        """A comparison of two i32: eq, ne, slt, sge, ult, ..."""
        return self.pure(f"arith.cmpi {how}, {self.name(a)}, {self.name(b)} : i32")

    # ------------------------------------------------------------ PTX

    def asm(self, ptx: str, constraints: str = "", operands: Sequence[str] = (), types: Sequence[str] = (),
            results: Sequence[str] = (), pure: bool = False) -> list[str]:  # fmt: skip
        """An instruction of PTX: `$i` are results, then operands; gives the results."""
        out = "()" if not results else results[0]
        if len(results) > 1:
            out = f"!llvm.struct<({', '.join(results)})>"
        effects = "" if pure else "has_side_effects "
        text = (f'llvm.inline_asm {effects}asm_dialect = att "{ptx}", "{constraints}" {", ".join(operands)} : '
                f"({', '.join(types)}) -> {out}")  # fmt: skip
        if not results:
            self.line(text)
            return []
        whole = self.pure(text) if pure else self.op(text)
        if len(results) == 1:
            return [whole]
        return [self.pure(f"llvm.extractvalue {whole}[{i}] : {out}") for i in range(len(results))]

    # ------------------------------------------------------------ regions

    @contextlib.contextmanager
    def region(self) -> Iterator[list[str]]:
        """Lines of an inner region; what is made in it is not known outside."""
        outer = self.lines, self.made
        self.lines, self.made = [], dict(self.made)
        inner = self.lines
        try:
            yield inner
        finally:
            self.lines, self.made = outer

    def _close(self, head: str, lines: Sequence[str]) -> None:
        self.lines += [head + " {", *("  " + line for line in lines)]

    @contextlib.contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """`scf.if` without results."""
        with self.region() as lines:
            yield
        self._close(f"scf.if {condition}", lines)
        self.line("}")

    def either(self, condition: str, taken: Callable[[], None], other: Callable[[], None]) -> None:
        with self.region() as yes:
            taken()
        with self.region() as no:
            other()
        self._close(f"scf.if {condition}", yes)
        self._close("} else", no)
        self.line("}")

    def branch(self, condition: str, types: Sequence[str], taken: Callable[[], Sequence[str]],
               other: Callable[[], Sequence[str]]) -> list[str]:  # fmt: skip
        """`scf.if` with results."""
        regions = []
        for body in (taken, other):
            with self.region() as lines:
                values = list(body())
                self.line(f"scf.yield {', '.join(values)} : {', '.join(types)}")
            regions.append(lines)
        name = self.fresh()
        self._close(f"{name}:{len(types)} = scf.if {condition} -> ({', '.join(types)})", regions[0])
        self._close("} else", regions[1])
        self.line("}")
        return [f"{name}#{i}" for i in range(len(types))]

    def loop(self, low: Int, high: Int, carried: Sequence[str], types: Sequence[str],
             body: Callable[..., Sequence[str]]) -> list[str]:  # fmt: skip
        """`scf.for` over i32: `body(i, *carried) -> carried`; gives what is carried last."""
        bounds = [self.name(x) for x in (low, high, 1)]
        i, name = self.fresh(), self.fresh()
        inner = [self.fresh() for _ in carried]
        with self.region() as lines:
            values = list(body(i, *inner))
            if carried:
                self.line(f"scf.yield {', '.join(values)} : {', '.join(types)}")
        head = f"scf.for {i} = {bounds[0]} to {bounds[1]} step {bounds[2]}"
        if carried:
            pairs = ", ".join(f"{a} = {b}" for a, b in zip(inner, carried, strict=True))
            head = f"{name}:{len(types)} = {head} iter_args({pairs}) -> ({', '.join(types)})"
        self._close(f"{head} : i32", lines)
        self.line("}")
        return [f"{name}#{k}" for k in range(len(types))]

    def repeat(self, carried: Sequence[str], types: Sequence[str], before: Callable[..., tuple[str, Sequence[str]]],
               after: Callable[..., Sequence[str]]) -> list[str]:  # fmt: skip
        """`scf.while`: `before(*carried)` gives whether there is another turn, and what `after` takes and gives."""
        name, first, second = self.fresh(), [self.fresh() for _ in carried], [self.fresh() for _ in carried]
        shown = ", ".join(types)
        of_types = f" : {shown}" if types else ""
        with self.region() as asked:
            condition, values = before(*first)
            self.line(f"scf.condition({condition}) {', '.join(values)}{of_types}")
        with self.region() as turn:
            if types:
                turn.append(f"^bb0({', '.join(f'{a}: {t}' for a, t in zip(second, types, strict=True))}):")
            self.line(f"scf.yield {', '.join(after(*second))}{of_types}")
        pairs = ", ".join(f"{a} = {b}" for a, b in zip(first, carried, strict=True))
        given = f"({pairs}) : ({shown}) -> ({shown})" if types else " : () -> ()"
        self._close(f"{f'{name}:{len(types)} = ' if types else ''}scf.while {given}", asked)
        self._close("} do", turn)
        self.line("}")
        return [f"{name}#{k}" for k in range(len(types))]
