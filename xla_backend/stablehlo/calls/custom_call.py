"""Kernels of a device as custom calls, with what has to be done to their operands and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....core.ir.primitive import Primitive
from ....core.ir.types import ArrayType
from ....core.support.errors import ShapeError
from ..emit import Emitter, Operand

if TYPE_CHECKING:
    from ....lang.targets.target import CustomCall


def _typing(*types: Any, call: CustomCall) -> list[Any]:
    """`call`: a `lang.targets.target.CustomCall`; its types are those that `prepare` gives and `finish` takes."""
    wanted = call.in_types if call.prepare is None else call.prepare.in_types
    if [(t.shape, t.dtype) for t in types] != [(t.shape, t.dtype) for t in wanted]:
        given, needed = (", ".join(t.show() for t in ts) for ts in (types, wanted))
        raise ShapeError(f"the custom call {call.name} takes ({needed}), got ({given})")
    return list(call.out_types if call.finish is None else call.finish.out_types)


custom_call_p: Primitive = Primitive("custom_call", _typing, multiple=True)


def _custom_call(e: Emitter, operands: list[Operand], outs: Sequence[Any], *, call: CustomCall) -> list[Operand]:
    taken = list(operands) if call.prepare is None else e.inline(call.prepare, operands)
    results = e.ops("stablehlo.custom_call", taken, call.out_types, _attributes(call), label=call.name)
    return results if call.finish is None else e.inline(call.finish, [*operands, *results])


def _attributes(call: CustomCall) -> str:
    many = len(call.out_types) != 1
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if many else ''}], operand_index = {i}, "
        "operand_tuple_indices = []>"
        for i, o in call.aliases
    )
    return ", ".join(filter(None, [
        f'call_target_name = "{call.target}"', f"api_version = {call.api_version} : i32",
        f"backend_config = {call.config}", "has_side_effect = false",
        f"operand_layouts = [{_row_major(call.in_types)}]", f"result_layouts = [{_row_major(call.out_types)}]",
        f"output_operand_aliases = [{aliases}]" if aliases else "",
    ]))  # fmt: skip


def _row_major(types: Sequence[ArrayType]) -> str:
    """The layouts of arrays whose last axis moves fastest."""

    def axes(t: ArrayType) -> str:
        if not t.ndim:
            return "dense<> : tensor<0xindex>"
        return f"dense<[{', '.join(str(a) for a in reversed(range(t.ndim)))}]> : tensor<{t.ndim}xindex>"

    return ", ".join(axes(t) for t in types)


RULES = {custom_call_p: _custom_call}
