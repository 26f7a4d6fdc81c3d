"""Contractions recognised in sums of products, which XLA does not find by itself.

A sum over a batch axis of a contraction is a contraction over that axis too. A contraction whose result is then
transposed so that the right operand's axes come first is one with its operands exchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ...core.ir.passes import eliminate_dead
from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program, Var
from ...core.ir.types import ArrayType
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.movement.shape import transpose_p
from ...core.primitives.reduction.reduce import reduce_sum_p


class _Chains:
    """The equations of a Program, for looking at what made a value that is used once."""

    def __init__(self, program: Program):
        self.uses = Counter(a for e in program.eqns for a in e.inputs if type(a) is Var)
        self.uses.update(a for a in program.outputs if type(a) is Var)
        self.made: dict[Var, Eqn] = {}

    def source(self, eqn: Eqn, primitive: Primitive) -> Eqn | None:
        """The equation that makes the first operand of another, if it is of this primitive and nothing else uses it."""
        var = eqn.inputs[0] if eqn.inputs else None
        found = self.made.get(var) if type(var) is Var and self.uses[var] == 1 else None
        return found if found is not None and found.primitive is primitive else None

    def bind(self, eqn: Eqn) -> Eqn:
        self.made.update((v, eqn) for v in eqn.outputs)
        return eqn


def merge_sums(program: Program) -> Program:
    """Move axes summed over from the batch axes of a `dot_general` (perhaps transposed) to its contracted ones."""
    chains = _Chains(program)
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        if eqn.primitive is reduce_sum_p:
            turned = chains.source(eqn, transpose_p)
            dot = chains.source(turned or eqn, dot_general_p)
            merged = None if dot is None else _merge(dot, turned, eqn)
            if merged is not None:
                eqns += map(chains.bind, merged)
                continue
        eqns.append(chains.bind(eqn))
    return eliminate_dead(program.replace(eqns=eqns))[0]


def _merge(dot: Eqn, turned: Eqn | None, total: Eqn) -> list[Eqn] | None:
    (lc, rc), (lb, rb) = dot.params["dimension_numbers"]
    rank = len(dot.outputs[0].type.shape)
    permutation: Sequence[int] = range(rank) if turned is None else turned.params["permutation"]
    gone = [permutation[a] for a in total.params["axes"]]
    if not gone or any(a >= len(lb) for a in gone):
        return None
    pairs = sorted([*zip(lc, rc, strict=True), *((lb[a], rb[a]) for a in gone)])
    kept = [(lb[i], rb[i]) for i in range(len(lb)) if i not in gone]
    numbers = (tuple(zip(*pairs, strict=True)), tuple(zip(*kept, strict=True)) if kept else ((), ()))
    params = dot.params | {"dimension_numbers": numbers}
    if turned is None:
        return [dot.replace(params=params, outputs=total.outputs)]
    left = [a for a in range(rank) if a not in gone]
    shape = dot.outputs[0].type.shape
    middle = Var(ArrayType(tuple(shape[a] for a in left), dot.outputs[0].type.dtype))
    order = tuple(left.index(p) for p in permutation if p not in gone)
    return [
        dot.replace(params=params, outputs=(middle,)),
        turned.replace(inputs=(middle,), outputs=total.outputs, params={"permutation": order}),
    ]


def exchange(program: Program) -> Program:
    """Join transposes that follow one another, and take one that only exchanges a contraction's operands into it."""
    chains = _Chains(program)
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        if eqn.primitive is transpose_p:
            first = chains.source(eqn, transpose_p)
            if first is not None:
                order = tuple(first.params["permutation"][p] for p in eqn.params["permutation"])
                eqn = eqn.replace(inputs=first.inputs, params={"permutation": order})
                chains.uses[first.inputs[0]] = 1  # type: ignore[index]
            dot = chains.source(eqn, dot_general_p)
            if dot is not None:
                eqn = _exchanged(dot, eqn) or eqn
        eqns.append(chains.bind(eqn))
    return eliminate_dead(program.replace(eqns=eqns))[0]


def _exchanged(dot: Eqn, turned: Eqn) -> Eqn | None:
    (lc, rc), (lb, rb) = dot.params["dimension_numbers"]
    lhs, rhs = dot.inputs
    batch = len(lb)
    left = len(lhs.type.shape) - len(lc) - batch
    rank = len(turned.params["permutation"])
    wanted = (*range(batch), *range(batch + left, rank), *range(batch, batch + left))
    if turned.params["permutation"] != wanted:
        return None
    precision = dot.params.get("precision")
    params = dot.params | {
        "dimension_numbers": ((rc, lc), (rb, lb)),
        "precision": precision and (precision[1], precision[0]),
    }
    return dot.replace(inputs=(rhs, lhs), outputs=turned.outputs, params=params)
