"""The printer of Mosaic GPU's modules: single operations, regions, PTX, as MLIR text.

Values are SSA names (`str`), each of which a thread has one number of. An `Int` is a position or an address: a Python
integer where it is known, else the name of an i32. What does nothing but give a result is printed once in a region.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..core.ir.array import ArrayLike
from ..lang.mlir.text import Lines, folded

Int = int | str


def number(value: ArrayLike, type_: str) -> str:
    """A number as the body of a constant, floats by their bits."""
    if type_ == "i1":
        return "true" if value else "false"
    if type_ in ("f32", "f16", "f64"):
        one = np.asarray(value).astype({"f32": np.float32, "f16": np.float16, "f64": np.float64}[type_])
        return "0x" + one.tobytes()[::-1].hex().upper()
    bits = int(type_[1:])
    low = int(value) & ((1 << bits) - 1)
    return str(low - (1 << bits) if low >> (bits - 1) else low)


class Printer(Lines):
    """Prints the body of one kernel."""

    prefix = "%v"  # of SSA names

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

    def constant(self, value: ArrayLike, type_: str = "i32") -> str:
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
        known = folded(op, a, b)
        if known is not None:
            return known
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
    def when(self, condition: str) -> Iterator[None]:
        """`scf.if` without results."""
        with self.region() as lines:
            yield
        self.close(f"scf.if {condition}", lines)
        self.line("}")

    def either(self, condition: str, taken: Callable[[], object], other: Callable[[], object]) -> None:
        """`scf.if` of two branches without results."""

        def run(body: Callable[[], object]) -> Any:
            body()
            return (), ()

        self.branches(condition, lambda: run(taken), lambda: run(other))

    def branch(self, condition: str, types: Sequence[str], taken: Callable[[], Sequence[str]],
               other: Callable[[], Sequence[str]]) -> list[str]:  # fmt: skip
        """`scf.if` with results."""
        return self.branches(condition, lambda: (taken(), types), lambda: (other(), types))

    def loop(self, low: Int, high: Int, carried: Sequence[str], types: Sequence[str],
             body: Callable[..., Sequence[str]]) -> list[str]:  # fmt: skip
        """`scf.for` over i32: `body(i, *carried) -> carried`; gives the last carried values."""
        return self.counted([self.name(x) for x in (low, high, 1)], carried, types, body)
