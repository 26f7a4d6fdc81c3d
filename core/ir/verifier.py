"""The verifier: what is legal in a Program, run after every pass when `debug_checks` is set."""

from __future__ import annotations

from ..support.errors import ProgramError, plural
from .program import Literal, Program, Var, subprograms
from .typeof import typeof
from .types import ArrayType, Type


def _same(a: Type, b: Type) -> bool:
    if isinstance(a, ArrayType) and isinstance(b, ArrayType):
        return a.shape == b.shape and a.dtype == b.dtype
    return a == b


def check_program(program: Program) -> Program:
    """Raise `ProgramError` unless every Var is bound once before use and every type is as its rule says."""
    bound: set[Var] = set()

    def bind(var: Var) -> None:
        if var in bound:
            raise ProgramError(f"{program.name}: a variable of type {var.type.show()} is bound twice")
        bound.add(var)

    for var, value in zip(program.constants, program.values, strict=True):
        bind(var)
        if not _same(typeof(value), var.type):
            raise ProgramError(f"{program.name}: a constant of type {typeof(value)} is bound to {var.type.show()}")
    for var in program.inputs:
        bind(var)
    for eqn in program.eqns:
        for atom in eqn.inputs:
            if type(atom) is not Literal and atom not in bound:
                raise ProgramError(
                    f"{program.name}: {eqn.primitive} reads a variable that nothing binds", source=eqn.source
                )
        found = eqn.primitive.typing(*[a.type for a in eqn.inputs], **eqn.params)
        found = list(found) if eqn.primitive.multiple else [found]
        if len(found) != len(eqn.outputs):
            raise ProgramError(
                f"{eqn.primitive} has {plural(len(found), 'result')} but binds {len(eqn.outputs)}", source=eqn.source
            )
        for type_, var in zip(found, eqn.outputs, strict=True):
            if not _same(type_, var.type):
                raise ProgramError(
                    f"{eqn.primitive} gives {type_.show()}, bound to {var.type.show()}", source=eqn.source
                )
            bind(var)
        for _, inner in subprograms(eqn):
            check_program(inner)
    for atom in program.outputs:
        if type(atom) is not Literal and atom not in bound:
            raise ProgramError(f"{program.name} returns a variable that nothing binds")
    return program
