"""Carries that combine by a monoid, seen as sums: `state = max(state, value)` as `state += value`, and back.

What is known of sums (`lang/analysis/reductions.py`) then holds of maxima, products and the like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Effect, Eqn, Program, Var
from ...core.primitives.elementwise.arithmetic import max_p, min_p, mul_p
from ...core.primitives.elementwise.bitwise import and_p, or_p
from ...core.primitives.reduction.reduce import reduce_and_p, reduce_max_p, reduce_min_p, reduce_or_p, reduce_prod_p
from ...core.primitives.refs.state_primitives import addupdate_p, get_p, swap_p
from ...core.transforms.structural_primitives import add_p, reduce_sum_p
from ..kernel.kernel import Kernel
from ..kernel.traverse import equation
from .split_reduction import reset_value

REDUCERS = {
    add_p: reduce_sum_p, mul_p: reduce_prod_p, max_p: reduce_max_p, min_p: reduce_min_p, and_p: reduce_and_p,
    or_p: reduce_or_p,
}  # fmt: skip
OTHERS = REDUCERS.keys() - {add_p}
NEUTRAL = {add_p: 0, mul_p: 1}  # others are idempotent: a state may start at any value in each stretch


@dataclass(frozen=True)
class _Update:
    """The equations of `state = op(state, value)`."""

    read: Eqn
    combine: Eqn
    store: Eqn

    @property
    def value(self) -> Any:
        a, b = self.combine.inputs
        return b if a is self.read.outputs[0] else a


def as_sums(kernel: Kernel) -> tuple[Kernel, dict[int, Primitive]]:
    """The kernel with such updates as sums, and the operation of each state by its position in the body's inputs."""
    body, first_out = kernel.body, kernel.splits[2]
    found: dict[int, list[_Update]] = {}
    for p, ref in enumerate(body.inputs[first_out:], first_out):
        updates = _updates(body, ref)
        if updates and len({u.combine.primitive for u in updates}) == 1:
            found[p] = updates
    if not found:
        return kernel, {}
    gone = {id(e) for updates in found.values() for u in updates for e in (u.read, u.combine)}
    stores = {id(u.store): u for updates in found.values() for u in updates}
    eqns = [_sum(stores[id(e)]) if id(e) in stores else e for e in body.eqns if id(e) not in gone]
    ops = {p: updates[0].combine.primitive for p, updates in found.items()}
    return kernel.replace(body=body.replace(eqns=eqns)), ops


def _updates(body: Program, ref: Var) -> list[_Update]:
    """The updates of a Ref that are all of what the body itself, branches apart, does with it."""
    used = Counter(a for e in body.eqns for a in e.inputs if type(a) is Var)
    made = {v: e for e in body.eqns for v in e.outputs}
    own = [e for e in body.eqns if ref in e.inputs and e.primitive in (get_p, swap_p, addupdate_p)]
    found = []
    for read, store in zip(own[::2], own[1::2], strict=False):
        combine = made.get(store.inputs[1]) if store.primitive is swap_p and type(store.inputs[1]) is Var else None
        if combine is None or read.primitive is not get_p or combine.primitive not in OTHERS:
            return []
        whole = all(e.params["index"].is_whole(ref.type.shape) and not e.params["masked"] for e in (read, store))
        once = used[read.outputs[0]] == used[combine.outputs[0]] == 1 and not used[store.outputs[0]]
        if not whole or not once or read.outputs[0] not in combine.inputs:
            return []
        found.append(_Update(read, combine, store))
    return found if 2 * len(found) == len(own) else []


def _sum(update: _Update) -> Eqn:
    store = update.store
    effects = frozenset(Effect("accumulate", e.operand) for e in store.effects)
    inputs = (store.inputs[0], update.value, *store.inputs[2:])
    return Eqn(addupdate_p, inputs, (), {"index": store.params["index"], "masked": False}, effects, store.source)


def from_sums(program: Program, ops: Mapping[int, Primitive]) -> Program:
    """A Program of the body's inputs with the sums of some states as the updates that they stand for."""
    refs: dict[Any, Primitive] = {program.inputs[p]: op for p, op in ops.items()}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        op = refs.get(eqn.inputs[0]) if eqn.primitive is addupdate_p else None
        if op is None:
            eqns.append(eqn)
            continue
        ref, value = eqn.inputs[:2]
        read = equation(get_p, [ref], eqn.params, eqn)
        combined = equation(op, [read.outputs[0], value], {}, eqn)
        eqns += [read, combined, equation(swap_p, [ref, combined.outputs[0]], eqn.params, eqn)]
    return program.replace(eqns=eqns) if refs else program


def start_of(init: Program, ref: Var, op: Primitive) -> Any:
    """The number that a state is reset to, once, where each stretch of a sum may start at it; None otherwise."""
    value = reset_value(init, ref)
    if value is None or np.ndim(value):
        return None
    return value if op not in NEUTRAL or value == NEUTRAL[op] else None
