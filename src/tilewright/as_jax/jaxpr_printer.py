"""jaxprs as text, as users of jax read them: `{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }`.

A text is made of strings, breaks, lists of these, and groups; a group that does not fit into a line has all of its
breaks become ends of lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.ir import program as ir
from ..core.ir.printer import Names, show_atom, show_value

WIDTH = 80


class Break(NamedTuple):
    """The end of a line, or a text in its place."""

    flat: str = " "


class Nest(NamedTuple):
    """A text whose lines are moved to the right."""

    by: int
    text: Any


class Group(NamedTuple):
    """A text that is on one line, if it fits."""

    text: Any


SPACE, NOTHING, NEXT = Break(), Break(""), Break("; ")
Piece = tuple[int, bool, Any]  # how far lines are moved to the right, whether breaks end them, and a text


def laid_out(text: Any, width: int = WIDTH) -> str:
    """A text in lines of a width, where that is possible."""
    done: list[str] = []
    column, rest = 0, [(0, True, text)]
    while rest:
        indent, broken, item = rest.pop()
        if isinstance(item, str):
            done.append(item)
            column += len(item)
        elif isinstance(item, Break):
            done.append("\n" + " " * indent if broken else item.flat)
            column = indent if broken else column + len(item.flat)
        elif isinstance(item, Group):
            rest.append((indent, not _fits(width - column, [*rest, (indent, False, item.text)]), item.text))
        else:
            rest += _parts(indent, broken, item)
    return "\n".join(line.rstrip(" ") if line.isspace() else line for line in "".join(done).split("\n"))


def _parts(indent: int, broken: bool, item: Any) -> list[Piece]:
    """The parts of a nested text or a list, the last first."""
    if isinstance(item, Nest):
        return [(indent + item.by, broken, item.text)]
    return [(indent, broken, part) for part in reversed(item)]


def _fits(room: int, rest: list[Piece]) -> bool:
    """Whether what comes next is on one line, up to the first break that ends it."""
    while rest and room >= 0:
        indent, broken, item = rest.pop()
        if isinstance(item, str):
            room -= len(item)
        elif isinstance(item, Break):
            if broken:
                return True
            room -= len(item.flat)
        elif isinstance(item, Group):
            rest.append((indent, False, item.text))
        else:
            rest += _parts(indent, broken, item)
    return room >= 0


def _joined(parts: Sequence[Any], between: Any) -> list[Any]:
    return [x for part in parts for x in (part, between)][:-1]


# ---------------------------------------------------------------------------- programs


def show_jaxpr(program: ir.Program, names: Mapping[Any, Mapping[str, str]]) -> str:
    """A Program as text in jax's form; `names` are jax's names of parameters that hold Programs, by primitive.

    Parameters have their own values and, but for those that hold Programs, their own names.
    """
    return laid_out(_jaxpr(program, Names(), names))


def _jaxpr(program: ir.Program, known: Names, names: Any) -> Group:
    read = {a for a in itertools.chain(*(e.inputs for e in program.eqns), program.outputs) if type(a) is ir.Var}
    before, inputs = (" ".join(_binder(v, known) for v in vars) for vars in (program.constants, program.inputs))
    eqns = [_eqn(e, read, known, names) for e in program.eqns]
    outs = [show_atom(a, known) for a in program.outputs]
    result = f"in ({', '.join(outs)}{',' * (len(outs) == 1)})"
    head = f"{{ lambda {before}; {inputs}. let"
    return Group([Nest(2, [head, Nest(2, [SPACE, *_joined(eqns, NEXT)]), SPACE, result]), " }"])


def _binder(var: Any, known: Names) -> str:
    return f"{known[var]}:{var.type.show()}"


def _eqn(eqn: ir.Eqn, read: set[Any], known: Names, names: Any) -> list[Any]:
    outs = " ".join(_binder(v, known) if v in read else f"_:{v.type.show()}" for v in eqn.outputs)
    operands = "".join(" " + show_atom(a, known) for a in eqn.inputs)
    theirs = {ours: name for name, ours in names.get(eqn.primitive, {}).items()}
    told = [(theirs.get(k, k), v) for k, v in dict.items(eqn.params) if v is not None and v != ()]
    shown = sorted((item for item in told if item != ("inline", False)), key=lambda item: (item[0] != "name", item[0]))
    params = [[f"{k}=", _value(v, known, names)] for k, v in shown]
    brackets: Any = Group(["[", Nest(2, [NOTHING, *_joined(params, SPACE)]), NOTHING, "]"]) if params else ""
    return [f"{outs} = " if outs else "", eqn.primitive.name, brackets, operands]


def _value(value: Any, known: Names, names: Any) -> Any:
    if isinstance(value, ir.Program):
        return _jaxpr(value, known, names)
    if isinstance(value, tuple) and any(isinstance(v, ir.Program) for v in value):
        parts = [_value(v, known, names) for v in value]
        return Group(["(", Nest(2, [NOTHING, *_joined(parts, SPACE)]), NOTHING, ")"])
    return show_value(value, "")


__all__ = ["show_jaxpr"]
