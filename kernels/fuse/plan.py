"""Which equations become one kernel: producers join their consumers while no more bytes move.

    unit ::= a group of equations that may be a kernel, or one equation that may not

Values that are cheaper to make again than to read (a broadcast row, a mask, a constant) are copied into every group
that uses them. Then, consumers in order, each takes in its producers, the largest shared value first, where one loop
nest holds both, its blocks fit, no other unit lies between the two, and the bytes moved become fewer. Groups that read
the same value join then, and finally groups are fused into operations with special loop nests. The order of the
equations, so that a Program always gives the same kernels.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...core.ir.axis_relation import MOVER
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, Var
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.movement.gather_scatter import PRIMITIVES as INDEXED
from ...core.primitives.movement.shape import reshape_p, squeeze_p, transpose_p
from ...lang.call.primitive import kernel_call_p
from ...lang.kernel.kernel import Kernel
from ...lang.targets.target import Target
from ..cost import bytes_moved
from ..generate.group import ELEMENTWISE, Factors, Group, join, nbytes, single, why_not
from ..generate.nest import Nest, nest_of
from ..generate.tiles import Choose, Tiling, rough_tiling, tile_nest
from .fuse_into_kernel import Attached
from .fuse_reductions import APART, STANDING, Seed, Step, called, seed_of

Declined = Callable[[Kernel, Target], str | None]

COPIED = 24  # the most equations that are run again to save reading their result
EXCLUDED = "it stays outside of kernels on this target"
CONTRACTIONS = 2  # in one body: a product of a product (attention) is, more take more memory than they save
BUSY = 1024  # elements read or written that keep a processor of a GPU busy
VIEWS = frozenset((reshape_p, squeeze_p))  # the same memory under another shape
COPIED_KINDS = (*ELEMENTWISE, MOVER)  # but transpositions, whose copies read their operands in another order


@dataclass(eq=False, slots=True)
class Unit:
    """A group with its tiles (computed lazily), or the number of an equation outside of groups."""

    numbers: tuple[int, ...]  # the equations that it stands for
    group: Group | None
    tiling: Tiling | None
    reads: tuple[Var, ...]
    writes: tuple[Var, ...]
    bytes: int
    reason: str | None = None
    fixed: bool = False  # a kernel that the user wrote

    @property
    def first(self) -> int:
        return self.numbers[0]

    @property
    def last(self) -> int:
        return self.numbers[-1]


@dataclass(slots=True)
class Planner:
    """One Program being planned; `units` are what it becomes, `boundaries` what stays between them."""

    program: Program
    target: Target
    choose: Choose | None = None
    explained: bool = False  # say of every refusal by how much
    declined: Declined | None = None  # why a user's kernel with a neighbour in it is taken by no compiler
    parts: int = 1  # the devices of a mesh that may share the cells of a loop
    excluded: frozenset[Primitive] = frozenset()  # operations that stay outside of kernels
    eqns: list[Eqn] = field(default_factory=list)
    dots: frozenset[int] = frozenset()  # the contractions
    factors: Factors = field(default_factory=Factors)
    units: list[Unit] = field(default_factory=list)
    copied: dict[int, tuple[int, ...]] = field(default_factory=dict)
    aliases: dict[Var, Var] = field(default_factory=dict)
    maker: dict[Var, int] = field(default_factory=dict)
    producer: dict[Var, Unit] = field(default_factory=dict)
    consumers: dict[Var, list[Unit]] = field(default_factory=dict)
    returned: frozenset[Var] = frozenset()
    refused: dict[tuple[int, int], str] = field(default_factory=dict)
    tried: set[tuple[Unit, Unit]] = field(default_factory=set)  # pairs that are no kernel
    beside: dict[tuple[int, Var], str] = field(default_factory=dict)  # why a neighbour is not in a user's kernel
    replaced: dict[int, Eqn] = field(default_factory=dict)  # calls of kernels that neighbours have gone into
    seeds: dict[int, Seed] = field(default_factory=dict)  # by number, operations with special loop nests

    def run(self) -> Planner:
        self.eqns = [self._unaliased(e) for e in self.program.eqns]
        self.dots = frozenset(i for i, e in enumerate(self.eqns) if e.primitive is dot_general_p)
        self.maker = {v: i for i, e in enumerate(self.eqns) for v in e.outputs}
        self.returned = frozenset(a for a in self.program.outputs if type(a) is Var)
        reasons = [EXCLUDED if e.primitive in self.excluded else why_not(e, self.factors) for e in self.eqns]
        self._find_copies(reasons, self._wanted(reasons))
        self._make_units(reasons)
        self._attach()
        self._join_producers()
        self._join_siblings()
        self._stand()
        self._settle()
        self.units.sort(key=lambda u: u.first)
        return self

    # ------------------------------------------------------------------------ units

    def _unaliased(self, eqn: Eqn) -> Eqn:
        """A contraction of a value with itself reads it twice, along different loops."""
        if eqn.primitive is not dot_general_p or eqn.inputs[0] is not eqn.inputs[1] or type(eqn.inputs[0]) is not Var:
            return eqn
        other = Var(eqn.inputs[0].type)
        self.aliases[other] = eqn.inputs[0]
        return eqn.replace(inputs=(eqn.inputs[0], other))

    def _find_copies(self, reasons: Sequence[str | None], wanted: set[Var]) -> None:
        """The equations whose results are made again where they are used, with what each needs for that.

        A result may be read from memory or made again from `need`. What holds much less is always read instead; what
        holds as much, where nobody wants the result itself in memory, so that it need not be written.
        """
        leaves: dict[Var, dict[Var, None]] = {}
        chains: dict[Var, tuple[int, ...]] = {}
        for i, eqn in enumerate(self.eqns):
            if reasons[i] is not None or eqn.primitive.kind not in COPIED_KINDS or eqn.primitive is transpose_p:
                continue
            need: dict[Var, None] = {}
            chain: dict[int, None] = {}
            for a in eqn.inputs:
                if type(a) is Var:
                    need.update(leaves.get(a, {a: None}))
                    chain.update(dict.fromkeys(chains.get(a, ())))
            out = eqn.outputs[0]
            read, held = sum(map(nbytes, need)), nbytes(out)
            if len(chain) < COPIED and (2 * read <= held or (4 * read <= 5 * held and out not in wanted)):
                leaves[out], chains[out] = need, (*chain, i)
                self.copied[i] = tuple(chain)

    def _copies(self, number: int) -> tuple[int, ...]:
        """The copies that an equation's operands need, in order."""
        found: set[int] = set()
        for a in self.eqns[number].inputs:
            i = self.maker.get(a) if type(a) is Var else None
            if i is not None and i in self.copied:
                found.update((*self.copied[i], i))
        return tuple(sorted(found))

    def _wanted(self, reasons: Sequence[str | None]) -> set[Var]:
        """The values that are read from memory: by who calls, by what is no kernel, and by contractions."""
        found = {v for v in self.returned if v in self.maker}
        for i, eqn in enumerate(self.eqns):
            if reasons[i] is not None or eqn.primitive is dot_general_p:
                found.update(self.aliases.get(a, a) for a in eqn.inputs if type(a) is Var)
        return found

    def _make_units(self, reasons: Sequence[str | None]) -> None:
        kept = {self.aliases.get(a, a) for i, e in enumerate(self.eqns) for a in e.inputs
                if type(a) is Var and (reasons[i] is not None or a in self.aliases)} | self.returned  # fmt: skip
        for i, eqn in enumerate(self.eqns):
            if i in self.copied and eqn.outputs[0] not in kept:
                continue
            group = single(i, self._copies(i), self.eqns, self.factors) if reasons[i] is None else None
            if group is None:
                reads = tuple(dict.fromkeys(a for a in eqn.inputs if type(a) is Var))
                moved = self.alone_eqn(eqn)
                why = reasons[i] or "a value would be tiled along two loops at once"
                self._add(Unit((i,), None, None, reads, eqn.outputs, moved, why))
            else:
                self._add(self._unit(group, eqn.outputs))
        for unit in self.units:  # results that nobody reads are not kept
            if unit.group is not None:
                unit.writes = tuple(v for v in unit.writes if self._escapes(v, (unit,)))

    def _unit(self, group: Group, outputs: Sequence[Var]) -> Unit:
        """A group with what it moves; one without contractions reads each operand once whatever its tiles are."""
        unit = Unit(tuple(sorted(group.owned)), group, None, group.inputs, tuple(outputs), 0)
        if self._contracts(unit):
            unit.bytes = _bytes(group, self._tiling(unit))
        else:
            unit.bytes = sum(map(nbytes, (*group.inputs, *outputs)))
        return unit

    def _tiling(self, unit: Unit) -> Tiling:
        """The tiles of a unit's group; those of one without contractions are settled when all is joined."""
        if unit.tiling is None:
            assert unit.group is not None
            nest = nest_of(unit.group, self.eqns, unit.writes)
            if nest.matrix:
                unit.tiling = self._tile_nest(unit.group, nest)
            else:
                unit.tiling = rough_tiling(unit.group, nest, self.eqns, self.factors.sizes, self.target)
        return unit.tiling

    def _tile_nest(self, group: Group, nest: Nest) -> Tiling:
        return tile_nest(group, nest, self.eqns, self.factors.sizes, self.target, self.choose, parts=self.parts)

    def _settle(self) -> None:
        for unit in self.units:
            if unit.group is None or (unit.tiling is not None and unit.tiling.nest.matrix):
                continue
            nest = nest_of(unit.group, self.eqns, unit.writes) if unit.tiling is None else unit.tiling.nest
            unit.tiling = self._tile_nest(unit.group, nest)
            unit.bytes = _bytes(unit.group, unit.tiling)

    def _add(self, unit: Unit) -> None:
        self.units.append(unit)
        for v in unit.reads:
            self.consumers.setdefault(self.aliases.get(v, v), []).append(unit)
        self.producer.update((v, unit) for v in unit.writes)

    def _remove(self, unit: Unit) -> None:
        self.units.remove(unit)
        for v in unit.reads:
            self.consumers[self.aliases.get(v, v)].remove(unit)

    def _escapes(self, v: Var, within: Sequence[Unit]) -> bool:
        return v in self.returned or any(u not in within for u in self.consumers.get(v, ()))

    # ------------------------------------------------------------------------ kernels of the user

    def _attach(self) -> None:
        """Elementwise neighbours go into the kernels that the user wrote, as long as that moves fewer bytes."""
        for number, eqn in enumerate(self.eqns):
            if eqn.primitive is not kernel_call_p or kernel_call_p in self.excluded:
                continue
            unit = next(u for u in self.units if u.numbers == (number,))
            while (found := self._neighbour(unit)) is not None:
                unit = found

    def _neighbour(self, unit: Unit) -> Unit | None:
        for v in unit.reads:
            producer = self.producer.get(v)
            if producer is not None and producer.group is not None and producer.writes == (v,):
                if found := self._attached(unit, producer, v, before=True):
                    return found
        for v in unit.writes:
            for consumer in dict.fromkeys(self.consumers.get(v, ())):
                if consumer.group is not None and (found := self._attached(unit, consumer, v, before=False)):
                    return found
        return None

    def _attached(self, unit: Unit, other: Unit, v: Var, before: bool) -> Unit | None:
        """The kernel of a unit with a neighbour in it; None, with the reason noted, where that cannot be."""
        assert other.group is not None
        call = self.eqns[unit.first]
        kept = frozenset(w for w in call.outputs if self._escapes(w, (unit, other)))
        step = Step(before, other.group, v, other.writes, kept)
        found: Attached | str = "an operation between the two is in neither"
        if any(w in self.aliases for w in (*other.reads, *unit.reads)):
            found = "the contraction reads it along two loops"
        elif before and self._escapes(v, (unit,)):
            found = "it has other consumers"
        elif not self._path_around(unit, other):
            found = step.into(call, self.eqns)
        if type(found) is not str and self.declined is not None:
            found = self.declined(found.kernel, self.target) or found
        moved = 0 if type(found) is str else bytes_moved(found.kernel)
        if moved >= unit.bytes + other.bytes:
            found = f"fused it would move {moved:,} bytes, unfused {unit.bytes + other.bytes:,}"
        if type(found) is str:
            self.beside[(unit.first, v)] = found
            return None
        assert isinstance(found, Attached)
        self.eqns[unit.first] = self.replaced[unit.first] = called(found.kernel, found.reads, found.writes, call)
        if unit.first in self.seeds:
            self.seeds[unit.first].steps.append(step)
        for one in (unit, other):
            self._remove(one)
        made = Unit(unit.numbers, None, None, tuple(dict.fromkeys(found.reads)), found.writes, moved, unit.reason)
        self._add(made)
        return made

    # ------------------------------------------------------------------------ special loop nests

    def _stand(self) -> None:
        """Operations with special loop nests become kernels where neighbours fuse into them."""
        for unit in sorted(self.units, key=lambda u: u.first):
            number = unit.first
            eqn = self.eqns[number]
            unit.reason = APART.get(eqn.primitive, unit.reason) if unit.group is None else unit.reason
            if eqn.primitive not in STANDING - self.excluded or unit.numbers != (number,) or not self._left(unit):
                continue
            found = seed_of(eqn, self.target, self.choose)
            trial = found if isinstance(found, str) else self._trial(unit, found)
            if isinstance(trial, str):
                unit.reason = trial
                continue
            self._remove(unit)
            self._add(trial)
            made = trial
            while (more := self._neighbour(made)) is not None:
                made = more
            if made is trial:
                self._remove(trial)
                self._add(unit)
                self.eqns[number] = eqn
                del self.seeds[number]

    def _trial(self, unit: Unit, found: Seed) -> Unit | str:
        """An operation as a kernel, with what its operands would be made by again in any case; or why not."""
        call = found.call(found.tiles)
        for v in found.eqn.inputs if unit.group is not None else ():
            i = self.maker.get(v) if type(v) is Var else None
            if i is None or i not in self.copied or isinstance(call, str):
                continue
            group = single(i, self._copies(i), self.eqns, self.factors)
            assert group is not None and type(v) is Var
            step = Step(True, group, v, (v,), frozenset(call.outputs))
            with_it = step.into(call, self.eqns)
            if isinstance(with_it, str):
                return with_it
            call = called(with_it.kernel, with_it.reads, with_it.writes, call)
            found.steps.append(step)
        if isinstance(call, str):
            return call
        self.eqns[unit.first], self.seeds[unit.first] = call, found
        moved = min(unit.bytes, bytes_moved(call.params["kernel"]))
        return Unit(unit.numbers, None, None, tuple(dict.fromkeys(call.inputs)), unit.writes, moved)  # type: ignore[arg-type]

    def _left(self, unit: Unit) -> bool:
        """Whether an operation is in no kernel, and beside a group or with equations that make its operands again."""
        if unit.group is not None:
            return self._tiling(unit).refused is not None
        around = [u for v in unit.writes for u in self.consumers.get(v, ())]
        around += [p for v in unit.reads if (p := self.producer.get(v)) is not None]
        return any(u.group is not None for u in around)

    # ------------------------------------------------------------------------ joining

    def _join_producers(self) -> None:
        changed = True
        while changed:
            changed = False
            for unit in sorted(self.units, key=lambda u: u.first):
                if unit.group is None or unit not in self.units:
                    continue
                tried: set[int] = set()
                while (producer := self._next_producer(unit, tried)) is not None:
                    tried.add(producer.first)
                    joined = self._try(producer, unit)
                    if joined is not None:
                        unit, changed = joined, True

    def _next_producer(self, unit: Unit, tried: set[int]) -> Unit | None:
        found = [(-nbytes(v), p.first, p) for v in unit.reads if v not in self.aliases and (p := self.producer.get(v))]
        found = [f for f in found if f[2].group is not None and f[1] not in tried and f[2] is not unit]
        return min(found, key=lambda f: f[:2])[2] if found else None

    def _join_siblings(self) -> None:
        """Join readers of one value; those that contract gain little from sharing a read, and lose their tiles."""
        for v in list(self.consumers):
            readers = [u for u in dict.fromkeys(self.consumers[v]) if u.group is not None and not self._contracts(u)]
            for i, one in enumerate(readers):
                for other in readers[i + 1 :]:
                    if one in self.units and other in self.units:
                        joined = self._try(*sorted((one, other), key=lambda u: u.first), between=False)
                        if joined is not None:
                            one = joined

    def _contracts(self, unit: Unit) -> bool:
        assert unit.group is not None
        return not self.dots.isdisjoint(unit.group.eqns)

    def _try(self, a: Unit, b: Unit, between: bool = True) -> Unit | None:
        """The two units as one; None, with the reason noted, where that cannot or should not be."""
        if (a, b) in self.tried:
            return None
        self.tried.add((a, b))
        found = self._joined(a, b)
        if type(found) is str:
            if between:
                self.refused[(a.last, b.first)] = found
            return None
        assert isinstance(found, Unit)
        self._remove(a)
        self._remove(b)
        self._add(found)
        return found

    def _joined(self, a: Unit, b: Unit) -> Unit | str:
        assert a.group is not None and b.group is not None
        dots = self.dots.intersection((*a.group.eqns, *b.group.eqns))
        if len(dots) > CONTRACTIONS:
            return f"a body holds {CONTRACTIONS} contractions at most"
        if self._path_around(a, b):
            return "an operation between the two is in neither"
        group = join(a.group, b.group, self.eqns)
        if group is None:
            return "a value would be tiled along two loops at once"
        made = {v for i in group.owned for v in self.eqns[i].outputs}
        if any(self.aliases.get(v) in made for v in group.inputs if v in self.aliases):
            return "the contraction reads it along two loops"
        outputs = tuple(v for i in sorted(group.owned) for v in self.eqns[i].outputs if self._escapes(v, (a, b)))
        if not self.explained and sum(map(nbytes, (*group.inputs, *outputs))) >= a.bytes + b.bytes:
            return "it would move more bytes"
        unit = self._unit(group, outputs)
        if (why := self._tiling(unit).refused) is not None:
            return f"fused, {why}"
        if unit.bytes >= a.bytes + b.bytes:
            return f"fused it would move {unit.bytes:,} bytes, unfused {a.bytes + b.bytes:,}"
        return self._again(unit, dots) or self._starved(a, b, unit) or unit

    def _again(self, unit: Unit, dots: Iterable[int]) -> str | None:
        """Whether a contraction would be computed for more than one cell."""
        group, tiling = unit.group, unit.tiling
        assert group is not None and tiling is not None
        for i in dots:
            own = {x for a in (*self.eqns[i].inputs, *self.eqns[i].outputs) if type(a) is Var for x in group.axes[a]}
            times = math.prod(tiling.count(x) for x in tiling.grid if x not in own)
            if times > 1:
                return f"a contraction would be computed {times} times"
        return None

    def _starved(self, a: Unit, b: Unit, unit: Unit) -> str | None:
        """On a GPU, whether joining leaves processors without work that they had."""
        if not self.target.gpu:
            return None
        cells = self._tiling(unit).parallel_cells
        if 2 * cells >= self.target.units:
            return None
        kept = [u for u in (a, b) if set(u.writes) & set(unit.writes) and not self._tiling(u).refused]
        had = max((u.tiling.parallel_cells for u in kept), default=0)  # type: ignore[union-attr]
        work = max((math.prod(v.type.shape) for u in kept for v in (*u.reads, *u.writes)), default=0)
        had = min(had, work // BUSY)
        if 2 * cells < min(self.target.units, had):
            return f"{cells} cells would run at once, instead of {had}, on {self.target.units} processors"
        return None

    def _path_around(self, a: Unit, b: Unit) -> bool:
        """Whether a path between the two, in either direction, passes through another unit."""
        return self._reaches(a, b) or self._reaches(b, a)

    def _reaches(self, a: Unit, b: Unit) -> bool:
        seen: set[int] = set()
        queue = [u for u in self._after(a) if u is not b]
        while queue:
            unit = queue.pop()
            if unit is b:
                return True
            if id(unit) not in seen and unit.first < b.last:
                seen.add(id(unit))
                queue += self._after(unit)
        return False

    def _after(self, unit: Unit) -> Iterator[Unit]:
        for v in unit.writes:
            yield from self.consumers.get(v, ())

    # ------------------------------------------------------------------------ result

    def alone(self, eqn: Eqn) -> int:
        """The bytes that an equation moves as a separate kernel, at the target's tiles."""
        if eqn.primitive in VIEWS or eqn.primitive is kernel_call_p or why_not(eqn, self.factors) is not None:
            return self.alone_eqn(eqn)
        eqn = self._unaliased(eqn)
        group = single(0, (), [eqn], self.factors)
        if group is None:
            return self.alone_eqn(eqn)
        tiling = tile_nest(group, nest_of(group, [eqn], eqn.outputs), [eqn], self.factors.sizes, self.target)
        return tiling.bytes if tiling.refused is None else self.alone_eqn(eqn)

    def alone_eqn(self, eqn: Eqn) -> int:
        """The bytes of an equation in no kernel made here: operands in, results out."""
        if eqn.primitive is kernel_call_p:
            return bytes_moved(eqn.params["kernel"])
        reads = dict.fromkeys(a for a in eqn.inputs if type(a) is Var)
        return 0 if eqn.primitive in VIEWS else sum(map(nbytes, (*reads, *eqn.outputs)))

    def reason(self, a: Unit, b: Unit, v: Var) -> str:
        for one in (a, b):
            if (one.first, v) in self.beside:
                return self.beside[(one.first, v)]
        for one in (a, b):
            if one.group is None:
                return f"{self.eqns[one.first].primitive.name}: {one.reason}"
            if not self.is_kernel(one):
                return f"{self.eqns[one.last].primitive.name}: {self.glue_reason(one)}"
        found = self.refused.get((a.last, b.first))
        if found is not None:
            return found
        given = self._joined(a, b)
        return given if type(given) is str else "the order in which groups were joined"

    def tiled(self, unit: Unit, tiles: Sequence[int]) -> Tiling:
        """The loop nest of a group with other tiles."""
        assert unit.group is not None and unit.tiling is not None
        sizes = self.factors.sizes
        return tile_nest(unit.group, unit.tiling.nest, self.eqns, sizes, self.target, lambda loops: tuple(tiles))

    def is_kernel(self, unit: Unit) -> bool:
        """Whether a group is worth a kernel: it fits, reads an array, and does more than to move one."""
        group, tiling = unit.group, unit.tiling
        if group is None or tiling is None or tiling.refused is not None:
            return False
        if not any(v.type.shape for v in (*unit.reads, *unit.writes)) or self._indexes(unit):
            return False
        return any(self.eqns[i].primitive.kind is not MOVER for i in group.eqns) and bool(unit.reads)

    def _indexes(self, unit: Unit) -> bool:
        """Whether a group makes nothing but indices of gathers and scatters outside of kernels, maybe moved before."""

        def places(reader: Unit, v: Var) -> bool:
            if reader.group is not None:
                return all(self.eqns[i].primitive.kind is MOVER for i in reader.group.eqns) and self._indexes(reader)
            eqn = self.eqns[reader.first]
            return eqn.primitive in INDEXED and [n for n, a in enumerate(eqn.inputs) if a is v] == [1]

        return bool(unit.writes) and all(
            v not in self.returned and self.consumers.get(v) and all(places(u, v) for u in self.consumers[v])
            for v in unit.writes
        )

    def glue_reason(self, unit: Unit) -> str:
        if unit.reason is not None:
            return unit.reason
        if self._indexes(unit):
            return "it makes indices, which the compiler computes where they are used"
        assert unit.tiling is not None
        moves = any(v.type.shape for v in unit.writes)
        return unit.tiling.refused or (
            "it only moves elements, or is a constant" if moves else "scalars alone make no block"
        )


def _bytes(group: Group, tiling: Tiling) -> int:
    """What a group moves; as separate operations, where its blocks do not fit."""
    if tiling.refused is None:
        return tiling.bytes
    return sum(map(nbytes, (*group.inputs, *tiling.nest.outputs)))
