"""Calls of Programs as calls of functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir import Program
from ...core.primitives.jit import jit_p
from .emit import Emitter, Operand


def _jit(e: Emitter, operands: list[Operand], outs: Sequence[Any], *, program: Program, inline: bool, **_: Any) -> Any:
    return e.inline(program, operands) if inline or e.within_mesh else e.call(program, operands)


RULES = {jit_p: _jit}
