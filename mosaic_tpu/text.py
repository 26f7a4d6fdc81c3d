"""The printer of Mosaic text: SSA values, operations, regions, constants.

Operations are printed in MLIR's generic form, `"dialect.op"(%a) <{attributes}> : (types) -> types`, one line each;
constants stand once, at the top of their function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]
VMEM, SMEM, ANY, SEMAPHORE = (f"#tpu.memory_space<{s}>" for s in ("vmem", "smem", "any", "semaphore_mem"))


class SSA(NamedTuple):
    """A value of the text: its name, its shape (None: a scalar) and its element type."""

    name: str
    shape: Shape | None
    element: str

    @property
    def type(self) -> str:
        return type_text(self.shape, self.element)


class Mem(NamedTuple):
    """A memref: its name, the type's shape and element, and its memory space."""

    name: str
    shape: Shape
    element: str
    space: str

    @property
    def type(self) -> str:
        return f"memref<{''.join(f'{d}x' for d in self.shape)}{self.element}, {self.space}>"


def type_text(shape: Shape | None, element: str) -> str:
    return element if shape is None else f"vector<{''.join(f'{d}x' for d in shape)}{element}>"


def bits_of(element: str) -> int:
    """The width of an element type."""
    return 8 if element.startswith("f8") else 16 if element == "bf16" else int(element[1:])


def literal(value: Any, element: str) -> str:
    """A number as the text of an attribute of this element type, exact."""
    if element == "i1":
        return "true" if value else "false"
    if element[0] in "i":
        bits = int(element[1:]) if element != "index" else 64
        number = int(value) & (2**bits - 1)
        return str(number - 2**bits if number >> (bits - 1) else number)
    array = np.asarray(value, np.float32)
    if np.isfinite(array) and float(array) == int(array) and abs(float(array)) < 2**20 and not np.signbit(array):
        return f"{float(array):.1f}"
    return f"0x{array.tobytes()[::-1].hex().upper()}"


class Writer:
    """The lines of one function. A region's lines are printed separately and inserted into their operation."""

    counter: int

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[Any, tuple[str, SSA]] = {}
        self.counter = 0
        self.location = ""  # of the operations that follow: `loc(...)`, or nothing

    def fresh(self) -> str:
        self.counter += 1
        return f"%{self.counter}"

    def ops(self, name: str, operands: Sequence[Any], results: Sequence[tuple[Shape | None, str]], attributes: str = "",
            regions: str = "") -> list[SSA]:  # fmt: skip
        """Print an operation with any number of results."""
        outs = [SSA(self.fresh(), shape, element) for shape, element in results]
        left = f"{', '.join(o.name for o in outs)} = " if outs else ""
        properties = f" <{{{attributes}}}>" if attributes else ""
        inner = f" ({regions})" if regions else ""
        types = ", ".join(o.type for o in operands)
        gives = ", ".join(o.type for o in outs)
        gives = gives if len(outs) == 1 else f"({gives})"
        self.lines.append(f'{left}"{name}"({", ".join(o.name for o in operands)}){properties}{inner} : ({types}) -> '
                          f"{gives}{self.location}")  # fmt: skip
        return outs

    def op(self, name: str, operands: Sequence[Any], shape: Shape | None, element: str, attributes: str = "") -> SSA:
        """Print an operation with one result."""
        return self.ops(name, operands, [(shape, element)], attributes)[0]

    def constant(self, value: Any, element: str, shape: Shape | None = None) -> SSA:
        """A constant: a scalar, or a vector of one number."""
        text = literal(value, element)
        key = (text, element, shape)
        found = self.constants.get(key)
        if found is None:
            made = SSA(f"%c{len(self.constants)}", shape, element)
            whole = f"dense<{text}> : {made.type}" if shape is not None else \
                text if element == "i1" else f"{text} : {element}"  # fmt: skip
            line = f'{made.name} = "arith.constant"() <{{value = {whole}}}> : () -> {made.type}'
            found = self.constants[key] = (line, made)
        return found[1]

    def index(self, value: int) -> SSA:
        return self.constant(value, "index")

    def region(self, types: Sequence[tuple[Shape | None, str]], body: Callable[[list[SSA]], Sequence[SSA] | None],
               end: str = "scf.yield") -> str:  # fmt: skip
        """A region `{ ^bb0(args): ...; end }` whose operations are printed by `body`."""
        outer, self.lines = self.lines, []
        arguments = [SSA(self.fresh(), shape, element) for shape, element in types]
        results = body(arguments) or ()
        self.ops(end, results, [])
        head = ", ".join(f"{a.name}: {a.type}" for a in arguments)
        text = "{\n" + (f"^bb0({head}):\n" if types else "") + "\n".join(self.lines) + "\n}"
        self.lines = outer
        return text

    def function(self, name: str, arguments: Sequence[Any], results: Sequence[str], attributes: str = "") -> str:
        """The lines as a function; the last of them returns."""
        head = ", ".join(f"{a.name}: {a.type}" for a in arguments)
        gives = f" -> ({', '.join(results)})" if results else ""
        given = f" attributes {{{attributes}}}" if attributes else ""
        lines = [*(line for line, _ in self.constants.values()), *self.lines]
        return f"func.func @{name}({head}){gives}{given} {{\n" + "\n".join(lines) + "\n}"
