"""StableHLO of calls of foreign functions: a custom call each, its attributes typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ....core.ir.types import ArrayType
from ....core.primitives.external.ffi_call import ForeignCall, Layouts, buffer_callback_p, ffi_call_p
from ....core.support.errors import UnsupportedError
from ...jaxlib.ffi_registry import require
from ..emit import Emitter, Operand
from .attributes import quoted

_BUFFERS = {
    "cpu": "xla_buffer_python_cpu_callback",
    "cuda": "xla_buffer_python_gpu_callback",
    "rocm": "xla_buffer_python_gpu_callback",
}


def _layouts(types: Sequence[ArrayType], layouts: Layouts | None) -> str:
    """Layouts as XLA takes them, the fastest axis first."""
    found = []
    for t, layout in zip(types, layouts or (None,) * len(types), strict=True):
        axes = tuple(range(t.ndim)) if layout is None else layout
        inside = f"[{', '.join(map(str, reversed(axes)))}]" if axes else ""
        found.append(f"dense<{inside}> : tensor<{len(axes)}xindex>")
    return ", ".join(found)


def _call(e: Emitter, operands: Sequence[Operand], outs: Sequence[Any], call: ForeignCall) -> Any:
    many = len(outs) != 1
    aliases = ", ".join(
        f"#stablehlo.output_operand_alias<output_tuple_indices = [{o if many else ''}], operand_index = {i}, "
        "operand_tuple_indices = []>"
        for i, o in call.aliases
    )
    return e.ops(
        "stablehlo.custom_call", operands, outs,
        ", ".join(filter(None, [
            f"call_target_name = {quoted(call.target)}", f"api_version = {call.version} : i32",
            f"backend_config = {call.attributes}", f"has_side_effect = {str(call.effect).lower()}",
            f"operand_layouts = [{_layouts([o.type for o in operands], call.in_layouts)}]",
            f"result_layouts = [{_layouts(outs, call.out_layouts)}]",
            f"output_operand_aliases = [{aliases}]" if aliases else "",
        ])))  # fmt: skip


def _ffi_call(e: Emitter, operands: list[Operand], outs: Sequence[Any], *, call: ForeignCall, **_: Any) -> Any:
    require(call.target, e.platform, call.version)
    return _call(e, operands, outs, call)


def _buffer_callback(
    e: Emitter,
    operands: list[Operand],
    outs: Sequence[Any],
    *,
    call: ForeignCall,
    callback: Callable[..., Any],
    **_: Any,
) -> Any:
    if e.platform not in _BUFFERS:
        raise UnsupportedError(f"callbacks on the buffers of platform {e.platform}", "use pure_callback")
    index = len(e.callbacks)
    e.callbacks.append(callback)
    target, number = _BUFFERS[e.platform], f"{{index = {index} : ui64}}"
    return _call(e, operands, outs, replace(call, target=target, attributes=number))


RULES = {ffi_call_p: _ffi_call, buffer_callback_p: _buffer_callback}
