"""Calls of Programs as calls of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir import Program
from ...core.metadata import tagged_p
from ...core.primitives.jit import jit_p
from .emit import Emitter, Operand, noted


def _jit(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, program: Program, inline: bool,
    metadata: Sequence[tuple[str, str]] = (), **_: Any,
) -> Any:  # fmt: skip
    if inline or e.within_mesh:
        return e.inline(program, operands)
    results, place = e.call(program, operands), len(e.lines) - 1
    if metadata:
        e.lines[place] = noted(e.lines[place], metadata)
    return results


def _tagged(e: Emitter, operands: list[Operand], out: Any, *, entries: Sequence[tuple[str, str]]) -> Operand:
    """The value as it is; the operation that gave it has the notes."""
    name = operands[0].name.partition("#")[0]
    places = [i for i, line in enumerate(e.lines) if line.startswith((f"{name} = ", f"{name}:"))]
    if places:  # an argument of the function has none
        e.lines[places[-1]] = noted(e.lines[places[-1]], entries)
    return operands[0]


RULES = {jit_p: _jit, tagged_p: _tagged}
