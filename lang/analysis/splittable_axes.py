"""Legal axis splits: which axes of a kernel's blocks are linked, and how outputs without them combine.

    Cut ::= the axes, of Refs and values, that follow one loop of the body; of each output, `SPLIT`, `SAME` or `SUM`

The relations of a body's operations join axes. What the body does along such a loop is parallel, or a sum: each part
of it then adds to what has not the axis (`SUM`), while all parts make the rest alike (`SAME`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.axis_relation import IDENTITY, MOVER, POINTWISE, Parallel, Reduced, relate
from ...core.ir.program import Eqn, Literal, Program, Var
from ...core.ir.types import FAR, ArrayType, MemorySpace, RefType, Type, is_inexact
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.while_loop import while_p
from ...core.primitives.elementwise.arithmetic import div_p, mul_p, sub_p
from ...core.primitives.elementwise.comparison import select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.movement.shape import broadcast_in_dim_p, iota_p, pad_p, reshape_p
from ...core.primitives.refs.state_primitives import Span, access_shape, get_p, split_operands
from ...core.support.memo import cached
from ...core.transforms.structural_primitives import SUM as ADDS
from ...core.transforms.structural_primitives import add_any_p, add_p, neg_p, reduce_sum_p, transpose_p
from ..kernel.canonicalize import touches_refs
from ..kernel.kernel import Kernel
from ..kernel.traverse import dataflow
from ..ops.run_scoped import undefine_p
from .dead_stores import ACCESSES

Unit = Callable[[ArrayType, int], int]
Place = tuple[Any, int]  # an axis of a Ref or value; of an equation, a loop of its relation
SPLIT, SAME, SUM = "split", "same", "sum"
ZERO = "zero"  # zeros are a part of a sum, and the same everywhere
SIZED = {broadcast_in_dim_p: "shape", iota_p: "shape", reshape_p: "new_sizes"}  # the parameter of the result's sizes
_BY_AXES = (*SIZED, dot_general_p, transpose_p, pad_p)
_TOGETHER = (add_p, add_any_p, sub_p, neg_p, reduce_sum_p)  # linear in all operands at once
_EACH = (mul_p, dot_general_p)  # and in each of two


class NoCut(Exception):
    """Why an axis may not be cut."""


@dataclass(frozen=True, eq=False)
class Cut:
    """Linked axes that may be split into `parts`; `weight` is the bytes of Refs and values along them."""

    kernel: Kernel
    axes: frozenset[Place]
    outputs: tuple[str, ...]
    parts: int
    weight: int

    def shape(self, var: Var) -> tuple[int, ...]:
        """The shape of a Ref or value in a part."""
        return tuple(n // self.parts if (var, d) in self.axes else n for d, n in enumerate(var.type.shape))


class _Joined:
    """The axes of a kernel's body by the loop that they follow."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.parent: dict[Place, Place] = {}
        self.sizes: dict[Place, int] = {}
        self.whole: set[Place] = set()
        self.values: dict[Any, int] = {}  # bytes
        ids, first_in, first_out, first_scratch, end = kernel.splits
        refs = kernel.body.inputs
        far = [v for v in refs[ids:end] if v.type.space in (*FAR, MemorySpace.SMEM, MemorySpace.SEMAPHORE)]
        if any(v in far for v in refs[first_out:first_scratch]):
            raise NoCut("an output is far memory")
        self.walk(kernel.body)
        self.keep((*far, *refs[ids:first_in], *kernel.body.constants))
        for i, o in kernel.aliases:
            self.same(refs[first_in + i], refs[first_out + o])
        for block, ref in zip(kernel.blocks, refs[first_in:first_scratch], strict=True):
            for axis, d in enumerate(block.seen):
                if any(block.padding[d]):
                    self.keep([ref], [axis])

    # ---------------------------------------------------------------------- sets

    def find(self, place: Place) -> Place:
        while (up := self.parent[place]) != place:
            place = up
        return place

    def join(self, a: Place, b: Place) -> None:
        one, other = self.find(a), self.find(b)
        if one != other:
            self.parent[one] = other

    def axis(self, var: Var, d: int) -> Place:
        return self.place((var, d), var.type.shape[d])

    def place(self, place: Place, size: int) -> Place:
        self.parent.setdefault(place, place)
        self.sizes[place] = size
        return place

    def axes(self, atom: Literal | Var) -> list[Place]:
        """The axes of an atom; none of a literal's."""
        if type(atom) is not Var or not hasattr(atom.type, "shape"):
            return []
        self.values.setdefault(atom, _array(atom.type).nbytes)
        return [self.axis(atom, d) for d in range(len(atom.type.shape))]

    def same(self, a: Literal | Var, b: Var, ahead: int = 0) -> None:
        """One value under two names, the first with more leading axes."""
        if type(a) is Var and type(b) is Var:
            mine = self.axes(a)
            self.whole.update(mine[:ahead])
            for one, other in zip(mine[ahead:], self.axes(b), strict=True):
                self.join(one, other)
        else:
            self.keep((a, b))

    def keep(self, atoms: Iterable[Any], only: Sequence[int] | None = None) -> None:
        """Axes that are not cut."""
        for atom in atoms:
            found = self.axes(atom)
            self.whole.update(found if only is None else [found[d] for d in only])

    # ---------------------------------------------------------------------- equations

    def walk(self, program: Program) -> None:
        for eqn in program.eqns:
            inner = list(dataflow(eqn))
            if inner:
                for below, taken, given, _ in inner:
                    self.walk(below)
                    for a, b, ahead in (*taken, *given):
                        self.same(a, b, ahead)
            elif eqn.primitive in ACCESSES:
                self.access(eqn)
            else:
                more = any(not isinstance(e.operand, int) for e in eqn.effects)  # it acts on more than Refs
                if touches_refs(eqn) and eqn.primitive is not undefine_p or more:
                    raise NoCut(f"its body has {eqn.primitive}")
                self.operation(eqn)

    def access(self, eqn: Eqn) -> None:
        index, ref = eqn.params["index"], self.axes(eqn.inputs[0])
        n = 1 if eqn.primitive is get_p else 2
        dynamic, mask, other = split_operands(index, eqn.inputs[n:], eqn.params.get("masked", False))
        moved = [*eqn.inputs[1:n], *eqn.outputs, *([mask, other] if mask is not None else [])]
        moved = [a for a in moved if type(a) is Var and a.type.shape]
        self.keep(dynamic)
        if index.takes:
            self.keep((eqn.inputs[0], *moved))
            return
        shape, k = access_shape(index), 0
        for place, entry, n in zip(ref, index, eqn.inputs[0].type.shape, strict=True):
            if not isinstance(entry, Span):
                self.whole.add(place)
                continue
            seen = [self.axes(a)[k] for a in moved]
            if entry.start == 0 and entry.size == n and entry.stride == 1:
                for one in seen:
                    self.join(place, one)
            else:
                self.whole.update((place, *seen))
            k += 1
        assert k == len(shape)

    def operation(self, eqn: Eqn) -> None:
        relation, every = relate(eqn), (*eqn.inputs, *eqn.outputs)
        if relation is None or not _by_axes(eqn):
            self.keep(every)
            return
        kinds = relation.kinds
        for atom, axes in zip(every, (*relation.operands, *relation.results), strict=True):
            for place, factors in zip(self.axes(atom), axes if type(atom) is Var else (), strict=False):
                if not factors or not isinstance(kinds[factors[0]], (Parallel, Reduced)):
                    self.whole.add(place)
                    continue
                loops = [self.place((eqn, f), relation.sizes[f]) for f in factors]
                self.join(loops[0], place)  # an axis is cut along its outermost factor
                self.whole.update(loops[1:])

    def classes(self) -> list[frozenset[Place]]:
        """The sets of linked axes that may be split."""
        found: dict[Place, set[Place]] = {}
        for place in list(self.parent):
            found.setdefault(self.find(place), set()).add(place)
        kept = {self.find(p) for p in self.whole}
        refs = set(self.kernel.body.inputs)
        return [frozenset(c) for root, c in found.items() if root not in kept and any(v in refs for v, _ in c)]


