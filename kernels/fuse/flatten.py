"""Programs without calls: what stands between operations and their neighbours is taken away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.ir import Atom, Eqn, Program, Var
from ...core.primitives.checkpoint import checkpoint_p
from ...core.primitives.control import PRIMITIVES as CONTROL
from ...core.primitives.custom_calls import custom_jvp_call_p, custom_vjp_call_p
from ...core.primitives.jit import jit_p
from ...core.rewrite import substitute
from ...lang.normalize import rename

# By the time of the pass derivatives have been taken: a function with rules of its own is its Program.
CALLS = frozenset((jit_p, custom_jvp_call_p, custom_vjp_call_p))
# What holds Programs that run as they stand, or not at all: branches, loop bodies, what a reverse sweep runs again.
BODIES = frozenset((*CONTROL, checkpoint_p))


def inline_calls(program: Program) -> Program:
    """The Program with the calls in it replaced by their equations, variables renamed."""
    if not any(e.primitive in CALLS for e in program.eqns):
        return program
    eqns: list[Eqn] = []
    constants, values = list(program.constants), list(program.values)
    env: dict[Var, Atom] = {}
    for eqn in program.eqns:
        eqn = substitute(eqn, env)
        if eqn.primitive not in CALLS:
            eqns.append(eqn)
            continue
        inner = rename(inline_calls(eqn.params["program"]), eqn.inputs)
        constants += inner.constants
        values += inner.values
        eqns += inner.eqns
        env.update(zip(eqn.outputs, inner.outputs, strict=True))
    outputs = [env.get(a, a) if type(a) is Var else a for a in program.outputs]
    return program.replace(eqns=eqns, outputs=outputs, constants=constants, values=values)


def map_bodies(eqn: Eqn, change: Callable[[Program], Program]) -> Eqn:
    """An equation of control flow with each of its Programs changed; any other as it is."""
    if eqn.primitive not in BODIES:
        return eqn

    def changed(value: Any) -> Any:
        if isinstance(value, Program):
            return change(value)
        return tuple(changed(v) for v in value) if type(value) is tuple else value

    return eqn.replace(params={name: changed(value) for name, value in eqn.params.items()})
