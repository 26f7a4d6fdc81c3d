"""A kernel as a loop nest: parallel axes, carried loops, registers, operands staged before a loop.

    Plan ::= kernel, parallel axes, carry axes, homes of outputs and scratch, staged inputs, copied inputs

Parallel axes index independent programs; carry axes are loops within a program, outermost first. A Ref with a `home`
is a register, live from just before the loop of that number (`len(carry)`: within the cell) to just after it; a Ref
without one is memory. Nothing here knows a target: its `Limits` say what programs keep in registers and add atomically.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.program import Var
from ...core.ir.types import FAR
from ...core.primitives.refs.state_primitives import addupdate_p
from ...core.support.memo import cached
from ..analysis.affine import Fact
from ..analysis.facts import analyse
from ..analysis.index_maps import linear_index, map_of
from ..kernel.kernel import Block, Kernel
from ..ops.atomics import across_cells, atomic_cas_p, atomic_rmw_p
from .accesses import Access, accesses
from .staging import copied_inputs, staged_before

COMMUTATIVE = ("add", "max", "min", "and", "or", "xor")


@dataclass(frozen=True)
class Limits:
    """What a target's program keeps in registers, and which dtypes its hardware adds atomically (none by default)."""

    elements: int = 2**20  # of a Ref in registers
    indexed: int = 4096  # of one that is indexed by traced positions
    power_of_two: bool = False  # whether registers pad each axis to a power of two
    adds: Callable[[Any], bool] = lambda dtype: False

    def fits(self, shape: tuple[int, ...], dynamic: bool = False) -> bool:
        """Whether a value of a shape fits into registers, indexed at traced positions or not."""
        size = math.prod(1 << max(n - 1, 0).bit_length() for n in shape) if self.power_of_two else math.prod(shape)
        return size <= (min(self.indexed, self.elements) if dynamic else self.elements)


@dataclass(frozen=True)
class Plan:
    """See the module."""

    kernel: Kernel
    parallel: tuple[int, ...]
    carry: tuple[int, ...]
    used: dict[Var, list[Access]]
    output_homes: tuple[int | None, ...]
    scratch_homes: tuple[int | None, ...]
    staged: tuple[int | None, ...]  # per input: the loop before which its block is loaded
    atomic: tuple[bool, ...]  # per output: whether programs meet in it
    copied: tuple[int, ...]  # inputs that are read after what they are aliased to is written

    @property
    def programs(self) -> int:
        return math.prod(self.kernel.grid[a] for a in self.parallel)


@cached(1024)
def plan(kernel: Kernel, limits: Limits) -> Plan:
    """The loop nest of a legal kernel over a static grid; the plan's own kernel may be an equal one."""
    used = accesses(kernel.body)
    _, _, first_out, first_scratch, _ = kernel.splits
    refs = kernel.body.inputs
    outputs, scratch = refs[first_out:first_scratch], refs[first_scratch:]
    atomic = tuple(_adds(b, used[r], limits) for b, r in zip(kernel.outputs, outputs, strict=True))
    carry = _carry(kernel, atomic)
    parallel = tuple(a for a in kernel.long_axes if a not in carry)
    out_homes = tuple(
        None if at else _output_home(kernel, n, used[r], carry, limits)
        for n, (r, at) in enumerate(zip(outputs, atomic, strict=True))
    )
    scratch_homes = tuple(_scratch_home(kernel, r, used[r], carry, limits) for r in scratch)
    copied = copied_inputs(kernel, used, out_homes)
    staged = tuple(
        staged_before(kernel, n, used, carry) if limits.fits(b.shape) else None for n, b in enumerate(kernel.inputs))
    return Plan(kernel, parallel, carry, used, out_homes, scratch_homes, staged, atomic, copied)


def _adds(block: Block, found: list[Access], limits: Limits) -> bool:
    """Whether cells update an output only by commutative atomics (or adds), so that their order is free."""
    if block.space not in FAR or not found:
        return False
    return all(
        a.primitive is addupdate_p and limits.adds(block.array.dtype)
        or a.primitive is atomic_rmw_p and not a.used and a.params["kind"] in COMMUTATIVE
        and across_cells(a.primitive, a.params)
        for a in found if a.writes or a.used
    )  # fmt: skip


def _carry(kernel: Kernel, atomic: tuple[bool, ...]) -> tuple[int, ...]:
    """The axes that run in order: where the kernel does not say, those along which something stays live."""
    found: set[int] = set()
    for number, free in enumerate(atomic):
        found |= set(() if free else analyse(kernel).touched(number))
    for position in range(*kernel.splits[3:]):
        found |= set(analyse(kernel).live(position))
    stated = kernel.semantics or ()
    return tuple(sorted(a for a in found if not (stated and stated[a] == "parallel")))


# ---------------------------------------------------------------------------- registers


def _fits(found: list[Access], shape: tuple[int, ...], limits: Limits) -> bool:
    """Whether a Ref with these accesses can be a register."""
    taken = any(a.index.takes and a.writes or a.primitive in (atomic_rmw_p, atomic_cas_p) for a in found)
    return not taken and limits.fits(shape, any(a.dynamic for a in found))


def _output_home(
    kernel: Kernel, number: int, found: list[Access], carry: tuple[int, ...], limits: Limits
) -> int | None:
    block = kernel.outputs[number]
    if block.space in FAR or not _fits(found, block.shape, limits):
        return None
    fact = map_of(kernel, block)
    level = stays_in(fact, carry)
    again = level is not None and level < len(carry)
    if not any(a.reads for a in found) and not (again and any(a.always for a in found)):
        return None  # only written, each time for good: straight to memory
    return level


def stays_in(fact: Fact | None, carry: tuple[int, ...]) -> int | None:
    """The loop in which an output's block is invariant: it differs between any two iterations of the loops around."""
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


def _scratch_home(
    kernel: Kernel, ref: Var, found: list[Access], carry: tuple[int, ...], limits: Limits
) -> int | None:
    if not _fits(found, ref.type.shape, limits):
        return None
    own = analyse(kernel).live(kernel.body.inputs.index(ref))
    return min((carry.index(a) for a in own if a in carry), default=len(carry))