def _by_axes(eqn: Eqn) -> bool:
    """Whether an operation on parts of its operands is the same operation, its parameters as they are or resized."""
    primitive = eqn.primitive
    if len(eqn.outputs) != 1:
        return False
    return primitive.kind in (POINTWISE, IDENTITY) or primitive.axes is not None or primitive in _BY_AXES


def _array(type_: Type) -> ArrayType:
    return type_.array if isinstance(type_, RefType) else type_


class _Parts:
    """What becomes of values and Refs without an axis when it is cut: the same in each part, or a part of a sum."""

    def __init__(self, kernel: Kernel, axes: frozenset[Place]):
        self.kernel, self.axes = kernel, axes
        self.split = {v for v, _ in axes if isinstance(v, Var)}
        self.known: dict[Any, str] = {}
        self.changed = True
        _, _, first_out, first_scratch, end = kernel.splits
        for n, v in enumerate(kernel.body.inputs):
            self.known[v] = SPLIT if v in self.split else SAME if n < first_out else ZERO
        if any(kernel.body.inputs[first_out + o] not in self.split for _, o in kernel.aliases):
            raise NoCut("an output without the axis starts as an operand")
        while self.changed:
            self.changed = False
            self.walk(kernel.body)
        self.outputs = tuple(SAME if (s := self.known[v]) == ZERO else s
                             for v in kernel.body.inputs[first_out:first_scratch])  # fmt: skip

    def of(self, atom: Literal | Var) -> str:
        if isinstance(atom, Literal):
            return ZERO if not np.any(atom.value) else SAME
        return self.known.get(atom, ZERO)

    def put(self, var: Var, status: str) -> None:
        """Note one more thing of what a variable holds."""
        if var in self.split:
            if status == SUM:
                raise NoCut("a sum over the axis meets what follows it")
            status = SPLIT
        old = self.known.get(var, ZERO)
        if status == SPLIT and var not in self.split:
            raise NoCut("the axis is lost")
        new = status if old == ZERO else old if status in (ZERO, old) else None
        if new is None:
            raise NoCut("a sum over the axis meets what is no part of it")
        if new != old or var not in self.known:
            self.known[var], self.changed = new, self.changed or new != old

    def walk(self, program: Program) -> None:
        for eqn in program.eqns:
            inner = list(dataflow(eqn))
            for below, taken, given, _ in inner:
                for a, b, _ in taken:
                    self.put(b, self.of(a))
                self.walk(below)
                for a, b, _ in taken:  # what it left in Refs
                    if type(a) is Var and isinstance(a.type, RefType):
                        self.put(a, self.of(b))
                for a, b, _ in given:
                    self.put(a, self.of(b))
                self.decides(below.outputs if not given and eqn.primitive is while_p else eqn.inputs[:1], eqn)
            if eqn.primitive in ACCESSES:
                self.access(eqn)
            elif not inner and eqn.outputs:
                self.put(eqn.outputs[0], self.operation(eqn)) if len(eqn.outputs) == 1 else self.opaque(eqn)

    def decides(self, atoms: Sequence[Any], eqn: Eqn) -> None:
        if eqn.primitive in (cond_p, while_p) and self.of(atoms[0]) == SUM:
            raise NoCut("a sum over the axis decides what is done")

    def access(self, eqn: Eqn) -> None:
        ref, n = eqn.inputs[0], 1 if eqn.primitive is get_p else 2
        if SUM in map(self.of, eqn.inputs[n:]):
            raise NoCut("a sum over the axis says where memory is accessed")
        if n == 2:
            self.put(ref, self.of(eqn.inputs[1]))
        if eqn.outputs:
            self.put(eqn.outputs[0], self.of(ref))

    def opaque(self, eqn: Eqn) -> None:
        if {SUM, SPLIT} & {self.of(a) for a in eqn.inputs}:
            raise NoCut(f"{eqn.primitive} takes a part")
        for v in eqn.outputs:
            self.put(v, SAME)

    def operation(self, eqn: Eqn) -> str:
        found = [self.of(a) for a in eqn.inputs]
        primitive = eqn.primitive
        if SPLIT in found:
            if SUM in found:
                raise NoCut("a sum over the axis meets what follows it")
            return SPLIT if eqn.outputs[0] in self.split else self.reduced(eqn)
        if SUM not in found:
            zero = all(s == ZERO for s in found) and found and _linear(eqn, found)
            return ZERO if zero else SAME
        if not _linear(eqn, found):
            raise NoCut(f"{primitive} takes a sum over the axis")
        return SUM

    def reduced(self, eqn: Eqn) -> str:
        relation = relate(eqn)
        over = [] if relation is None else [k for i, k in enumerate(relation.kinds) if (eqn, i) in self.axes]
        if len(over) == 1 and isinstance(over[0], Reduced) and over[0].monoid is ADDS:
            return SUM
        raise NoCut(f"{eqn.primitive} joins the axis")


