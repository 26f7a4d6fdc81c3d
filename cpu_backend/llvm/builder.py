"""LLVM IR as text: values of a scalar or a vector type, and a builder of one function.

    type ::= scalar | <lanes x scalar>        scalar ::= i1 | i8 | i16 | i32 | i64 | half | float | double | ptr

Operands may be Python numbers; a scalar beside a vector is repeated in every lane.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

FLOATS = ("half", "float", "double")
BYTES = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8, "ptr": 8}
_SUFFIX = {"half": "f16", "float": "f32", "double": "f64"}


def vector(scalar: str, lanes: int) -> str:
    """The type of `lanes` scalars; the scalar itself for 0."""
    return f"<{lanes} x {scalar}>" if lanes else scalar


def scalar_of(type_: str) -> str:
    return type_[1:-1].split(" x ")[1] if type_[0] == "<" else type_


def lanes_of(type_: str) -> int:
    """The lanes of a vector; 0 for a scalar."""
    return int(type_[1:].split(" ", 1)[0]) if type_[0] == "<" else 0


def with_scalar(type_: str, scalar: str) -> str:
    return vector(scalar, lanes_of(type_))


def suffix(type_: str) -> str:
    """A type as the names of intrinsics spell it."""
    scalar, lanes = scalar_of(type_), lanes_of(type_)
    return (f"v{lanes}" if lanes else "") + ("p0" if scalar == "ptr" else _SUFFIX.get(scalar, scalar))


def literal(number: Any, type_: str) -> str:
    """A number as text of a type."""
    scalar = scalar_of(type_)
    if scalar in ("float", "double"):
        number = float(number)
        if scalar == "float":
            number = struct.unpack("f", struct.pack("f", number))[0]
        text = f"0x{struct.unpack('Q', struct.pack('d', number))[0]:016X}"
    elif scalar == "half":
        text = f"0xH{struct.unpack('H', struct.pack('e', float(number)))[0]:04X}"
    elif scalar == "i1":
        text = "true" if number else "false"
    else:
        text = str(int(number))
    return f"splat ({scalar} {text})" if lanes_of(type_) else text


@dataclass(frozen=True, slots=True)
class Value:
    """An operand of instructions: its text, its type, and the builder that made it."""

    text: str
    type: str
    builder: Builder = field(repr=False)

    def __add__(self, other: Any) -> Value:
        return self.builder.binary("add", self, other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Value:
        return self.builder.binary("sub", self, other)

    def __rsub__(self, other: Any) -> Value:
        return self.builder.binary("sub", other, self)

    def __mul__(self, other: Any) -> Value:
        return self.builder.binary("mul", self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Value:
        return self.builder.binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Value:
        return self.builder.binary("div", other, self)

    @property
    def lanes(self) -> int:
        return lanes_of(self.type)

    @property
    def scalar(self) -> str:
        return scalar_of(self.type)


Int = int | Value


class Loop:
    """A loop that is being printed: `index`, the carried values of this turn, those of the `next`, and those after."""

    index: Value
    carried: list[Value]
    next: list[Value]

    def __init__(self, index: Value, carried: list[Value]):
        self.index, self.carried, self.next = index, carried, list(carried)
        self.out: list[Value] = []


class Builder:
    """One function. `features` are those of the machine, for instructions that not every one has."""

    name: str
    features: frozenset[str]
    result: tuple[str, str]
    linkage: str

    def __init__(self, name: str, parameters: Sequence[tuple[str, str]], features: frozenset[str] = frozenset()):
        self.name, self.features = name, features
        self.parameters: list[Value] = [Value(f"%{n}", t, self) for t, n in parameters]
        self.lines: list[str] = []
        self.slots: list[str] = []  # allocas, at the entry
        self.declared: set[str] = set()
        self.tables: dict[str, str] = {}
        self.block = "entry"
        self.always: Value | None = None  # a condition that holds, which LLVM does not know
        self.result, self.linkage = ("void", "void"), "internal"
        self._count = 0

    # ------------------------------------------------------------ text

    def name_of(self, prefix: str = "v") -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def emit(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def value(self, type_: str, text: str) -> Value:
        name = f"%{self.name_of()}"
        self.lines.append(f"  {name} = {text}")
        return Value(name, type_, self)

    def text(self) -> str:
        parameters = ", ".join(f"{p.type} {p.text}" for p in self.parameters)
        lines = "\n".join([*self.slots, *self.lines])
        type_, returned = self.result
        head = f"define {self.linkage} {type_} @{self.name}({parameters})"
        return f"{head} {{\nentry:\n{lines}\n  ret {returned}\n}}\n"

    # ------------------------------------------------------------ values

    def constant(self, number: Any, type_: str) -> Value:
        return Value(literal(number, type_), type_, self)

    def lane_numbers(self, lanes: int, scalar: str = "i64", step: int = 1) -> Value:
        inside = ", ".join(f"{scalar} {i * step}" for i in range(lanes))
        return Value(f"<{inside}>", vector(scalar, lanes), self)

    def lanes_below(self, count: int, lanes: int) -> Value:
        """The mask of the first lanes."""
        bits = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(lanes))
        return Value(f"<{bits}>", vector("i1", lanes), self)

    def splat(self, x: Any, lanes: int) -> Value:
        if not lanes or x.lanes:
            return x
        type_ = vector(x.type, lanes)
        one = self.value(type_, f"insertelement {type_} poison, {x.type} {x.text}, i32 0")
        return self.value(type_, f"shufflevector {type_} {one.text}, {type_} poison, <{lanes} x i32> zeroinitializer")

    def alike(self, *values: Any) -> list[Value]:
        """Operands as values of one type: numbers become constants, scalars are repeated."""
        known = [v for v in values if isinstance(v, Value)]
        widest = max(known, key=lambda v: v.lanes)
        return [self.splat(v, widest.lanes) if isinstance(v, Value) else self.constant(v, widest.type) for v in values]

    def binary(self, op: str, x: Any, y: Any, flags: str = "") -> Value:
        """`add`, `sub`, `mul` and `div` of either kind of number, or an instruction by its name."""
        if isinstance(x, int) and isinstance(y, Value) and not y.lanes and y.scalar not in FLOATS:
            folded = self._folded(op, y, x, True)
        elif isinstance(y, int) and isinstance(x, Value) and not x.lanes and x.scalar not in FLOATS:
            folded = self._folded(op, x, y, False)
        else:
            folded = None
        if folded is not None:
            return folded
        a, b = self.alike(x, y)
        name = f"f{op}" if a.scalar in FLOATS and op in ("add", "sub", "mul", "div") else op
        return self.value(a.type, f"{name}{' ' + flags if flags else ''} {a.type} {a.text}, {b.text}")

    def _folded(self, op: str, x: Value, number: int, first: bool) -> Value | None:
        """What an operation with 0 or 1 gives without an instruction."""
        if op == "add" and number == 0 or op == "sub" and number == 0 and not first or op == "mul" and number == 1:
            return x
        return self.constant(0, x.type) if op == "mul" and number == 0 else None

    def unary(self, op: str, x: Value) -> Value:
        return self.value(x.type, f"{op} {x.type} {x.text}")

    def negative(self, x: Value) -> Value:
        return self.unary("fneg", x) if x.scalar in FLOATS else 0 - x

    def cast(self, op: str, x: Value, scalar: str) -> Value:
        type_ = with_scalar(x.type, scalar)
        return x if type_ == x.type else self.value(type_, f"{op} {x.type} {x.text} to {type_}")

    def compare(self, how: str, x: Any, y: Any) -> Value:
        """A comparison by the predicate of `icmp` or `fcmp`."""
        a, b = self.alike(x, y)
        name = "fcmp" if a.scalar in FLOATS else "icmp"
        return self.value(with_scalar(a.type, "i1"), f"{name} {how} {a.type} {a.text}, {b.text}")

    def select(self, where: Value, x: Any, y: Any) -> Value:
        a, b = self.alike(x, y)
        if where.lanes:
            a, b = self.splat(a, where.lanes), self.splat(b, where.lanes)
        return self.value(a.type, f"select {where.type} {where.text}, {a.type} {a.text}, {b.type} {b.text}")

    def call(self, name: str, result: str, *operands: Value) -> Value:
        self.declare(name, result, *(x.type for x in operands))
        return self.value(result, f"call {result} @{name}({', '.join(f'{x.type} {x.text}' for x in operands)})")

    def run(self, name: str, *operands: Value) -> None:
        """A call that gives nothing."""
        self.declare(name, "void", *(x.type for x in operands))
        self.emit(f"call void @{name}({', '.join(f'{x.type} {x.text}' for x in operands)})")

    def prefetch(self, pointer: Value) -> None:
        """Have the line of an address in the first cache soon; the address may be any."""
        self.declare("llvm.prefetch.p0", "void", "ptr", "i32", "i32", "i32")
        self.emit(f"call void @llvm.prefetch.p0(ptr {pointer.text}, i32 0, i32 3, i32 1)")

    def run_defined(self, name: str, *operands: Value) -> None:
        """A call of a function of the same module."""
        self.emit(f"call void @{name}({', '.join(f'{x.type} {x.text}' for x in operands)})")

    def declare(self, name: str, result: str, *operands: str) -> None:
        self.declared.add(f"declare {result} @{name}({', '.join(operands)})")

    def intrinsic(self, name: str, *operands: Any) -> Value:
        """An intrinsic of operands of one type, which is its result's."""
        values = self.alike(*operands)
        return self.call(f"llvm.{name}.{suffix(values[0].type)}", values[0].type, *values)

    def fma(self, x: Any, y: Any, z: Any) -> Value:
        return self.intrinsic("fma", x, y, z)

    def shuffle(self, x: Value, y: Value, lanes: Sequence[int]) -> Value:
        """Lanes of two vectors, those of the second numbered after those of the first."""
        picked = ", ".join(f"i32 {i}" for i in lanes)
        return self.value(vector(x.scalar, len(lanes)), f"shufflevector {x.type} {x.text}, {y.type} {y.text}, "
                                                        f"<{len(lanes)} x i32> <{picked}>")  # fmt: skip

    def transposed(self, rows: Sequence[Value]) -> list[Value]:
        """The columns of a square of as many vectors as each has lanes, a power of two."""
        found, n, apart = list(rows), len(rows), 1
        while apart < n:
            low = [i if not i & apart else n + i - apart for i in range(n)]
            high = [i + apart if not i & apart else n + i for i in range(n)]
            for i in range(n):
                if not i & apart:
                    x, y = found[i], found[i + apart]
                    found[i], found[i + apart] = self.shuffle(x, y, low), self.shuffle(x, y, high)
            apart *= 2
        return found

    def extract(self, x: Value, lane: int) -> Value:
        return self.value(x.scalar, f"extractelement {x.type} {x.text}, i32 {lane}")

    # ------------------------------------------------------------ memory

    def offset(self, pointer: Value, elements: Int, scalar: str) -> Value:
        if elements == 0 and isinstance(elements, int):
            return pointer
        text = elements.text if isinstance(elements, Value) else str(elements)
        return self.value("ptr", f"getelementptr {scalar}, ptr {pointer.text}, i64 {text}")

    def load(self, pointer: Value, type_: str, align: int | None = None) -> Value:
        return self.value(type_, f"load {type_}, ptr {pointer.text}, align {align or BYTES[scalar_of(type_)]}")

    def store(self, x: Value, pointer: Value, align: int | None = None, streamed: bool = False) -> None:
        hint = ", !nontemporal !0" if streamed else ""
        self.emit(f"store {x.type} {x.text}, ptr {pointer.text}, align {align or BYTES[x.scalar]}{hint}")

    def masked_load(self, pointer: Value, mask: Value, other: Value) -> Value:
        type_, align = other.type, BYTES[other.scalar]
        self.declare(f"llvm.masked.load.{suffix(type_)}.p0", type_, "ptr", mask.type, type_)
        return self.value(type_, f"call {type_} @llvm.masked.load.{suffix(type_)}.p0(ptr align {align} {pointer.text}, "
                                 f"{mask.type} {mask.text}, {type_} {other.text})")  # fmt: skip

    def masked_store(self, x: Value, pointer: Value, mask: Value) -> None:
        """Lanes of a vector stored where a mask holds.

        LLVM 22 stores an element of narrowed lanes in its wide form where it sees that the mask has one lane: for
        elements of less than 4 bytes the mask depends on `always`.
        """
        if BYTES[x.scalar] < 4 and self.always is not None:
            mask = self.binary("and", mask, self.always)
        self.declare(f"llvm.masked.store.{suffix(x.type)}.p0", "void", x.type, "ptr", mask.type)
        self.emit(f"call void @llvm.masked.store.{suffix(x.type)}.p0({x.type} {x.text}, "
                  f"ptr align {BYTES[x.scalar]} {pointer.text}, {mask.type} {mask.text})")  # fmt: skip

    def _places(self, pointer: Value, offsets: Value, scalar: str) -> Value:
        type_ = vector("ptr", offsets.lanes)
        return self.value(type_, f"getelementptr {scalar}, ptr {pointer.text}, {offsets.type} {offsets.text}")

    def gather(self, pointer: Value, offsets: Value, mask: Value, other: Value) -> Value:
        type_, places = other.type, self._places(pointer, offsets, other.scalar)
        name = f"llvm.masked.gather.{suffix(type_)}.{suffix(places.type)}"
        self.declare(name, type_, places.type, mask.type, type_)
        return self.value(type_, f"call {type_} @{name}({places.type} align {BYTES[other.scalar]} {places.text}, "
                                 f"{mask.type} {mask.text}, {type_} {other.text})")  # fmt: skip

    def scatter(self, x: Value, pointer: Value, offsets: Value, mask: Value) -> None:
        places = self._places(pointer, offsets, x.scalar)
        name = f"llvm.masked.scatter.{suffix(x.type)}.{suffix(places.type)}"
        self.declare(name, "void", x.type, places.type, mask.type)
        self.emit(f"call void @{name}({x.type} {x.text}, {places.type} align {BYTES[x.scalar]} {places.text}, "
                  f"{mask.type} {mask.text})")  # fmt: skip

    def slot(self, scalar: str, count: int = 1) -> Value:
        """Memory of the function's own."""
        name = f"%{self.name_of('s')}"
        self.slots.append(f"  {name} = alloca [{count} x {scalar}], align 64")
        return Value(name, "ptr", self)

    def table(self, name: str, scalar: str, numbers: Sequence[Any]) -> Value:
        """Constant numbers in memory."""
        text = ", ".join(f"{scalar} {literal(n, scalar)}" for n in numbers)
        self.tables[name] = f"@{name} = internal constant [{len(numbers)} x {scalar}] [{text}], align 64"
        return Value(f"@{name}", "ptr", self)

    # ------------------------------------------------------------ control

    def label(self) -> str:
        return self.name_of("b")

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block: str = label

    def jump(self, label: str) -> None:
        self.emit(f"br label %{label}")

    def branch(self, test: Value, yes: str, no: str) -> None:
        self.emit(f"br i1 {test.text}, label %{yes}, label %{no}")

    @contextmanager
    def when(self, test: Value) -> Iterator[None]:
        """What runs only where a scalar holds."""
        yes, after = self.label(), self.label()
        self.branch(test, yes, after)
        self.start(yes)
        yield
        self.jump(after)
        self.start(after)

    def either(self, test: Value, yes: Callable[[], None], no: Callable[[], None]) -> None:
        first, second, after = self.label(), self.label(), self.label()
        self.branch(test, first, second)
        for label, part in ((first, yes), (second, no)):
            self.start(label)
            part()
            self.jump(after)
        self.start(after)

    @contextmanager
    def loop(
        self, low: Int, high: Int, step: int = 1, carried: Sequence[Value] = (), empty: bool = True
    ) -> Iterator[Loop]:
        """A loop over `range(low, high, step)`; `empty` says that there may be no turn."""
        head, after, before = self.label(), self.label(), self.block
        low, high = (x if isinstance(x, Value) else self.constant(x, "i64") for x in (low, high))
        if empty:
            self.branch(self.compare("slt", low, high), head, after)
        else:
            self.jump(head)
        index = Value(f"%{self.name_of()}", "i64", self)
        loop = Loop(index, [Value(f"%{self.name_of()}", x.type, self) for x in carried])
        self.start(head)
        mark = len(self.lines)
        yield loop
        following = index + step
        again, last = self.compare("slt", following, high), self.block
        self.branch(again, head, after)
        ends = [(index, low, following), *zip(loop.carried, carried, loop.next, strict=True)]
        self.lines[mark:mark] = [
            f"  {v.text} = phi {v.type} [{a.text}, %{before}], [{b.text}, %{last}]" for v, a, b in ends
        ]
        self.start(after)
        loop.out = [
            self.value(b.type, f"phi {b.type} [{a.text}, %{before}], [{b.text}, %{last}]")
            for a, b in zip(carried, loop.next, strict=True)
        ] if empty else list(loop.next)  # fmt: skip
