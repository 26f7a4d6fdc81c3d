"""A sum over a batch axis of a contraction is a contraction over that axis too; XLA does not see it by itself."""

from __future__ import annotations

from collections import Counter

from ..core.ir import Eqn, Program, Var
from ..core.rewrite import eliminate_dead


def merge_sums(program: Program) -> Program:
    """Move axes summed over from the batch axes of a `dot_general` to its contracted ones."""
    uses = Counter(a for e in program.eqns for a in e.inputs if type(a) is Var)
    uses.update(a for a in program.outputs if type(a) is Var)
    made = {v: e for e in program.eqns for v in e.outputs}
    eqns = []
    for eqn in program.eqns:
        source = made.get(eqn.inputs[0]) if eqn.primitive.name == "reduce_sum" else None  # type: ignore[arg-type]
        if source is not None and source.primitive.name == "dot_general" and uses[eqn.inputs[0]] == 1:  # type: ignore[index]
            merged = _merge(source, eqn)
            if merged is not None:
                eqns.append(merged)
                continue
        eqns.append(eqn)
    return eliminate_dead(program.replace(eqns=eqns))[0]


def _merge(dot: Eqn, total: Eqn) -> Eqn | None:
    (lc, rc), (lb, rb) = dot.params["dimension_numbers"]
    axes = total.params["axes"]
    if not axes or any(a >= len(lb) for a in axes):
        return None
    pairs = [*zip(lc, rc, strict=True), *((lb[a], rb[a]) for a in axes)]
    pairs.sort()
    kept = [(lb[i], rb[i]) for i in range(len(lb)) if i not in axes]
    numbers = (tuple(zip(*pairs, strict=True)), tuple(zip(*kept, strict=True)) if kept else ((), ()))
    return dot.replace(params=dot.params | {"dimension_numbers": numbers}, outputs=total.outputs)
