"""Programs as text: one equation a line, names given in order of appearance. (Below `ir`, whose values print so.)"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Any

from .types import BOOL

if TYPE_CHECKING:
    from .program import Eqn, Literal, Program, Var

_LETTERS = string.ascii_lowercase


def _name(number: int) -> str:
    text = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = _LETTERS[rest] + text
    return text


def identifier(name: str) -> str:
    """A name as MLIR and the compilers behind it take it."""
    text = "".join(c if c.isascii() and (c.isalnum() or c == "_") else "_" for c in name)
    return text if text and not text[0].isdigit() else f"f_{text}"


class Names(dict[Any, str]):
    """A letter for each variable, in the order in which they are met."""

    def __missing__(self, var: Var) -> str:
        self[var] = name = _name(len(self))
        return name


def show_atom(atom: Literal | Var, names: dict[Any, str]) -> str:
    if hasattr(atom, "value"):  # a literal
        value = str(bool(atom.value)) if atom.type.dtype == BOOL else f"{atom.value}"
        return f"{value}:{atom.type.show()}"
    return names[atom]


def _binder(var: Var, names: dict[Any, str]) -> str:
    return f"{names[var]}:{var.type.show()}"


def show_value(value: Any, indent: str) -> str:
    if hasattr(value, "eqns"):  # a Program
        return "\n" + show_program(value, indent + "    ")
    if isinstance(value, tuple) and any(hasattr(v, "eqns") for v in value):
        return "(" + ",".join(show_value(v, indent) for v in value) + ")"
    shown = getattr(value, "show_param", None)
    if shown is not None:
        return shown(indent)
    if callable(value):
        return getattr(value, "__name__", type(value).__name__)
    return str(value)


def show_eqn(eqn: Eqn, names: dict[Any, str] | None = None, indent: str = "") -> str:
    names = Names() if names is None else names
    operands = " ".join(show_atom(a, names) for a in eqn.inputs)
    outputs = " ".join(_binder(v, names) for v in eqn.outputs)
    params = [f"{k}={show_value(v, indent)}" for k, v in sorted(eqn.params.items()) if v is not None]
    shown = f"[{' '.join(params)}]" if params else ""
    effects = "".join(f" !{e}" for e in sorted(x.show() for x in eqn.effects))
    return f"{indent}{outputs} = {eqn.primitive.name}{shown} {operands}".rstrip() + effects


def show_program(program: Program, indent: str = "") -> str:
    """The printed form of a Program: `name(inputs) [constants] { equations; return outputs }`."""
    names = Names()
    inputs = ", ".join(_binder(v, names) for v in program.inputs)
    constants = ", ".join(_binder(v, names) for v in program.constants)
    head = f"{indent}{program.name}({inputs})" + (f" [{constants}]" if constants else "") + " {"
    lines = [show_eqn(e, names, indent + "  ") for e in program.eqns]
    outputs = ", ".join(show_atom(a, names) for a in program.outputs)
    return "\n".join([head, *lines, f"{indent}  return {outputs}", f"{indent}}}"])
