"""`kernel_call`: the plain array Program that a kernel is on the CPU, a device's custom call, or the interpreter."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...core.ir import Program
from ...core.primitives.callback import pure_callback
from ...core.trace import trace_program
from ...core.types import ArrayType
from ...lang.extent import static
from ...lang.interpret import interpret
from ...lang.kernel import Kernel
from ...lang.target import CustomCall
from ..kernel import kernel_program


def _interpreted(kernel: Kernel) -> Program:
    run = functools.partial(interpret, kernel)
    return trace_program(lambda *arrays: pure_callback(run, kernel.out_types, *arrays), kernel.in_types, kernel.name)


def kernel_call(e: Any, operands: Sequence[Any], outs: Sequence[Any], *, kernel: Kernel) -> list[Any]:
    if kernel.interpret:
        return e.inline(_interpreted(kernel), operands)
    if e.kernels is None:
        return e.inline(kernel_program(kernel), operands)
    call = e.kernels(static(kernel, f"{e.platform}, where a grid is launched whole, needs"))
    return e.inline(kernel_program(kernel), operands) if call is None else custom_call(e, call, operands)


def custom_call(e: Any, call: CustomCall, operands: Sequence[Any]) -> list[Any]:
    """A kernel of a device, with what has to be done to its operands and results."""
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
