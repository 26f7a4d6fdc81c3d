"""`Kernel`: grid x block maps x body, as a value.

    Kernel ::= grid, blocks, scratch, body            body: Program(ids, refs)
    Block  ::= array type, block sizes, index map     map:  Program(ids, prefetched refs) -> block index

`extents` are of the grid axes whose sizes are computed: (axis, Program(ids, prefetched refs) -> size), where the entry
of `grid` is only the most that the size may be (`lang/transforms/dynamic_grid.py`).

The inputs of the body are the cell's ids (int32 scalars, one per grid axis), then Refs: prefetched
scalars, inputs, outputs, scratch. That ids are inputs like any other is what lets one transformation
run another's body at an id of its choice.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...core.ir.printer import show_program
from ...core.ir.program import Literal, Program, Var
from ...core.ir.types import ArrayType, MemorySpace, RefType
from ...core.support.errors import Source, TilewrightError
from ...core.tracing.trace import eval_program, trace_program
from .block_spec import BlockAxis

ID = ArrayType((), np.dtype(np.int32))
UNBOUNDED = 2**31 - 1  # the entry in `grid` of an axis whose computed size nothing bounds
EDGE = "edge"  # the fill that repeats the last valid element: what primal operands of a derivative load past the end


def show_grid(grid: Sequence[int], computed: Sequence[int] = ()) -> str:
    """A grid as text: a computed size is `traced`, with its bound where it has one."""
    text = [str(n) if a not in computed else "traced" if n == UNBOUNDED else f"traced<={n}" for a, n in enumerate(grid)]
    return f"({', '.join(text)}{',' if len(text) == 1 else ''})"


def program_key(program: Program) -> Any:
    """What makes two Programs equal: their structure, with variables numbered in order of appearance."""
    numbers: dict[Var, int] = {}

    def number(var: Var) -> Any:
        return numbers.setdefault(var, len(numbers))

    def atom(a: Literal | Var) -> Any:
        return a.key if type(a) is Literal else number(a)

    def value(v: Any) -> Any:
        if isinstance(v, Program):
            return program_key(v)
        return tuple(map(value, v)) if type(v) is tuple else v

    inputs = tuple((number(v), v.type) for v in program.inputs)
    constants = tuple((number(v), id(x)) for v, x in zip(program.constants, program.values, strict=True))
    eqns = tuple(
        (e.primitive, tuple(map(atom, e.inputs)), tuple((number(v), v.type) for v in e.outputs),
         tuple((k, value(e.params[k])) for k in sorted(e.params)))
        for e in program.eqns
    )  # fmt: skip
    return (inputs, constants, eqns, tuple(map(atom, program.outputs)))


@dataclass(frozen=True, eq=False)
class Block:
    """One operand of a kernel and how it is cut.

    `axes` are those of the block, along each axis of the array. `index_map` is None for the whole array.
    """

    name: str
    array: ArrayType
    axes: tuple[BlockAxis, ...]
    index_map: Program | None
    space: MemorySpace = MemorySpace.VMEM
    fill: Any = None
    buffers: int | None = None  # blocks in flight; None: the target's choice
    loose: bool = False  # an output that may hold what nothing has written: a state saved on entry to every cell

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple([a.size for a in self.axes])

    @functools.cached_property
    def squeezed(self) -> tuple[bool, ...]:
        return tuple([a.squeezed for a in self.axes])

    @functools.cached_property
    def element(self) -> tuple[bool, ...]:
        return tuple([a.element for a in self.axes])

    @functools.cached_property
    def padding(self) -> tuple[tuple[int, int], ...]:
        return tuple([a.padding for a in self.axes])

    @functools.cached_property
    def seen(self) -> tuple[int, ...]:
        """The axes of the array that the body sees."""
        return tuple([d for d, a in enumerate(self.axes) if not a.squeezed])

    @functools.cached_property
    def shape(self) -> tuple[int, ...]:
        """The shape of the block as the body sees it."""
        return tuple([a.size for a in self.axes if not a.squeezed])

    @property
    def ref_type(self) -> RefType:
        return RefType(ArrayType(self.shape, self.array.dtype), self.space)

    @property
    def steps(self) -> tuple[int, ...]:
        """How many elements one step of the index is, along every axis."""
        return tuple([a.step for a in self.axes])

    @functools.cached_property
    def key(self) -> Any:
        index_map = None if self.index_map is None else program_key(self.index_map)
        return self.name, self.array, self.axes, index_map, self.space, str(self.fill), self.buffers

    def index(self, *args: Any) -> Sequence[Any]:
        """What the index map gives for ids and prefetched Refs."""
        return [np.int32(0)] * self.array.ndim if self.index_map is None else eval_program(self.index_map, *args)

    def stacked(self, sizes: Sequence[int], index_map: Program) -> Block:
        """The block of an array with more leading axes, of which a cell sees one element."""
        array = ArrayType((*sizes, *self.array.shape), self.array.dtype)
        return replace(self, array=array, axes=(BlockAxis(1, True),) * len(sizes) + self.axes, index_map=index_map)

    def show(self) -> str:
        sizes = ",".join("*" if a.squeezed else f"{a.size}@" if a.element else str(a.size) for a in self.axes)
        fill = "" if self.fill is None else f" fill={self.fill}"
        return f"{self.name}: {self.array.show()} block ({sizes}) {self.space}{fill}"


def ragged_axes(block: Block) -> list[int]:
    """The axes of an array along which a block may reach past its end."""
    if 0 in block.sizes:
        return []
    return [d for d, (n, axis) in enumerate(zip(block.array.shape, block.axes, strict=True)) if axis.ragged(n)]


def edged(block: Block) -> Block:
    """A block that loads valid elements of its operand in the ragged tail too, so that results there are numbers."""
    return replace(block, fill=EDGE) if block.fill is None and ragged_axes(block) else block


def full_block(name: str, array: ArrayType, space: MemorySpace = MemorySpace.VMEM) -> Block:
    """The Block that is its whole array, in every cell."""
    return Block(name, array, tuple(map(BlockAxis, array.shape)), None, space)


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel, ready for any transformation or backend. Two are equal if they are the same in structure."""

    name: str
    grid: tuple[int, ...]
    prefetch: tuple[ArrayType, ...]
    inputs: tuple[Block, ...]
    outputs: tuple[Block, ...]
    scratch: tuple[RefType, ...]
    body: Program
    aliases: tuple[tuple[int, int], ...] = ()  # (input, output), counted without the prefetched operands
    semantics: tuple[str, ...] | None = None  # "parallel" or "arbitrary" per grid axis
    interpret: Any = False  # or True, or InterpretParams
    settings: tuple[tuple[str, Any], ...] = ()
    extents: tuple[tuple[int, Program], ...] = ()
    source: Source | None = field(default=None, compare=False)
    scratch_names: tuple[str, ...] = field(default=(), compare=False)  # as the author's body calls them

    @property
    def symbolic(self) -> bool:
        """Whether a size of the grid or of an operand is not known (`core/ir/symbolic`)."""
        blocks = (*self.inputs, *self.outputs)
        return any([type(n) is not int for sizes in (self.grid, *(b.array.shape for b in blocks)) for n in sizes])

    @functools.cached_property
    def key(self) -> Any:
        return (
            self.name, self.grid, self.prefetch, tuple(b.key for b in self.inputs), tuple(b.key for b in self.outputs),
            self.scratch, program_key(self.body), self.aliases, self.semantics, self.interpret, self.settings,
            tuple((a, program_key(p)) for a, p in self.extents),
        )  # fmt: skip

    @functools.cached_property
    def _hash(self) -> int:
        return hash(self.key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Kernel) and self._hash == other._hash and self.key == other.key)

    def replace(self, **changes: Any) -> Kernel:
        return replace(self, **changes)

    @property
    def blocks(self) -> tuple[Block, ...]:
        return self.inputs + self.outputs

    @property
    def in_types(self) -> list[ArrayType]:
        return [*self.prefetch, *(b.array for b in self.inputs)]

    @property
    def out_types(self) -> list[ArrayType]:
        return [b.array for b in self.outputs]

    @property
    def cells(self) -> int:
        """How many cells the grid has: at most, where a size is computed; what nothing bounds counts as one."""
        return math.prod(n for n in self.grid if n != UNBOUNDED)

    @property
    def long_axes(self) -> tuple[int, ...]:
        """The grid axes with more than one cell."""
        return tuple(a for a, n in enumerate(self.grid) if n > 1)

    @property
    def computed(self) -> tuple[int, ...]:
        """The grid axes whose sizes are computed at the call."""
        return tuple(a for a, _ in self.extents)

    @property
    def grid_text(self) -> str:
        return show_grid(self.grid, self.computed)

    @property
    def splits(self) -> tuple[int, int, int, int, int]:
        """Where ids, prefetched, input, output and scratch Refs end among the inputs of the body."""
        ids = len(self.grid)
        prefetch = ids + len(self.prefetch)
        inputs = prefetch + len(self.inputs)
        outputs = inputs + len(self.outputs)
        return ids, prefetch, inputs, outputs, outputs + len(self.scratch)

    def scratch_name(self, position: int) -> str:
        """What messages call the scratch at a position among the inputs of the body."""
        number = position - self.splits[3]
        return self.scratch_names[number] if number < len(self.scratch_names) else str(number)

    def parts(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any], list[Any], list[Any]]:
        """Values for the inputs of the body, split into ids, prefetched, inputs, outputs, scratch."""
        a, b, c, d, _ = self.splits
        values = list(values)
        return values[:a], values[a:b], values[b:c], values[c:d], values[d:]

    def error[E: TilewrightError](self, kind: type[E], what: str, remedy: str, source: Source | None = None) -> E:
        """An error of this kernel, at a line of its body or else where it is called."""
        return kind(f"kernel {self.name}: {what}", remedy, source or self.source)

    def show_param(self, indent: str = "") -> str:
        pad = "\n" + indent + "    "
        lines = [f"kernel {self.name} grid={self.grid_text}"]
        if self.semantics:
            lines.append(f"semantics={self.semantics}")
        if self.aliases:
            lines.append(f"aliases={self.aliases}")
        for axis, program in self.extents:
            lines += [f"extent {axis}", show_program(program, indent + "      ").strip()]
        for kind, blocks in (("in", self.inputs), ("out", self.outputs)):
            for block in blocks:
                lines.append(f"{kind} {block.show()}")
                if block.index_map is not None:
                    lines.append(show_program(block.index_map, indent + "      ").strip())
        lines += [f"scratch {s.show()}" for s in self.scratch]
        lines.append(show_program(self.body, indent + "    ").strip())
        return pad + pad.join(lines)

    def __repr__(self) -> str:
        return self.show_param().strip()


def show_size(kernel: Kernel, axis: int) -> str:
    """The size of one grid axis as text."""
    return show_grid([kernel.grid[axis]], [0] if axis in kernel.computed else []).strip("(,)")


def trace_map(grid: Sequence[int], prefetch: Sequence[ArrayType], fun: Callable[..., Sequence[Any]]) -> Program:
    """An index map as a Program of ids and prefetched Refs."""
    types = [ID] * len(grid) + [RefType(t, MemorySpace.SMEM) for t in prefetch]
    return trace_program(fun, types, "index_map")
