"""How a kernel runs on a GPU: which grid axes are programs and which loops, and where each Ref lives.

    Plan ::= kernel, parallel axes, carry axes, homes of outputs and scratch, inputs loaded ahead, copies of operands

Parallel axes are program ids; carry axes are loops within the program, outermost first. A Ref with a `home` is a
register that lives from just before the loop of that number (`len(carry)`: within the cell) to just after it; a Ref
without one is memory.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Program, Var
from ...core.ir.types import FAR, RefType
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.scan import scan_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.refs.state_primitives import Index, addupdate_p, get_p, swap_p
from ...core.support.memo import cached
from ..analysis.affine import Fact, needs_of
from ..analysis.facts import analyse
from ..analysis.index_maps import linear_index, map_of
from ..kernel.kernel import Block, Kernel
from ..kernel.traverse import inner_programs
from ..ops.atomics import across_cells, atomic_cas_p, atomic_rmw_p
from ..ops.basic import next_power_of_2
from ..targets.target import Target
from ..transforms.desugar import plain
from ..transforms.dynamic_grid import static
from .pieces import in_pieces

MAX_ELEMENTS = 2**20  # of a value that is kept in registers
SMALL = 4096  # elements of a scratch that is indexed by traced positions and still kept in registers
COMMUTATIVE = ("add", "max", "min", "and", "or", "xor")


@dataclass(frozen=True)
class Access:
    """One access to a Ref of the body, in the order of the text."""

    primitive: Primitive  # get, swap, addupdate, atomic_rmw or atomic_cas
    index: Index
    params: Any
    used: bool  # whether its result is
    always: bool  # in every cell, and once
    loop: int | None  # which loop of the body's top level it is in
    number: int

    @property
    def reads(self) -> bool:
        return self.primitive is not swap_p or self.used

    @property
    def writes(self) -> bool:
        return self.primitive is not get_p

    @property
    def dynamic(self) -> bool:
        return bool(self.index.dynamic)


def accesses(program: Program) -> dict[Var, list[Access]]:
    """The accesses to every Ref among a Program's inputs, those of inner Programs included."""
    found: dict[Var, list[Access]] = {v: [] for v in program.inputs if isinstance(v.type, RefType)}

    def walk(inner: Program, roots: dict[Var, Var], always: bool, loop: int | None) -> None:
        used = {a for e in inner.eqns for a in e.inputs} | set(inner.outputs)
        for eqn in inner.eqns:
            refs = [a for a in eqn.inputs if type(a) is Var and a in roots]
            if not refs:
                continue
            below = list(inner_programs(eqn))
            for one, taken in below:
                passed = {v: roots[a] for v, a in zip(one.inputs, taken, strict=True) if a in roots}
                repeats = eqn.primitive in (scan_p, while_p)
                here = sum(map(len, found.values())) if repeats and loop is None else loop
                walk(one, passed, always and not repeats and eqn.primitive is not cond_p, here)
            if not below:
                root, number = roots[refs[0]], sum(map(len, found.values()))
                found[root].append(Access(
                    eqn.primitive, eqn.params["index"], eqn.params, any(v in used for v in eqn.outputs), always,
                    loop, number))  # fmt: skip

    walk(program, {v: v for v in found}, True, None)
    return found


@dataclass(frozen=True)
class Plan:
    """See the module."""

    kernel: Kernel
    parallel: tuple[int, ...]
    carry: tuple[int, ...]
    used: dict[Var, list[Access]]
    output_homes: tuple[int | None, ...]
    scratch_homes: tuple[int | None, ...]
    ahead: tuple[int | None, ...]  # per input: the loop before which its block is loaded
    atomic: tuple[bool, ...]  # per output: whether programs meet in it
    copied: tuple[int, ...]  # inputs that are read after what they are aliased to is written

    @property
    def programs(self) -> int:
        return math.prod(self.kernel.grid[a] for a in self.parallel)


def forms(kernel: Kernel, target: Target) -> tuple[Kernel, ...]:
    """The kernel as GPUs run it: over a static grid, in plain accesses and atomics, large copies piece by piece."""
    return (in_pieces(plain(static(kernel, "a launch needs"), atomics=True, in_step=False)),)


@cached(1024)
def plan(kernel: Kernel) -> Plan:
    """How a kernel runs that is in the form of `forms`, and legal; the plan's own kernel may be an equal one."""
    used = accesses(kernel.body)
    _, _, first_out, first_scratch, _ = kernel.splits
    refs = kernel.body.inputs
    outputs, scratch = refs[first_out:first_scratch], refs[first_scratch:]
    atomic = tuple(_added(b, used[r]) for b, r in zip(kernel.outputs, outputs, strict=True))
    carry = _carry(kernel, atomic)
    parallel = tuple(a for a in kernel.long_axes if a not in carry)
    out_homes = tuple(
        None if at else _output_home(kernel, n, used[r], carry)
        for n, (r, at) in enumerate(zip(outputs, atomic, strict=True))
    )
    scratch_homes = tuple(_scratch_home(kernel, r, used[r], carry) for r in scratch)
    copied = _copied(kernel, used, out_homes)
    ahead = tuple(_ahead(kernel, n, used, carry) for n in range(len(kernel.inputs)))
    return Plan(kernel, parallel, carry, used, out_homes, scratch_homes, ahead, atomic, copied)


