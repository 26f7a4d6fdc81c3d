"""Fusion of elementwise neighbours into operations with special loop nests (running sums, windows, gathers).

Such an operation is XLA's, unless neighbours can go into the kernel that its template makes and fewer bytes move so.
Some always are, with a reason (`APART`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.ir.program import Eqn, Var
from ...core.primitives.movement.dynamic_slice import dynamic_slice_p
from ...core.primitives.movement.gather_scatter import gather_p
from ...core.primitives.movement.sort import sort_p, top_k_p
from ...core.support.errors import TilewrightError
from ...lang.analysis.facts import analyse
from ...lang.call.primitive import kernel_call_p
from ...lang.kernel.kernel import Kernel
from ...lang.targets.target import Target
from ...lang.transforms.desugar import desugared
from ...lang.verify.target_limits import check_target
from .. import cumulative, window
from ..catalogue import TEMPLATES
from ..cost import bytes_moved
from ..generate.group import Group
from ..generate.loops import Loops, Tiles
from ..generate.tiles import Choose
from .fuse_into_kernel import Attached, epilogue, prologue

STANDING = frozenset((*cumulative.MONOIDS, *window.MONOIDS, gather_p, dynamic_slice_p))
SLOW = "written out in a kernel, its network takes a compiler minutes; XLA has its own"
APART = dict.fromkeys((sort_p, top_k_p), SLOW)
POWERS = "sizes are powers of two"  # what is found of blocks that are computed as larger ones, which is no harm
CELL = 1024  # the least bytes that a cell moves: XLA picks single elements better


@dataclass(frozen=True)
class Step:
    """A neighbour that went into a kernel by a value: the results that it gives, and those of the kernel that stay."""

    before: bool
    group: Group
    value: Var
    writes: tuple[Var, ...]
    kept: frozenset[Var]

    def into(self, call: Eqn, eqns: list[Eqn]) -> Attached | str:
        """The call with the neighbour in its kernel; or why not."""
        if self.before:
            return prologue(call, self.group, eqns, self.value)
        return epilogue(call, self.group, eqns, self.value, self.writes, self.kept.__contains__)


@dataclass
class Seed:
    """An operation as a separate kernel with given tiles, and the neighbours fused into it so far."""

    eqn: Eqn
    target: Target
    loops: Loops
    tiles: Tiles
    steps: list[Step] = field(default_factory=list)

    def call(self, tiles: Tiles) -> Eqn | str:
        """The operation alone, at some tiles; or why it is no kernel."""
        types: list[Any] = [a.type for a in self.eqn.inputs]
        try:
            built = TEMPLATES[self.eqn.primitive].build(*types, tiles=tiles, target=self.target, **self.eqn.params)
        except TilewrightError as error:
            return error.what
        operands, kernel = [self.eqn.inputs[i] for i in built.order], built.kernels[0]
        if kernel.in_types != [a.type for a in operands] or kernel.out_types != [v.type for v in self.eqn.outputs]:
            return "its kernels see its arrays in other shapes"
        return called(kernel, operands, self.eqn.outputs, self.eqn)

    def at(self, tiles: Tiles, eqns: list[Eqn]) -> Eqn | str:
        """The call with all neighbours in it, at some tiles; or why there is none."""
        made = self.call(tiles)
        for step in self.steps:
            if isinstance(made, str):
                return made
            found = step.into(made, eqns)
            made = found if isinstance(found, str) else called(found.kernel, found.reads, found.writes, made)
        return made

    @property
    def operations(self) -> tuple[int, ...]:
        """The numbers of the neighbours' equations."""
        return tuple(i for step in self.steps for i in step.group.eqns)


def called(kernel: Kernel, reads: Sequence[Any], writes: Sequence[Var], like: Eqn) -> Eqn:
    """A call of a kernel, in place of an equation."""
    return Eqn(kernel_call_p, reads, writes, {"kernel": kernel}, like.effects, like.source)


def seed_of(eqn: Eqn, target: Target, choose: Choose | None) -> Seed | str:
    """An operation that is a kernel by itself, at the target's tiles or at those that are chosen; or why it is none."""
    if target.kind == "tpu":
        return "XLA has code of its own for it on a TPU, and as a part of a kernel it takes long to compile"
    template = TEMPLATES[eqn.primitive]
    types: list[Any] = [a.type for a in eqn.inputs]
    try:
        loops = template.loops(types, eqn.params)
        chosen = None if choose is None else choose(loops)
        tiles = template.default(*types, target=target, **eqn.params) if chosen is None else tuple(chosen)
    except TilewrightError as error:
        return error.what
    found = Seed(eqn, target, loops, tiles)
    made = found.call(tiles)
    why = made if isinstance(made, str) else chosen is None and _why_poor(made.params["kernel"], target)
    return why or found


def _why_poor(kernel: Kernel, target: Target) -> str | None:
    """Why XLA is left to compute what a kernel could."""
    moved = bytes_moved(kernel) // max(kernel.cells, 1)
    if moved < CELL and kernel.cells > 1:
        return f"a cell of a kernel would move {moved} bytes"
    carry = analyse(desugared(kernel)).carry
    cells = math.prod(n for a, n in enumerate(kernel.grid) if a not in carry)
    if target.gpu and 2 * cells < target.units:
        return f"{cells} cells of a kernel would run at once, on {target.units} processors"
    try:
        unknown = [f.why for f in check_target(kernel, target) if f.verdict == "unknown" and f.what != POWERS]
    except TilewrightError as error:
        return error.what
    return unknown[0] if unknown else None
