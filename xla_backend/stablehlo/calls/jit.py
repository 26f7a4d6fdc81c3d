"""Calls of Programs as calls of functions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....core.ir.program import ORDERED, Program
from ....core.jit.xla_metadata import tagged_p
from ....core.primitives.control_flow.jit_primitive import Composite, jit_p
from ....core.support.errors import ArgumentError
from ..emit import Emitter, Operand, noted
from .attributes import of_composite, quoted

if TYPE_CHECKING:
    from ....core.ir.types import ArrayType

_NAME = re.compile(r"[a-zA-Z]\w*([.][\w$]+)+", re.ASCII)  # of composites, as StableHLO has them


def _jit(
    e: Emitter, operands: list[Operand], outs: Sequence[Any], *, program: Program, inline: bool,
    metadata: Sequence[tuple[str, str]] = (), composite: Composite | None = None, **_: Any,
) -> Any:  # fmt: skip
    if inline or e.within_mesh:
        return e.inline(program, operands)
    if composite is not None and ORDERED not in program.effects:
        return _composite(e, operands, program, composite)
    results, place = e.call(program, operands), len(e.lines) - 1
    if metadata:
        e.lines[place] = noted(e.lines[place], metadata)
    return results


def _composite(e: Emitter, operands: list[Operand], program: Program, composite: Composite) -> list[Operand]:
    if not _NAME.fullmatch(composite.name):
        raise ArgumentError(f"the composite {composite.name!r} in a compiled program",
                            "give it a namespace of letters, digits and underscores, such as 'my.tangent'")  # fmt: skip
    given = of_composite(composite.attributes, composite.name)
    return e.ops(
        "stablehlo.composite", operands, program.out_types,
        f"name = {quoted(composite.name)}, decomposition = @{e.callee(program)}, version = {composite.version} : i32, "
        f"composite_attributes = {given}",
    )  # fmt: skip


def _tagged(e: Emitter, operands: list[Operand], out: ArrayType, *, entries: Sequence[tuple[str, str]]) -> Operand:
    """The value as it is; the operation that gave it has the notes."""
    name = operands[0].name.partition("#")[0]
    places = [i for i, line in enumerate(e.lines) if line.startswith((f"{name} = ", f"{name}:"))]
    if places:  # an argument of the function has none
        e.lines[places[-1]] = noted(e.lines[places[-1]], entries)
    return operands[0]


RULES = {jit_p: _jit, tagged_p: _tagged}
