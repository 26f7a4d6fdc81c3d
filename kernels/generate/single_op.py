"""Equations by themselves as a group: a single operation's loops, tiles and kernels.

A sum whose cells are too few for a target's cores, or too small, is split: its steps are shared out over runs. Cells
are too small where, for there to be enough of them, operands come in so often that reading less of them is worth a
second kernel, which adds up the runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Var
from ...core.ir.types import ArrayType, is_bool
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.reduction.reduce import reduce_or_p, reduce_sum_p
from ...lang.kernel.kernel import Kernel
from ...lang.ops.basic import cdiv
from ...lang.targets.target import Target
from .accumulators import accumulator
from .build import Builder
from .group import Factors, join, nbytes, single
from .loops import Loops, Tiles
from .nest import nest_of
from .tiles import Blocks, Tiling, blocks_of, candidates, loops_of, measured, options, runs_at, tile_nest

if TYPE_CHECKING:
    from .group import Group
    from .nest import Nest


LEAST = 4  # steps of a run: fewer, and filling and emptying it takes as long as the steps
LAUNCH = 5e-6  # seconds that one kernel more takes
RUNS = (2, 4, 8)


def runs_of(cells: int, steps: int, units: int, moved: int, partial: int) -> tuple[int, ...]:
    """Numbers of runs worth trying, the best first; none where the sum is better left in one.

    Args:
      cells: those that run at once without.
      steps: of the sum in each.
      units: cores that share the cells.
      moved: bytes of the operands.
      partial: bytes of the results in the dtype of the sums: each run writes them, and they are read again.

    >>> runs_of(cells=2, steps=64, units=132, moved=2**24, partial=2**14)
    (16, 8, 4, 2)
    >>> runs_of(cells=100, steps=64, units=132, moved=2**24, partial=2**14)
    ()
    """
    if units < 2 * cells or not partial:
        return ()
    most = min(units // cells, steps // LEAST, moved // (2 * partial))
    tried = [cdiv(steps, cdiv(steps, most >> k)) for k in range(most.bit_length() - 1)]
    return tuple(dict.fromkeys(n for n in tried if n > 1))


class Alone:
    """The group of some equations, each on the results of those before, with the results of the last.

    The steps of the longest sum of a product may be shared out over runs, each of which has a partial sum in memory.
    """

    eqns: list[Eqn]
    group: Group
    nest: Nest

    def __init__(self, eqns: Sequence[Eqn]):
        self.eqns, factors = list(eqns), Factors()
        self.sizes: list[int] = factors.sizes
        found = single(0, (), self.eqns, factors)
        for i in range(1, len(self.eqns)):
            other = single(i, (), self.eqns, factors)
            found = None if found is None or other is None else join(found, other, self.eqns)
        assert found is not None  # no operand is read along two loops
        self.group, self.nest = found, nest_of(found, self.eqns, self.eqns[-1].outputs)

    @classmethod
    def of(cls, primitive: Primitive, types: Sequence[ArrayType], outs: Sequence[ArrayType], params: dict[str, Any]
           ) -> Alone:  # fmt: skip
        """The group of one operation."""
        return cls([Eqn(primitive, [Var(t) for t in types], [Var(t) for t in outs], params)])

    @property
    def loops(self) -> Loops:
        loops = loops_of(self.nest, self.sizes)
        if self.eqns[0].primitive is not dot_general_p or not loops.carry:
            return loops
        return replace(loops, shared=max(loops.carry, key=lambda i: (loops.sizes[i], i)))

    def fast_bytes(self, tiles: Sequence[int], target: Target) -> int:
        """The bytes of fast memory that one cell's blocks take (twice, for the next ones come in meanwhile)."""
        return self._blocks(target).fast_bytes(tiles)

    def refuse(self, tiles: Sequence[int], target: Target, room: int) -> str | None:
        """Why a cell cannot hold its blocks in `room` bytes of a target, if so."""
        return self._blocks(target).refuse(tiles, room)

    def candidates(self, target: Target) -> list[Tiles]:
        """Tiles worth trying on a target that takes them, the best first."""
        return [*self.split_tiles(target), *candidates(self.loops, target, self._blocks(target).refuse, regular=True)]

    def kernels(self, tiles: Tiles, target: Target, name: str) -> tuple[tuple[Kernel, ...], tuple[int, ...]]:
        """The kernels at tiles that are known to fit, each on the results of the one before, and which operand each
        input of the first is."""
        first, order = self.kernel(tiles, name), tuple(range(len(self.group.inputs)))
        if runs_at(self.loops, tiles) == 1:
            return (first,), order
        out: Any = self.nest.outputs[0].type
        added = _total(first.out_types[0], out)
        return (first, added.kernel(added._tiled(target).tiles, "total")), order

    def kernel(self, tiles: Tiles, name: str) -> Kernel:
        """The kernel at given tiles, with one number more: of the partial sums of so many runs."""
        loops = self.loops
        shared = None if loops.shared is None else self.nest.order[loops.shared]
        tiling = measured(self.group, self.nest, self.sizes, tiles, None, runs_at(loops, tiles), shared)
        return Builder(self.group, tiling, self.eqns, name).build()

    def _blocks(self, target: Target) -> Blocks:
        return blocks_of(self.group, self.nest, self.eqns, target)

    def _tiled(self, target: Target, runs: int = 1) -> Tiling:
        return tile_nest(self.group, self.nest, self.eqns, self.sizes, target, runs=runs)

    # ------------------------------------------------------------------------ sums in runs

    def split_tiles(self, target: Target) -> list[Tiles]:
        """Tiles and runs of a product that is better split, the best first."""
        loops = self.loops
        if target.units == 1 or target.whole_arrays or not loops.matrix or loops.shared is None:
            return []
        return self._for_cores(target) or self._for_bytes(target)

    @property
    def _partial(self) -> int:
        (out,) = (v.type for v in self.nest.outputs)
        return math.prod(out.shape) * accumulator(out.dtype).itemsize

    def _for_cores(self, target: Target) -> list[Tiles]:
        """Tiles that a matrix unit likes, and runs, of a product that would leave cores idle."""
        loops, choices = self.loops, options(self.loops, target)
        assert loops.shared is not None
        least, liked = (tuple(c[min(step, len(c) - 1)] for c in choices) for step in (0, 1))
        free = [i for i in range(len(choices)) if i not in loops.carry]
        if 2 * math.prod(cdiv(loops.sizes[i], least[i]) for i in free) > target.units:
            return []  # smaller tiles keep them at work
        for tiles in (liked, least):
            if self._blocks(target).refuse(tiles, target.fast_bytes) is None:
                cells = math.prod(cdiv(loops.sizes[i], tiles[i]) for i in free)
                steps, moved = cdiv(loops.sizes[loops.shared], tiles[loops.shared]), sum(map(nbytes, self.group.inputs))
                return [(*tiles, n) for n in runs_of(cells, steps, target.units, moved, self._partial)]
        return []

    def _for_bytes(self, target: Target) -> list[Tiles]:
        """Tiles and runs of a product that takes less time split, by the roofline, for its larger tiles."""
        if not target.gpu:
            return []
        loops, group, best = self.loops, self.group, []
        assert loops.shared is not None
        flops, partial, dtype = 2 * math.prod(loops.sizes), self._partial, group.inputs[0].type.dtype
        alone = self._tiled(target)
        least = target.seconds(flops, alone.bytes, dtype) - LAUNCH
        bound = target.seconds(flops, sum(map(nbytes, (*group.inputs, *self.nest.outputs))), dtype)
        if alone.refused is not None or least <= bound:
            return []
        for runs in RUNS:
            tiling = self._tiled(target, runs)
            found = target.seconds(flops, tiling.bytes + 2 * runs * partial, dtype)
            steps = cdiv(loops.sizes[loops.shared], tiling.tiles[loops.shared])
            if found < least and runs <= steps:
                best, least = [(*tiling.tiles, runs)], found
        return best


def _total(rows: ArrayType, out: ArrayType) -> Alone:
    """The kernel that sums the rows of an array in order, to a result of the same dtype."""
    given, added, result = Var(rows), Var(ArrayType(rows.shape[1:], rows.dtype)), Var(out)
    adding = reduce_or_p if is_bool(out.dtype) else reduce_sum_p
    if rows.dtype == out.dtype:
        return Alone([Eqn(adding, [given], [result], {"axes": (0,)})])
    cast = Eqn(convert_element_type_p, [added], [result], {"new_dtype": out.dtype, "weak_type": False})
    return Alone([Eqn(adding, [given], [added], {"axes": (0,)}), cast])
