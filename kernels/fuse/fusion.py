"""`fuse`: Program to Program of kernel calls and glue; `plan`: the same, with the account of why."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ...core.ir.axis_relation import runs
from ...core.ir.passes import eliminate_dead, hoist
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, Var, every_eqn
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.movement.gather_scatter import gather_p
from ...core.support.errors import ArgumentError
from ...core.support.runtime import runtime
from ...lang.call.primitive import kernel_call_p
from ...lang.cost.estimate import program_cost
from ...lang.kernel.kernel import Kernel, program_key
from ...lang.targets.target import Target, target_of
from ..cost import bytes_moved
from ..generate.build import Builder
from ..generate.group import nbytes
from ..generate.loops import Loops, Tiles
from ..generate.tiles import Choose, Tiling
from .flatten import flat, map_bodies
from .kernel_naming import name_of
from .one_hot_gather import pick_by_comparison
from .plan import Declined, Planner, Unit
from .split import split_long


@dataclass(frozen=True)
class FusedKernel:
    """A kernel that the pass made: the operations in it, its loops and tiles, and the bytes it moves.

    `plain` is what it computes, without it.
    """

    kernel: Kernel
    operations: tuple[str, ...]
    loops: Loops
    tiles: Tiles
    bytes: int
    plain: Program


@dataclass(frozen=True)
class Boundary:
    """A value stored to memory between two units, and why they are not one kernel."""

    producer: str
    consumer: str
    value: str
    bytes: int
    reason: str


@dataclass(frozen=True)
class Account:
    """What a plan moves and computes, beside one kernel for each operation."""

    bytes_before: int
    bytes_after: int
    flops_before: int
    flops_after: int


@dataclass(frozen=True)
class Fusion:
    """A fused Program and its account; `inner` are those of the Programs in loops and branches, in order."""

    program: Program
    kernels: tuple[FusedKernel, ...]
    glue: tuple[tuple[str, str], ...]  # operation, why it is in no kernel
    inner: tuple[Fusion, ...] = ()
    boundaries: tuple[Boundary, ...] = ()
    account: Account | None = None

    @property
    def every_kernel(self) -> tuple[FusedKernel, ...]:
        """The kernels of this Program and of those within it."""
        return (*self.kernels, *(k for one in self.inner for k in one.every_kernel))


def machine_of(target: str | Target) -> Target:
    """A target as the pass sees it: on a CPU, one that takes tiles."""
    machine = target_of(target)
    return replace(machine, whole_arrays=False) if machine.whole_arrays else machine


def fuse(program: Program, target: str | Target, tiles: Mapping[Any, Any] | None = None) -> Program:
    """A Program whose arrays are computed by kernels: the same values, and fewer bytes moved.

    `tiles` is None, a function from a kernel's `Loops` to its tiles (None: the target's default), or a mapping from
    kernel names to tiles; names may be pairs of a name and the extents of the loops. Equations that are in no kernel
    stay as they are.

    Raises:
      ArgumentError: tiles that are not one positive size per loop, or that the target cannot hold, or of a kernel that
        is not there.
    """
    return plan(program, target, tiles).program


def plan(
    program: Program, target: str | Target, tiles: Mapping[Any, Any] | None = None, explained: bool = False,
    declined: Declined | None = None, parts: int = 1, excluded: frozenset[Primitive] = frozenset(),
) -> Fusion:  # fmt: skip
    """The fused Program with its kernels; `explained`: with the boundaries between them, and bytes before and after.

    `declined` says of a user's kernel with a neighbour in it why it cannot be compiled so, None where it can. `parts`
    is how many devices of a mesh may share the cells of a kernel; `excluded` operations stay outside of kernels.

    Plans of the last Programs are kept: one of the same structure, from the same lines, is looked up. Not where a
    function chooses the tiles, for it may answer otherwise the next time.
    """
    machine = machine_of(target)
    if callable(tiles):
        return _Fuser(machine, tiles, explained, declined, parts, excluded).run(program)
    body, values = hoist(eliminate_dead(flat(program))[0])
    asked = frozenset((name, tuple(t)) for name, t in tiles.items()) if tiles else None
    key = (program.name, program_key(body), tuple(_lines(body)), machine, asked, explained, declined, parts, excluded)
    known = _plans.touch(key)
    if known is None:
        known = (_Fuser(machine, tiles, explained, declined, parts, excluded).run(body), body)
        _check_names(known[0], tiles or {})
        _plans.keep(key, known)
    return _with_constants(known[0], values)


def _check_names(fusion: Fusion, tiles: Mapping[Any, Tiles]) -> None:
    """Requested tiles, by name, exist in the kernel."""
    names = sorted({one.kernel.name for one in fusion.every_kernel})
    pairs = {(one.kernel.name, one.loops.sizes) for one in fusion.every_kernel}
    for name in tiles:
        if name not in names and name not in pairs:
            raise ArgumentError(
                f"tiles are given for {name!r}, and no fused kernel has that name",
                f"the fused kernels are {', '.join(names)}" if names else "there are no fused kernels here",
            )


KEPT = 128  # plans that are remembered
_plans = runtime.cache("fuse.plans", KEPT)  # each a Fusion, with the Program whose parts its key names


def _lines(program: Program) -> Iterator[Any]:
    """The lines that equations of a Program and of those within it come from; their code lives as long as it does."""
    known: dict[Any, Any] = {None: None}
    for eqn in every_eqn(program):
        source = eqn.source
        at = None if source is None else (id(source.code), source.lasti, source.scope)
        if at not in known:
            assert source is not None
            known[at] = (id(source.code), source.line, source.scope)
        yield known[at]


def forget() -> None:
    """Drop the plans that are remembered."""
    _plans.clear()


def _with_constants(fusion: Fusion, values: Sequence[Any]) -> Fusion:
    """A plan whose first inputs are constants of some values; those that nothing reads are dropped."""
    if not values:
        return fusion
    program, n = fusion.program, len(values)
    whole = program.replace(
        inputs=program.inputs[n:], constants=(*program.inputs[:n], *program.constants),
        values=(*values, *program.values),
    )  # fmt: skip
    return replace(fusion, program=eliminate_dead(whole)[0])


class _Fuser:
    def __init__(
        self, target: Target, tiles: Mapping[Any, Any] | None, explained: bool, declined: Declined | None = None,
        parts: int = 1, excluded: frozenset[Primitive] = frozenset(),
    ):  # fmt: skip
        self.target, self.explained, self.declined = target, explained, declined
        self.parts, self.excluded = parts, excluded
        self.choose: Choose | None = tiles if callable(tiles) else None
        self.named: Mapping[Any, Tiles] = tiles if isinstance(tiles, Mapping) else {}

    def run(self, program: Program) -> Fusion:
        given = eliminate_dead(flat(program))[0]
        program = given if gather_p in self.excluded else pick_by_comparison(given)
        # Requested tiles are those of entire contractions.
        if self.choose is None and dot_general_p not in self.excluded:
            program = split_long(program, self.target)
        inner: list[Fusion] = []

        def fused(body: Program) -> Program:
            inner.append(self.run(body))
            return inner[-1].program

        within: list[list[Fusion]] = []  # of each equation
        eqns = []
        for eqn in program.eqns:
            known = len(inner)
            eqns.append(map_bodies(eqn, fused))
            within.append(inner[known:])
        planner = Planner(program.replace(eqns=eqns), self.target, self.choose, self.explained, self.declined,
                          parts=self.parts, excluded=self.excluded).run()  # fmt: skip
        return self._assemble(given, planner, inner, within)

    def _assemble(self, before: Program, planner: Planner, inner: list[Fusion], within: list[list[Fusion]]) -> Fusion:
        kernels: dict[int, FusedKernel] = {
            id(unit): self._kernel(planner, unit) for unit in planner.units if planner.is_kernel(unit)
        }
        own = {id(u): self._seeded(planner, u) for u in planner.units if u.first in planner.seeds and not u.group}
        kernels |= {number: one for number, (one, _) in own.items()}
        eqns: list[Eqn] = []
        glue: list[Unit] = []
        done: set[int] = set()
        for unit in in_order(planner):
            if self.choose is not None and unit.tiling is not None and unit.tiling.refused is not None:
                if self.choose(unit.tiling.loops) is not None:
                    self._check(_label(planner, unit, kernels), unit.tiling)
            if id(unit) in own:
                eqns.append(own[id(unit)][1])
                continue
            if id(unit) in kernels:
                eqns.append(_call(planner, unit, kernels[id(unit)].kernel))
                continue
            glue.append(unit)
            for i in unit.group.eqns if unit.group is not None else unit.numbers:
                if i not in done:
                    done.add(i)
                    eqns.append(planner.replaced.get(i, planner.program.eqns[i]))
        program = eliminate_dead(planner.program.replace(eqns=eqns))[0]
        names = tuple((_label(planner, u, kernels), planner.glue_reason(u)) for u in glue)
        fusion = Fusion(program, tuple(kernels.values()), names, tuple(inner))
        if not self.explained:
            return fusion
        return replace(
            fusion, boundaries=_boundaries(planner, kernels), account=_account(before, program, planner, within)
        )

    def _kernel(self, planner: Planner, unit: Unit) -> FusedKernel:
        assert unit.group is not None and unit.tiling is not None
        group, tiling = unit.group, unit.tiling
        name = name_of(group, tiling, planner.eqns)
        asked = self.named.get(name, self.named.get((name, tiling.loops.sizes)))
        if asked is not None:
            tiling = planner.tiled(unit, asked)
        self._check(name, tiling)
        made = Builder(group, tiling, planner.eqns, name).build()
        operations = tuple(planner.eqns[i].primitive.name for i in group.eqns)
        eqns = [planner.replaced.get(i, planner.eqns[i]) for i in sorted(group.eqns)]
        plain = Program(unit.reads, eqns, unit.writes, name=name)
        return FusedKernel(made, operations, tiling.loops, tiling.tiles, tiling.bytes, plain)

    def _seeded(self, planner: Planner, unit: Unit) -> tuple[FusedKernel, Eqn]:
        """An operation with a special loop nest and its fused neighbours: the kernel, and its call."""
        own, call = planner.seeds[unit.first], planner.eqns[unit.first]
        name, tiles = call.params["kernel"].name, own.tiles
        asked = self.named.get(name, self.named.get((name, own.loops.sizes)))
        if asked is not None:
            tiles, made = tuple(asked), own.at(tuple(asked), planner.eqns)
            if isinstance(made, str):
                raise ArgumentError(f"fused kernel {name}: tiles {tiles} for loops of {own.loops.sizes}: {made}",
                                    "use other tiles, or leave them to the target")  # fmt: skip
            call = made
        kernel = call.params["kernel"]
        parts = {unit.first: own.eqn, **{i: planner.eqns[i] for i in own.operations}}
        inputs: list[Var] = []
        for v in call.inputs:  # one that the kernel takes twice is read as the first of the two
            assert type(v) is Var
            inputs.append(Var(v.type) if v in inputs else v)
        plain = Program(inputs, [parts[i] for i in sorted(parts)], call.outputs, name=name)
        operations = tuple(e.primitive.name for e in parts.values())
        return FusedKernel(kernel, operations, own.loops, tiles, bytes_moved(kernel), plain), call

    def _check(self, name: str, tiling: Tiling) -> None:
        if tiling.refused is not None:
            raise ArgumentError(
                f"fused kernel {name}: tiles {tiling.tiles} for loops of {tiling.loops.sizes}: {tiling.refused}",
                "use smaller tiles, or leave them to the target")  # fmt: skip


def _call(planner: Planner, unit: Unit, kernel: Kernel) -> Eqn:
    """The kernel on what it reads; a contraction of a value with itself reads it twice."""
    inputs = [planner.aliases.get(v, v) for v in unit.reads]
    return Eqn(kernel_call_p, inputs, unit.writes, {"kernel": kernel}, source=planner.eqns[unit.last].source)


def in_order(planner: Planner) -> list[Unit]:
    """Units so that each comes after what it reads, otherwise by their first equation; effects stay in order."""
    units = planner.units
    after: dict[int, list[Unit]] = {id(u): [] for u in units}
    waiting = {id(u): 0 for u in units}
    effect: Unit | None = None
    for unit in units:
        reads = (planner.aliases.get(v, v) for v in unit.reads)
        makers = {id(p): p for v in reads if (p := planner.producer.get(v))}
        if unit.group is None and planner.eqns[unit.first].effects:
            if effect is not None:
                makers[id(effect)] = effect
            effect = unit
        makers.pop(id(unit), None)
        waiting[id(unit)] = len(makers)
        for maker in makers.values():
            after[id(maker)].append(unit)
    place = {id(u): i for i, u in enumerate(units)}
    ready = [(u.first, place[id(u)]) for u in units if not waiting[id(u)]]
    heapq.heapify(ready)
    found: list[Unit] = []
    while ready:
        unit = units[heapq.heappop(ready)[1]]
        found.append(unit)
        for other in after[id(unit)]:
            waiting[id(other)] -= 1
            if not waiting[id(other)]:
                heapq.heappush(ready, (other.first, place[id(other)]))
    assert len(found) == len(units)
    return found


# ---------------------------------------------------------------------------- account


def _label(planner: Planner, unit: Unit, kernels: Mapping[int, FusedKernel]) -> str:
    if id(unit) in kernels:
        return kernels[id(unit)].kernel.name
    eqn = planner.eqns[unit.last]
    return eqn.params["kernel"].name if eqn.primitive is kernel_call_p else eqn.primitive.name


def _boundaries(planner: Planner, kernels: Mapping[int, FusedKernel]) -> tuple[Boundary, ...]:
    found: Counter[Boundary] = Counter()
    for unit in planner.units:
        for v in unit.writes:
            for other in dict.fromkeys(planner.consumers.get(v, ())):
                one, two = (_label(planner, u, kernels) for u in (unit, other))
                found[Boundary(one, two, v.type.show(), nbytes(v), planner.reason(unit, other, v))] += 1
    return tuple(found)


def _account(before: Program, after: Program, planner: Planner, within: list[list[Fusion]]) -> Account:
    bodies = {e.outputs: inner for e, inner in zip(planner.program.eqns, within, strict=True) if inner}
    apart = 0
    for eqn in before.eqns:
        inner = bodies.get(eqn.outputs)
        apart += _body_bytes(eqn, inner, "bytes_before") if inner else planner.alone(eqn)
    together = 0
    for eqn in after.eqns:
        inner = bodies.get(eqn.outputs)
        together += _body_bytes(eqn, inner, "bytes_after") if inner else planner.alone_eqn(eqn)
    return Account(apart, together, program_cost(before).flops, program_cost(after).flops)


def _body_bytes(eqn: Eqn, inner: list[Fusion], which: str) -> int:
    """The bytes of a loop or branch: those of its Programs, as often as is known; of branches, the most."""
    found = [getattr(f.account, which) for f in inner]
    return max(found) if eqn.primitive.choice else sum(found) * runs(eqn)


__all__ = ["Account", "Boundary", "FusedKernel", "Fusion", "forget", "fuse", "plan"]
