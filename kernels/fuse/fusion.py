"""`fuse`: Program to Program of kernel calls and glue; `plan`: the same, with the account of why."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.errors import ArgumentError
from ...core.ir import Eqn, Program, Var
from ...core.rewrite import eliminate_dead
from ...lang.kernel import Kernel
from ...lang.primitive import kernel_call_p
from ...lang.target import Target, target_of
from ..template import Loops, Tiles
from .build import Builder
from .flatten import BODIES, inline_calls, map_bodies
from .names import name_of
from .plan import Boundary, Planner, Unit
from .tiles import Choose, Tiling


@dataclass(frozen=True)
class FusedKernel:
    """A kernel that the pass made: the operations in it, its loops and tiles, and the bytes it moves."""

    kernel: Kernel
    operations: tuple[str, ...]
    loops: Loops
    tiles: Tiles
    bytes: int


@dataclass(frozen=True)
class Fusion:
    """A fused Program and its account. `inner` are those of the Programs in loops and branches."""

    program: Program
    kernels: tuple[FusedKernel, ...]
    boundaries: tuple[tuple[str, str, str, str], ...]  # producer, consumer, type of the value, reason
    glue: tuple[tuple[str, str], ...]  # operation, reason
    before: int
    after: int
    inner: tuple[Fusion, ...] = ()


def machine_of(target: str | Target) -> Target:
    """A target as the pass sees it: on a CPU, one that takes tiles."""
    machine = target_of(target)
    return replace(machine, whole_arrays=False) if machine.whole_arrays else machine


def fuse(program: Program, target: str | Target, tiles: Any = None) -> Program:
    """A Program whose arrays are computed by kernels: the same values, and fewer bytes moved.

    `tiles` is None, a function from a kernel's `Loops` to its tiles (None: the target's default), or a mapping from
    kernel names to tiles. Equations that are in no kernel stay as they are.

    Raises:
      ArgumentError: tiles that are not one positive size per loop, or that the target cannot hold.
    """
    return plan(program, target, tiles).program


def plan(program: Program, target: str | Target, tiles: Any = None) -> Fusion:
    """The fused Program with its kernels, boundaries, and bytes before and after."""
    return _Fuser(machine_of(target), tiles).run(program)


class _Fuser:
    def __init__(self, target: Target, tiles: Any):
        self.target, self.tiles = target, tiles
        self.choose: Choose | None = tiles if callable(tiles) else None

    def run(self, program: Program) -> Fusion:
        program = eliminate_dead(inline_calls(program))[0]
        inner: list[Fusion] = []

        def fused(body: Program) -> Program:
            inner.append(self.run(body))
            return inner[-1].program

        if any(e.primitive in BODIES for e in program.eqns):
            program = program.replace(eqns=[map_bodies(e, fused) for e in program.eqns])
        planner = Planner(program, self.target, self.choose).run()
        return self._assemble(planner, tuple(inner))

    def _assemble(self, planner: Planner, inner: tuple[Fusion, ...]) -> Fusion:
        kernels: dict[int, FusedKernel] = {}
        for unit in planner.units:
            if unit.group is not None and planner.is_kernel(unit):
                kernels[id(unit)] = self._kernel(planner, unit)
        eqns: list[Eqn] = []
        done: set[int] = set()
        for unit in _ordered(planner):
            if id(unit) in kernels:
                eqns.append(_call(planner, unit, kernels[id(unit)].kernel))
                continue
            numbers = unit.group.eqns if unit.group is not None else unit.numbers
            for i in (*_left_out(planner, unit), *numbers):
                if i not in done:
                    done.add(i)
                    eqns.append(planner.program.eqns[i])
        program = eliminate_dead(planner.program.replace(eqns=eqns))[0]
        return Fusion(program, tuple(kernels.values()), (), (), 0, 0, inner)

    def _kernel(self, planner: Planner, unit: Unit) -> FusedKernel:
        assert unit.group is not None and unit.tiling is not None
        group, tiling = unit.group, unit.tiling
        name = name_of(group, tiling, planner.eqns)
        if isinstance(self.tiles, Mapping) and name in self.tiles:
            tiling = planner.tiled(unit, self.tiles[name])
        self._check(name, tiling)
        made = Builder(group, tiling, planner.eqns, name).build()
        operations = tuple(planner.eqns[i].primitive.name for i in group.eqns)
        return FusedKernel(made, operations, tiling.loops, tiling.tiles, tiling.bytes)

    def _check(self, name: str, tiling: Tiling) -> None:
        pass


def _call(planner: Planner, unit: Unit, kernel: Kernel) -> Eqn:
    """The kernel on what it reads; a contraction of a value with itself reads it twice."""
    assert unit.group is not None
    inputs = [planner.aliases.get(v, v) for v in unit.reads]
    return Eqn(kernel_call_p, inputs, unit.writes, {"kernel": kernel}, source=planner.eqns[unit.last].source)


def _left_out(planner: Planner, unit: Unit) -> Sequence[int]:
    """The copied equations that an equation outside of kernels needs."""
    return ()


def _ordered(planner: Planner) -> list[Unit]:
    """Units so that each comes after what it reads, otherwise by their first equation; effects stay in order."""
    units = planner.units
    after: dict[int, list[Unit]] = {id(u): [] for u in units}
    waiting = {id(u): 0 for u in units}
    effect: Unit | None = None
    for unit in units:
        makers = {id(p): p for v in unit.reads if (p := planner.producer.get(planner.aliases.get(v, v)))}
        if unit.group is None and planner.eqns[unit.first].effects:
            if effect is not None:
                makers[id(effect)] = effect
            effect = unit
        makers.pop(id(unit), None)
        waiting[id(unit)] = len(makers)
        for maker in makers.values():
            after[id(maker)].append(unit)
    ready = [(u.first, i, u) for i, u in enumerate(units) if not waiting[id(u)]]
    heapq.heapify(ready)
    found: list[Unit] = []
    while ready:
        _, i, unit = heapq.heappop(ready)
        found.append(unit)
        for other in after[id(unit)]:
            waiting[id(other)] -= 1
            if not waiting[id(other)]:
                heapq.heappush(ready, (other.first, len(units) + len(found), other))
    assert len(found) == len(units)
    return found


__all__ = ["Boundary", "FusedKernel", "Fusion", "fuse", "plan"]
