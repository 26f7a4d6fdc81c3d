"""What a body's equations become before code: nodes that say how an element is made, and roots that have to happen.

    Node ::= number | iota | load(memory, index) | map(rule, nodes) | view(node, places) | reduce(monoid, node) | dot
    Root ::= store(memory, index, node) | reduce | keep(node in memory) | dot

A node is computed where an element of it is wanted; it is in memory only where a root has put it there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.primitives.refs.state_primitives import Index
from ..llvm.builder import Value

Shape = tuple[int, ...]
# By dtype: how an element is stored, and how it is in registers.
STORED = {
    "bool": "i8", "int8": "i8", "uint8": "i8", "int16": "i16", "uint16": "i16", "int32": "i32", "uint32": "i32",
    "int64": "i64", "uint64": "i64", "float16": "half", "bfloat16": "i16", "float32": "float", "float64": "double",
}  # fmt: skip
LINE = 64  # bytes of a cache line
HELD = STORED | {"bool": "i1", "float16": "float", "bfloat16": "float"}


def row_major(shape: Sequence[int]) -> Shape:
    """The distance of neighbours along each axis, in elements."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


@dataclass(eq=False)
class Memory:
    """Elements at `base`, `strides` apart along each axis.

    `limits` are, for axes along which a block may reach out of its array, the first element that is inside, if that
    may not be the block's own, and the number of those up to the array's end; what is read beyond is `fill`.
    `fixed` says that nothing writes to it. `streamed` says that stores of whole aligned vectors bypass the caches:
    `base` and all strides but the last are multiples of `LINE` bytes. Memories of one `buffer` are the same elements:
    an operand and the result that is written in its place.
    """

    name: str
    dtype: np.dtype
    shape: Shape
    strides: Shape
    base: Value
    limits: tuple[tuple[Value | None, Value] | None, ...] = ()
    fill: Any = None
    fixed: bool = False
    streamed: bool = False
    buffer: int | None = None

    def same(self, other: Memory) -> bool:
        """Whether the other memory has the same elements."""
        return self is other or self.buffer is not None and self.buffer == other.buffer

    @property
    def ragged(self) -> bool:
        return any(limit is not None for limit in self.limits)

    def viewed(self, shape: Shape) -> Memory:
        """Contiguous memory in another shape."""
        return Memory(self.name, self.dtype, shape, row_major(shape), self.base, fixed=self.fixed)


@dataclass(eq=False)
class Node:
    """A value of some shape. `place` is memory that is to have its elements, `memory` the same once it has."""

    shape: Shape
    dtype: np.dtype
    operands: tuple[Node, ...] = ()
    place: Memory | None = field(default=None, kw_only=True)
    memory: Memory | None = field(default=None, kw_only=True)

    @property
    def size(self) -> int:
        return math.prod(self.shape)


@dataclass(eq=False)
class Number(Node):
    """One number in every element."""

    value: Any = 0


class Held(Node):
    """A scalar that the code around has."""


@dataclass(eq=False)
class Iota(Node):
    """Each element's place along an axis."""

    axis: int = 0


@dataclass(eq=False)
class Load(Node):
    """A part of a memory. Operands: positions, then a mask and another value where it is false, if there are any."""

    source: Memory = None  # type: ignore[assignment]
    index: Index = Index()
    masked: bool = False

    @property
    def positions(self) -> tuple[Node, ...]:
        return self.operands[: len(self.index.dynamic)]

    @property
    def mask(self) -> Node | None:
        return self.operands[len(self.positions)] if self.masked else None

    @property
    def other(self) -> Node | None:
        rest = self.operands[len(self.positions) + self.masked :]
        return rest[0] if rest else None


@dataclass(eq=False)
class Map(Node):
    """An element of elements: `rule(emitter, node, values)`."""

    rule: Callable[..., Value] = None  # type: ignore[assignment]
    params: dict[str, Any] = field(default_factory=dict)
    cost: int = 1


@dataclass(eq=False)
class View(Node):
    """Elements of the first operand at other places: for each of its axes (result axis or None, start, step).

    An axis that `starts` names has its start from a later operand, a scalar, brought to where the part is inside.
    """

    places: tuple[tuple[int | None, int, int], ...] = ()
    starts: tuple[tuple[int, int], ...] = ()  # (axis of the operand, number of the operand)


@dataclass(frozen=True)
class Monoid:
    """How elements are combined, what with nothing, and how lanes are."""

    name: str

    def neutral(self, dtype: np.dtype) -> Any:
        if self.name in ("add", "or", "xor"):
            return 0
        if self.name == "mul":
            return 1
        if self.name == "and":
            return True if dtype.kind == "b" else -1
        low = self.name == "max"
        if dtype.kind == "b":
            return not low
        if dtype.kind in "iu":
            info = np.iinfo(dtype)
            return info.min if low else info.max
        return -math.inf if low else math.inf


@dataclass(eq=False)
class Reduce(Node):
    """The first operand's elements along some of its axes combined."""

    axes: tuple[int, ...] = ()
    monoid: Monoid = Monoid("add")

    @property
    def kept(self) -> tuple[int, ...]:
        return tuple(d for d in range(len(self.operands[0].shape)) if d not in self.axes)


@dataclass(eq=False)
class Dot(Node):
    """A product of two operands: contracted and batch axes of each, as `dot_general` has them."""

    contracted: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    batch: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


@dataclass(eq=False)
class Accumulate(Node):
    """For each element of the operand all up to it along an axis combined; from the end on with `reverse`."""

    axis: int = 0
    monoid: Monoid = Monoid("add")
    reverse: bool = False


# ---------------------------------------------------------------------------- roots


@dataclass(eq=False)
class Root:
    """Something that has to happen: over the axes `domain`, `value` is computed."""

    value: Node

    @property
    def domain(self) -> Shape:
        return self.value.shape


@dataclass(eq=False)
class Store(Root):
    """A part of a memory replaced, or added to."""

    target: Memory
    index: Index
    positions: tuple[Node, ...] = ()
    mask: Node | None = None
    add: bool = False

    @property
    def repeated(self) -> bool:
        """Whether something may be added to one element several times."""
        return self.add and bool(self.index.takes)


@dataclass(eq=False)
class Keep(Root):
    """A value put into memory of its own."""

    target: Memory


@dataclass(eq=False)
class Fold(Root):
    """A reduction; into memory too, if `target` is there."""

    target: Memory | None = None

    @property
    def node(self) -> Reduce:
        assert isinstance(self.value, Reduce)
        return self.value

    @property
    def domain(self) -> Shape:
        return self.value.operands[0].shape


@dataclass(eq=False)
class Apart(Root):
    """What has code of its own, into memory."""

    target: Memory | None = None


@dataclass(eq=False)
class Product(Apart):
    """A product of matrices; with `store`, which uses it, in its place: then it is nowhere in memory."""

    store: Store | None = None


class Cumulative(Apart):
    """A cumulative operation along an axis."""
