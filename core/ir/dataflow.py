"""How values flow between an equation and the Programs among its parameters: calls, branches and loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .program import Atom, Eqn, Program, Var, subprograms


class Flow(NamedTuple):
    """An atom outside of a Program and the one inside that it is; outside it has `ahead` more leading axes."""

    outside: Atom
    inside: Atom
    ahead: int


class Body(NamedTuple):
    """A Program of an equation, with the flows into its inputs and out of its outputs.

    A loop-carried value flows out into the input that carries it, too. `times` bounds how often the Program runs; None:
    no bound is known.
    """

    program: Program
    taken: list[Flow]
    given: list[Flow]
    times: int | None = 1


def flows(outside: Sequence[Atom], inside: Sequence[Atom], ahead: int = 0) -> list[Flow]:
    """A flow for each pair of atoms."""
    return [Flow(a, b, ahead) for a, b in zip(outside, inside, strict=True)]


def bodies(eqn: Eqn) -> list[Body]:
    """The Programs of an equation, by its primitive's rule, or of a call that runs its one Program on all operands.

    Empty where the equation holds no Program, or nothing is known of the operands that its Programs take.
    """
    if eqn.primitive.bodies is not None:
        return list(eqn.primitive.bodies(eqn))
    programs = [program for _, program in subprograms(eqn)]
    if len(programs) != 1 or len(programs[0].inputs) != len(eqn.inputs) or len(programs[0].outputs) != len(eqn.outputs):
        return []
    return [Body(programs[0], flows(eqn.inputs, programs[0].inputs), flows(eqn.outputs, programs[0].outputs))]


def carried(body: Body) -> dict[Var, Atom]:
    """The inputs of a Program that carry a value to its next run, each with the output that it is."""
    inputs = set(body.program.inputs)
    return {a: b for a, b, _ in body.given if type(a) is Var and a in inputs}