def _linear(eqn: Eqn, found: Sequence[str]) -> bool:
    """Whether an operation on parts of sums gives a part of the sum."""
    primitive, parts, every = eqn.primitive, [s in (SUM, ZERO) for s in found], (*eqn.inputs, *eqn.outputs)
    if primitive in (convert_element_type_p, div_p) and not all(is_inexact(a.type.dtype) for a in every):
        return False
    if primitive is convert_element_type_p:
        return all(parts)
    if primitive in _TOGETHER or primitive.kind in (MOVER, IDENTITY):
        return all(parts)
    if primitive in _EACH:
        return found.count(SUM) == 1 or ZERO in found
    if primitive is div_p:
        return parts[0] and found[1] == SAME
    return primitive is select_n_p and all(parts[1:])


@cached(256)
def linked_axes(kernel: Kernel) -> tuple[frozenset[Place], ...]:
    """For each loop that a kernel's body in plain accesses treats alike, or sums over, the axes that follow it."""
    try:
        return tuple(_Joined(kernel).classes())
    except NoCut:
        return ()


@cached(256)
def cuts(kernel: Kernel, parts: int, unit: Unit) -> tuple[Cut, ...] | str:
    """The ways to cut a kernel's blocks in some parts, the one that makes the most of them smaller first.

    The kernel is in plain accesses. `unit(type, axis)` divides what is left of an axis. Where there is no way, why.
    """
    found, why = [], "its body needs each axis of its blocks whole"
    try:
        joined = _Joined(kernel)
    except NoCut as none:
        return str(none)
    for axes in joined.classes():
        if not all(_divides(joined, place, parts, unit) for place in axes):
            why = "what is left of an axis would be too small"
            continue
        try:
            outputs = _Parts(kernel, axes).outputs
        except NoCut as none:
            why = str(none)
            continue
        weight = sum(joined.values[v] for v in {v for v, _ in axes} if v in joined.values)
        found.append(Cut(kernel, axes, outputs, parts, weight))
    return tuple(sorted(found, key=lambda c: -c.weight)) or why


def outputs_cut(kernel: Kernel, parts: int, unit: Unit) -> Cut | None:
    """The cut of an axis of each output, the one with the most elements that may be cut; None where one has none."""
    try:
        joined = _Joined(kernel)
        classes = [c for c in joined.classes() if all(_divides(joined, place, parts, unit) for place in c)]
        axes: frozenset[Place] = frozenset()
        for ref in kernel.body.inputs[kernel.splits[2] : kernel.splits[3]]:
            found = [(n, c) for c in classes for d, n in enumerate(ref.type.shape) if (ref, d) in c]
            if not found:
                return None
            axes |= max(found, key=lambda pair: pair[0])[1]
        outputs = _Parts(kernel, axes).outputs
    except NoCut:
        return None
    return Cut(kernel, axes, outputs, parts, 0) if all(kind == SPLIT for kind in outputs) else None


def _divides(joined: _Joined, place: Place, parts: int, unit: Unit) -> bool:
    var, d = place
    return joined.sizes[place] % (parts * (unit(_array(var.type), d) if isinstance(var, Var) else 1)) == 0
