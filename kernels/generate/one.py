"""Equations by themselves as a group: a single operation's loops, tiles and kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ...core.ir import Eqn, Var
from ...core.primitive import Primitive
from ...core.primitives.contract import dot_general_p
from ...core.types import ArrayType
from ...lang.kernel import Kernel
from ...lang.target import Target
from .build import Builder
from .group import Factors, join, single
from .loops import Loops, Tiles
from .nest import nest_of
from .tiles import Blocks, Tiling, blocks_of, loops_of, measured, runs_at, tile_nest


class Alone:
    """The group of some equations, each on the results of those before, with the results of the last.

    The steps of the longest sum of a product may be shared out over runs, each of which has a partial sum in memory.
    """

    def __init__(self, eqns: Sequence[Eqn]):
        self.eqns, factors = list(eqns), Factors()
        self.sizes = factors.sizes
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

    def blocks(self, target: Target) -> Blocks:
        return blocks_of(self.group, self.nest, self.eqns, target)

    def tiled(self, target: Target, runs: int = 1) -> Tiling:
        """At the target's tiles; `runs`: how many cells share the steps of each sum."""
        return tile_nest(self.group, self.nest, self.eqns, self.sizes, target, runs=runs)

    def at(self, tiles: Tiles) -> Tiling:
        """At given tiles, with one number more: so many runs."""
        loops = self.loops
        shared = None if loops.shared is None else self.nest.order[loops.shared]
        return measured(self.group, self.nest, self.sizes, tiles, None, runs_at(loops, tiles), shared)

    def kernel(self, tiling: Tiling, name: str) -> Kernel:
        return Builder(self.group, tiling, self.eqns, name).build()
