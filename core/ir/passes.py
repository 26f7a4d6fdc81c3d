"""Passes from Program to Program that need no rules per primitive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .primitive import Primitive
from .program import Atom, Eqn, Program, Var, subprograms


def hoist(program: Program) -> tuple[Program, list[Any]]:
    """Turn constants into leading inputs; gives the new Program and the values to pass there."""
    if not program.constants:
        return program, []
    values = list(program.values)
    inputs = (*program.constants, *program.inputs)
    return program.replace(inputs=inputs, constants=(), values=()), values


def eliminate_dead(
    program: Program, used: Sequence[bool] | None = None, keep_inputs: bool = True
) -> tuple[Program, list[bool]]:
    """Drop unused outputs and the equations only they need; gives the Program and which inputs are used.

    Equations with effects stay, except reads of a Ref whose result nobody uses. With
    `keep_inputs=False` unused inputs are dropped too.
    """
    used = [True] * len(program.outputs) if used is None else used
    outputs = [a for a, u in zip(program.outputs, used, strict=True) if u]
    live: set[Any] = set(outputs)
    kept: list[Eqn] = []
    for eqn in reversed(program.eqns):
        if live.isdisjoint(eqn.outputs) and all([e.kind in ("read", "axis") for e in eqn.effects]):
            continue
        if eqn.primitive.dce is not None:
            eqn = _reduced(eqn, [v in live for v in eqn.outputs])
            if eqn is None:
                continue
        live.update(eqn.inputs)
        kept.append(eqn)
    kept.reverse()
    used_inputs = [v in live for v in program.inputs]
    inputs = program.inputs if keep_inputs else [v for v in program.inputs if v in live]
    pairs = [(v, x) for v, x in zip(program.constants, program.values, strict=True) if v in live]
    same = len(inputs) == len(program.inputs) and len(pairs) == len(program.values) and all(used)
    if same and kept == [*program.eqns]:
        return program, used_inputs
    result = program.replace(
        inputs=inputs, eqns=kept, outputs=outputs, constants=[v for v, _ in pairs], values=[x for _, x in pairs]
    )
    return result, used_inputs


def _reduced(eqn: Eqn, used: Sequence[bool]) -> Eqn | None:
    """An equation without results that are not used, and without what the Programs within it do not need for the rest.

    It is the same object where nothing goes.
    """
    if eqn.primitive.dce is None or (all(used) and not any(subprograms(eqn))):
        return eqn
    less = eqn.primitive.dce(used, eqn)
    if less is None or len(less.inputs) + len(less.outputs) < len(eqn.inputs) + len(eqn.outputs):
        return less
    within = zip(subprograms(eqn), subprograms(less), strict=True)
    return eqn if all(used) and all(a is b for (_, a), (_, b) in within) else less


def without_unread(eqn: Eqn) -> Eqn:
    """An equation with all its results, without the operands that none of the Programs within it reads."""
    return _reduced(eqn, [True] * len(eqn.outputs)) or eqn


def substitute(eqn: Eqn, env: dict[Var, Atom]) -> Eqn:
    """An equation with its operands renamed."""
    return eqn.replace(inputs=tuple(env.get(a, a) if type(a) is Var else a for a in eqn.inputs))


class Vocabulary(NamedTuple):
    """What a Program is made of: the primitives in it and in the Programs within it, and those Programs."""

    primitives: frozenset[Primitive]
    programs: frozenset[Program]


def vocabulary(program: Program) -> Vocabulary:
    """What a Program is made of, found out once."""
    found = program.vocabulary
    if found is None:
        primitives = {eqn.primitive for eqn in program.eqns}
        programs: set[Program] = set()
        for eqn in program.eqns:
            for value in eqn.params.values():
                if type(value) is Program:
                    programs.add(value)
                elif type(value) is tuple:
                    programs.update(v for v in value if type(v) is Program)
        for inner in tuple(programs):
            below = vocabulary(inner)
            primitives |= below.primitives
            programs |= below.programs
        found = program.vocabulary = Vocabulary(frozenset(primitives), frozenset(programs))
    return found


def primitives_of(program: Program) -> frozenset[Primitive]:
    """The primitives in a Program and in those within it."""
    return vocabulary(program).primitives


def occurrences(program: Program, primitive: Primitive) -> int:
    """How many equations of a primitive there are in a Program and in those within it, one that occurs twice twice."""
    known: dict[Program, int] = {}

    def found(inner: Program) -> int:
        if inner not in known:
            below = (found(p) for eqn in inner.eqns for _, p in subprograms(eqn))
            known[inner] = sum(eqn.primitive is primitive for eqn in inner.eqns) + sum(below)
        return known[inner]

    return found(program) if primitive in primitives_of(program) else 0


def rewritten(
    program: Program, wanted: Callable[[Primitive], bool], change: Callable[[Eqn], Eqn], known: dict[Any, Any]
) -> Program:
    """A Program with `change` made to every equation of a wanted primitive, in the Programs within it too.

    A Program without such an equation is given back itself, and one that is met twice is changed once: `known` has
    what was changed so far.
    """
    if not any(map(wanted, primitives_of(program))):
        return program
    found = known.get(program)
    if found is None:
        eqns = []
        for eqn in program.eqns:
            eqn = within(eqn, lambda inner: rewritten(inner, wanted, change, known))
            eqns.append(change(eqn) if wanted(eqn.primitive) else eqn)
        found = known[program] = program.replace(eqns=eqns)
    return found


def within(eqn: Eqn, change: Callable[[Program], Program]) -> Eqn:
    """An equation with each Program among its parameters changed; itself where none is."""
    params: dict[str, Any] = {}
    for name, value in eqn.params.items():
        if type(value) is Program:
            new: Any = change(value)
        elif type(value) is tuple and any(type(v) is Program for v in value):
            new = tuple(change(v) if type(v) is Program else v for v in value)
        else:
            continue
        if new != value:
            params[name] = new
    if not params:
        return eqn
    params, effects = eqn.params | params, eqn.primitive.effects
    return eqn.replace(
        params=params, effects=effects(*(a.type for a in eqn.inputs), **params) if effects else eqn.effects
    )
