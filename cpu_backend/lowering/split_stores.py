"""Stores of concatenated values as stores of the parts, which then are nowhere else in memory."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator
from typing import Any

from ...core.ir.passes import within
from ...core.ir.program import Eqn, Program, Var
from ...core.primitives.movement.shape import concatenate_p
from ...core.primitives.refs.state_primitives import Index, Span, swap_p
from ...lang.kernel.kernel import Kernel
from ...lang.transforms.desugar import uses


def split_stores(kernel: Kernel) -> Kernel:
    """The kernel with such stores split; itself if it has none."""
    return kernel.replace(body=_split(kernel.body)) if uses(kernel.body, {concatenate_p}) else kernel


def _split(program: Program) -> Program:
    used = Counter(a for e in program.eqns for a in e.inputs if type(a) is Var)
    used.update(a for a in program.outputs if type(a) is Var)
    joined: dict[Any, Eqn] = {
        e.outputs[0]: e for e in program.eqns if e.primitive is concatenate_p and used[e.outputs[0]] == 1
    }
    stores = {e: joined[e.inputs[1]] for e in program.eqns if _splits(e, joined, used)}
    gone = set(stores.values())
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        if eqn in stores:
            eqns += _parts(eqn, stores[eqn])
        elif eqn not in gone:
            eqns.append(within(eqn, _split))
    return program.replace(eqns=eqns)


def _splits(eqn: Eqn, joined: dict[Any, Eqn], used: Counter[Var]) -> bool:
    """Whether an equation stores a concatenated value to a static part of a Ref, and nothing wants what was there."""
    if eqn.primitive is not swap_p or eqn.inputs[1] not in joined or used[eqn.outputs[0]]:
        return False
    return not eqn.params["index"].dynamic and not eqn.params.get("masked")


def _parts(store: Eqn, joined: Eqn) -> Iterator[Eqn]:
    ref, index, axis = store.inputs[0], store.params["index"], joined.params["dimension"]
    place = [i for i, entry in enumerate(index) if type(entry) is Span][axis]
    sizes = [part.type.shape[axis] for part in joined.inputs]
    for part, size, offset in zip(joined.inputs, sizes, itertools.accumulate(sizes, initial=0), strict=False):
        span = index[place]
        moved = Span(span.start + offset * span.stride, size, span.stride)
        entries = Index(moved if i == place else entry for i, entry in enumerate(index))
        yield store.replace(inputs=(ref, part), outputs=(Var(part.type),), params=store.params | {"index": entries})
