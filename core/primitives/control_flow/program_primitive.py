"""Primitives that are the Program they hold, their parameter `program`."""

from __future__ import annotations

from typing import Any

from ...ir.primitive import OWN, Primitive
from ...ir.program import Effects, Program
from ...tracing.numpy_interpreter import evaluate
from ...tracing.trace import eval_program


def typing(*types: Any, program: Program, **_: Any) -> list[Any]:
    return program.out_types


def effects(*types: Any, program: Program, **_: Any) -> Effects:
    return program.effects


def numpy(*arrays: Any, program: Program, **_: Any) -> list[Any]:
    return evaluate(program, *arrays)


def expand(*args: Any, program: Program, **_: Any) -> list[Any]:
    return eval_program(program, *args)


def holder(name: str, **rules: Any) -> Primitive:
    """A primitive whose type, effects and meaning are its Program's; `rules` are the others, or say otherwise."""
    return Primitive(name, typing, multiple=True, **{"effects": effects, "numpy": numpy, "varies": OWN} | rules)