def adds_atomically(dtype: Any) -> bool:
    """Whether hardware adds to a dtype atomically."""
    return dtype.itemsize >= 4 or str(dtype) == "float16"


def _added(block: Block, found: list[Access]) -> bool:
    """Whether cells only add to an output (or update it in another way that commutes), so that any order will do."""
    if block.space not in FAR or not found:
        return False
    return all(
        a.primitive is addupdate_p and adds_atomically(block.array.dtype)
        or a.primitive is atomic_rmw_p and not a.used and a.params["kind"] in COMMUTATIVE
        and across_cells(a.primitive, a.params)
        for a in found if a.writes or a.used
    )  # fmt: skip


def _carry(kernel: Kernel, atomic: tuple[bool, ...]) -> tuple[int, ...]:
    """The axes that run in order: where the kernel does not say, those along which something stays live."""
    found: set[int] = set()
    for number, free in enumerate(atomic):
        ignored = () if free else analyse(kernel).touched(number)
        found |= set(kernel.long_axes if ignored is None else ignored)
    for position in range(*kernel.splits[3:]):
        found |= set(analyse(kernel).live(position))
    stated = kernel.semantics or ()
    return tuple(sorted(a for a in found if not (stated and stated[a] == "parallel")))


# ---------------------------------------------------------------------------- homes


def _size(shape: tuple[int, ...]) -> int:
    return math.prod(map(next_power_of_2, shape))


def _fits(found: list[Access], shape: tuple[int, ...], limit: int = MAX_ELEMENTS) -> bool:
    """Whether accesses can be to a register."""
    taken = any(a.index.takes and a.writes or a.primitive in (atomic_rmw_p, atomic_cas_p) for a in found)
    dynamic = any(a.dynamic for a in found)
    return not taken and _size(shape) <= (min(SMALL, limit) if dynamic else limit)


def _output_home(kernel: Kernel, number: int, found: list[Access], carry: tuple[int, ...]) -> int | None:
    block = kernel.outputs[number]
    if block.space in FAR or not _fits(found, block.shape):
        return None
    fact = map_of(kernel, block)
    level = stays_in(fact, carry)
    again = level is not None and level < len(carry)
    if not any(a.reads for a in found) and not (again and any(a.always for a in found)):
        return None  # only written, each time for good: straight to memory
    return level


def stays_in(fact: Fact | None, carry: tuple[int, ...]) -> int | None:
    """The loop that an output's block stays the same in: it differs between any two turns of the loops around it."""
    if fact is None:
        return None
    inner = [k for k, axis in enumerate(carry) if axis in fact.axes]
    level = max(inner, default=-1) + 1
    around = [a for a in carry[:level] if a in fact.axes]
    if any(a not in fact.axes for a in carry[:level]) or not _injective(fact, around):
        return None
    return level


def _injective(fact: Fact, axes: list[int]) -> bool:
    """Whether different ids on some axes give different blocks, whatever the other ids are."""
    if not axes:
        return True
    if fact.table is None:
        return False
    numbers = np.moveaxis(linear_index(fact.table), [fact.axes.index(a) for a in axes], range(len(axes)))
    rows = np.sort(numbers.reshape(math.prod(numbers.shape[: len(axes)]), -1), axis=0)
    return bool((rows[1:] != rows[:-1]).all())


def _scratch_home(kernel: Kernel, ref: Any, found: list[Access], carry: tuple[int, ...]) -> int | None:
    if not _fits(found, ref.type.shape):
        return None
    own = analyse(kernel).live(kernel.body.inputs.index(ref))
    return min((carry.index(a) for a in own if a in carry), default=len(carry))


def _ahead(kernel: Kernel, number: int, used: dict[Var, list[Access]], carry: tuple[int, ...]) -> int | None:
    """The loop before which an input's block is loaded once: it is read whole in every cell, and stays the same."""
    block, ref = kernel.inputs[number], kernel.body.inputs[kernel.splits[1] + number]
    whole = any(
        a.primitive is get_p and a.always and not a.params.get("masked") and a.index.is_whole(block.shape)
        for a in used[ref]
    )
    if not carry or not whole or any(i == number for i, _ in kernel.aliases) or _size(block.shape) > MAX_ELEMENTS:
        return None
    if block.index_map is None:
        return 0
    wanted = needs_of(block.index_map, len(kernel.grid))
    if "data" in wanted:
        return None
    level = max((k for k, axis in enumerate(carry) if axis in wanted), default=-1) + 1
    return level if level < len(carry) else None


# ---------------------------------------------------------------------------- aliases


def _copied(kernel: Kernel, used: dict[Var, list[Access]], homes: tuple[int | None, ...]) -> tuple[int, ...]:
    """Inputs that may be read after the output they share memory with is written: these get memory of their own."""
    _, first_in, first_out, _, _ = kernel.splits
    found = []
    for i, o in kernel.aliases:
        reads = [a for a in used[kernel.body.inputs[first_in + i]] if a.reads]
        writes = [a for a in used[kernel.body.inputs[first_out + o]] if a.writes]
        if not reads:
            continue
        far = kernel.inputs[i].space in FAR or kernel.outputs[o].space in FAR
        late = any(r.number > w.number or r.loop is not None and r.loop == w.loop for r in reads for w in writes)
        if far or homes[o] is None and late:
            found.append(i)
    return tuple(found)
