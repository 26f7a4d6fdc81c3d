"""Tensor descriptors: tiles that a GPU's copy engine moves (TMA, from sm_90 on), where else each element has a pointer.

A descriptor says where an array lies and how large a tile is; an access names the tile's first element. What is outside
of the array reads as zero and is not written. Descriptors are made once, at the top of the program, in scratch memory
that the launch gives it. The engine wants the last axis whole in memory, all other strides in multiples of 16 bytes,
and tiles of 256 elements along an axis at most, with 16 bytes or more along the last.

What the engine reads and writes is not ordered with what threads do, nor one of its writes with another. So no array is
described that a program both reads and writes, or writes twice at one place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.ir.program import Program, Var
from ..core.ir.types import FAR as UNCUT
from ..core.ir.types import INT32, INT64, ArrayType, is_bool, is_float, is_key
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.refs.state_primitives import Index, Point, Span, Take, get_p, swap_p
from ..lang.analysis.index_maps import map_of
from ..lang.kernel.kernel import EDGE, Block
from ..lang.kernel.traverse import inner_programs
from ..lang.loopnest.plan import Plan, stays_in
from ..lang.targets.target import Target
from .builders import INT8, add, as_value, convert, spread
from .pointers import FAR, Window, places_of
from .text import Printer, Value, power, spell

RANK = 5  # of a descriptor
SIZE = 256  # of a tile along an axis
ALIGNED = 16  # bytes
REACH = 2**40  # bytes that strides span


@dataclass(frozen=True)
class Described:
    """The operands that descriptors move: numbers of inputs, and for each output how many loops may be around a store.

    An output is None where threads store it.
    """

    inputs: frozenset[int]
    outputs: tuple[int | None, ...]

    def stores(self, output: int, loops: int) -> bool:
        """Whether a store to an output within some loops, from the outermost on, may go through its descriptor."""
        most = self.outputs[output]
        return most is not None and loops <= most


def described(plan: Plan, target: Target, asked: bool | None) -> Described:
    """What descriptors move in a kernel: all that they can where `asked`, nothing where it is False.

    Where it is None: matrices of 16-bit floats that go into a product as they are. What is compiled then has the same
    matrix instructions and stages, mostly fewer registers, and no more shared memory to speak of. With other dtypes it
    has more, an operand being transposed there for the product; results gain little, and some take more of it too.
    """
    k, none = plan.kernel, Described(frozenset(), (None,) * len(plan.kernel.outputs))
    if asked is False or not target.copy_engine:
        return none
    refs, first = k.body.inputs, k.splits[1]
    wanted = set(refs) if asked else multiplied(k.body)
    shared = {i for i, _ in k.aliases} - set(plan.copied)
    inputs = frozenset(
        n for n, block in enumerate(k.inputs)
        if refs[first + n] in wanted and n not in shared and (asked or _half(block)) and _regular(plan, block)
    )  # fmt: skip
    return Described(inputs, tuple(_stored(plan, n) if asked else None for n in range(len(k.outputs))))


def multiplied(program: Program) -> frozenset[Var]:
    """The Refs among a Program's inputs that a product of matrices takes an operand from as it is."""
    found: set[Var] = set()

    def walk(inner: Program, roots: dict[Var, Var], read: dict[Var, Var]) -> None:
        for eqn in inner.eqns:
            taken = [a for a in eqn.inputs if type(a) is Var]
            if eqn.primitive is dot_general_p:
                found.update(read[a] for a in taken if a in read)
            elif eqn.primitive is get_p and eqn.inputs[0] in roots:
                read[eqn.outputs[0]] = roots[eqn.inputs[0]]
            for below, operands in inner_programs(eqn):
                if len(operands) != len(below.inputs):
                    continue  # how two elements combine
                pairs = [(v, a) for v, a in zip(below.inputs, operands, strict=True) if type(a) is Var]
                walk(below, {v: roots[a] for v, a in pairs if a in roots}, {v: read[a] for v, a in pairs if a in read})

    walk(program, {v: v for v in program.inputs}, {})
    return frozenset(found)


def _half(block: Block) -> bool:
    """Whether a block is a matrix of 16-bit floats."""
    dtype = block.array.dtype
    return is_float(dtype) and dtype.itemsize == 2 and sum(n > 1 for n in block.shape) > 1


def _regular(plan: Plan, block: Block) -> bool:
    """Whether the blocks of an operand are tiles at places that are an affine function of the ids."""
    fact, array = map_of(plan.kernel, block), block.array
    return (
        fact is not None and fact.affine is not None and 0 < array.ndim <= RANK and 0 < min(array.shape)
        and max(array.shape) <= FAR and not is_key(array.dtype) and array.size * array.dtype.itemsize < REACH
        and (array.ndim == 1 or array.shape[-1] * array.dtype.itemsize % ALIGNED == 0)
    )  # fmt: skip


