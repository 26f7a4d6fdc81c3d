"""Calls of Programs as calls of functions."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ...core.ir import Program
from ...core.metadata import tagged_p
from ...core.primitives.jit import jit_p
from .emit import Emitter, Operand


def _jit(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, program: Program, inline: bool,
    metadata: Sequence[tuple[str, str]] = (), **_: Any,
) -> Any:  # fmt: skip
    if inline or e.within_mesh:
        return e.inline(program, operands)
    return e.call(program, operands, f"{ATTRIBUTES}{_notes(metadata)}}}" if metadata else "")


def _notes(entries: Sequence[tuple[str, str]]) -> str:
    return ", ".join(f"{json.dumps(name)} = {json.dumps(value)}" for name, value in entries)


def _tagged(e: Emitter, operands: list[Operand], out: Any, *, entries: Sequence[tuple[str, str]]) -> Operand:
    """The value as it is; the operation that gave it has the notes."""
    name = operands[0].name.partition("#")[0]
    places = [i for i, line in enumerate(e.lines) if line.startswith((f"{name} = ", f"{name}:"))]
    if places:  # an argument of the function has none
        before, types = e.lines[places[-1]].rsplit(" : (", 1)
        if ATTRIBUTES in before:
            before = before.replace(ATTRIBUTES, f"{ATTRIBUTES}{_notes(entries)}, ")
        else:
            before = f"{before} {{{ATTRIBUTES}{_notes(entries)}}}}}"
        e.lines[places[-1]] = f"{before} : ({types}"
    return operands[0]


ATTRIBUTES = "mhlo.frontend_attributes = {"
RULES = {jit_p: _jit, tagged_p: _tagged}
