"""Programs without calls: what stands between operations and their neighbours is taken away."""

from __future__ import annotations

from collections.abc import Callable

from ...core.ir.passes import within
from ...core.ir.program import Eqn, Program
from ...core.primitives.control_flow.functions import PRIMITIVES as CONTROL
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.custom.checkpoint import checkpoint_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p, linear_call_p
from ...lang.kernel.canonicalize import inline_calls

# Derivatives were taken before this pass: a function with custom rules, or a transpose of its own, is its Program.
CALLS = frozenset((jit_p, custom_jvp_call_p, custom_vjp_call_p, linear_call_p))
# What holds Programs that run as they stand, or not at all: branches, loop bodies, what a reverse sweep runs again.
BODIES = frozenset((*CONTROL, checkpoint_p))


def flat(program: Program) -> Program:
    """The Program with the calls in it replaced by their equations."""
    return inline_calls(program, lambda eqn: eqn.primitive in CALLS)


def map_bodies(eqn: Eqn, change: Callable[[Program], Program]) -> Eqn:
    """An equation of control flow with each of its Programs changed; any other as it is."""
    return within(eqn, change) if eqn.primitive in BODIES else eqn