def _stored(plan: Plan, number: int) -> int | None:
    """Within how many loops every store to an output is to a place of its own; None where threads must store it."""
    k = plan.kernel
    block, ref = k.outputs[number], k.body.inputs[k.splits[2] + number]
    held = plan.output_homes[number] is not None
    once = [a.primitive is swap_p and not a.used and a.loop is None and not a.dynamic for a in plan.used[ref]] == [True]
    if not (held or once) or plan.atomic[number] or any(o == number for _, o in k.aliases):
        return None
    if block.space in UNCUT or any(block.element) or not _regular(plan, block):
        return None
    return stays_in(map_of(k, block), plan.carry)


# ---------------------------------------------------------------------------- accesses


@dataclass(frozen=True)
class Tile:
    """An access as a tile: the array's axes, those that the result lacks first, and sizes in that order.

    `shape` is the result's: the last of the sizes.
    """

    order: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: tuple[int, ...]


def tile_of(window: Window, index: Index) -> Tile | None:
    """An access as a tile, None where it is none that descriptors take."""
    kept: dict[int, int] = {}
    for axis, entry in zip(window.visible, index, strict=True):
        if type(entry) is Take or (type(entry) is Span and entry.stride != 1):
            return None
        if type(entry) is Span:
            kept[axis] = entry.size
    rank, shape = window.array.ndim, tuple(kept.values())
    if rank - 1 not in kept or shape[-1] * window.array.dtype.itemsize < ALIGNED:
        return None
    if any(not 0 < n <= SIZE or n != power(n) for n in shape):
        return None
    others = [d for d in range(rank) if d not in kept]
    return Tile((*others, *kept), (*(1 for _ in others), *shape), shape)


def load(p: Printer, window: Window, index: Index, dynamic: Sequence[Value]) -> Value | None:
    """What an access reads, through a descriptor; None where there can be none for it."""
    tile = tile_of(window, index)
    if tile is None or not _zero_outside(window):
        return None
    kept = _kept(window.array)
    name, type_ = _descriptor(p, window, tile)
    text = f"tt.descriptor_load {name}[{_place(p, window, tile, index, dynamic)}] : {type_}"
    return convert(p, p.op(f"{text} -> {spell(tile.shape, kept)}", tile.shape, kept), window.array.dtype)


def store(p: Printer, window: Window, value: Value, index: Index, dynamic: Sequence[Value]) -> bool:
    """Store a value through a descriptor; False where there can be none for the access."""
    tile = tile_of(window, index)
    if tile is None:
        return False
    value = spread(p, convert(p, value, _kept(window.array)), tile.shape)
    name, type_ = _descriptor(p, window, tile)
    place = _place(p, window, tile, index, dynamic)
    p.line(f"tt.descriptor_store {name}[{place}], {value.name} : {type_}, {value.type}")
    return True


def _zero_outside(window: Window) -> bool:
    """Whether zero is right for what lies outside of the array."""
    if window.fill is None or all(map(all, window.proved)):
        return True
    return window.fill is not EDGE and not any(np.asarray(window.fill).astype(window.array.dtype).tobytes())


def _kept(array: ArrayType) -> Any:
    return INT8 if is_bool(array.dtype) else array.dtype


def _descriptor(p: Printer, window: Window, tile: Tile) -> tuple[str, str]:
    """The name and the type of a descriptor."""
    array = window.array
    type_ = f"!tt.tensordesc<{spell(tile.sizes, _kept(array))}>"

    def make() -> Value:
        lengths = [p.constant(array.shape[d], INT32).name for d in tile.order]
        strides = [p.constant(math.prod(array.shape[d + 1 :]), INT64).name for d in tile.order]
        base = window.base
        return p.op(f"tt.make_tensor_descriptor {base.name}, [{', '.join(lengths)}], [{', '.join(strides)}] : "
                    f"{base.type}, {type_}", (), INT64)  # fmt: skip

    return p.once(("descriptor", window.base.name, tile), make).name, type_


def _place(p: Printer, window: Window, tile: Tile, index: Index, dynamic: Sequence[Value]) -> str:
    """Where a tile starts, in elements along the descriptor's axes."""
    starts, within = list(window.starts), places_of(p, index, dynamic).starts
    for axis, entry, start in zip(window.visible, index, within, strict=True):
        assert isinstance(entry, (Point, Span))
        starts[axis] = add(p, starts[axis], start)
    return ", ".join(as_value(p, starts[d], INT32).name for d in tile.order)
