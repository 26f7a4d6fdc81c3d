"""Optimisation barriers between hashes of random keys and broadcasts of their words, in programs for the CPU.

XLA fuses a hash with the consumers of its words. Where these are broadcast along an axis, the hash is recomputed for
each element, and LLVM's vectoriser, which checks whether all uses of a value are uniform, walks each of the 4**20 paths
through the rounds: one such program took longer than ten minutes to compile. A barrier therefore precedes each
broadcast of words, and each hash whose keys are words of another hash.
"""

from __future__ import annotations

from ...core.ir.passes import primitives_of
from ...core.ir.program import Eqn, Program, Var, subprograms
from ...core.ir.types import ArrayType
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.custom.checkpoint import optimization_barrier_p
from ...core.primitives.keys.threefry import threefry2x32_p
from ...core.primitives.movement.shape import broadcast_in_dim_p

Flags = tuple[bool, ...]  # which values hold words of a hash


def isolate_hashes(program: Program) -> Program:
    """The Program with barriers before broadcasts of hashes' words; loop bodies are unchanged."""
    if threefry2x32_p not in primitives_of(program):
        return program
    return _isolated(program, (False,) * len(program.inputs), {})[0]


def _isolated(
    program: Program, given: Flags, known: dict[tuple[Program, Flags], tuple[Program, Flags]]
) -> tuple[Program, Flags]:
    if (program, given) in known:
        return known[program, given]
    words = {v for v, of_words in zip(program.inputs, given, strict=True) if of_words}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        repeated = [a for a in dict.fromkeys(eqn.inputs) if type(a) is Var and a in words and _repeats(eqn, a)]
        if repeated:
            behind = {a: Var(a.type) for a in repeated}
            eqns.append(Eqn(optimization_barrier_p, repeated, list(behind.values()), {}, source=eqn.source))
            eqn = eqn.replace(inputs=tuple(behind.get(a, a) for a in eqn.inputs))  # type: ignore[arg-type]
        of_words = tuple(type(a) is Var and a in words for a in eqn.inputs)
        if eqn.primitive is jit_p:
            inner, outs = _isolated(eqn.params["program"], of_words, known)
            eqn = eqn.replace(params=eqn.params | {"program": inner})
        else:
            made = eqn.primitive is threefry2x32_p or any(of_words) and not any(subprograms(eqn))
            outs = (made,) * len(eqn.outputs)
        words |= {v for v, out in zip(eqn.outputs, outs, strict=True) if out}
        eqns.append(eqn)
    found = known[program, given] = program.replace(eqns=eqns), tuple(a in words for a in program.outputs)
    return found


def _repeats(eqn: Eqn, operand: Var) -> bool:
    """Whether an equation has an element of the operand in several of its results'."""
    if eqn.primitive is not broadcast_in_dim_p and eqn.primitive is not threefry2x32_p:
        return False
    return _extents(operand.type) != _extents(eqn.outputs[0].type)


def _extents(t: object) -> list[object]:
    return [n for n in t.shape if n != 1] if isinstance(t, ArrayType) else []
