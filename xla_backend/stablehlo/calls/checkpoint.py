"""StableHLO of calls that only matter to transformations, and of `checkpoint`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....core.ir.program import Program
from ....core.primitives.custom.checkpoint import checkpoint_p, name_p, optimization_barrier_p
from ....core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p, linear_call_p
from ..emit import Emitter, Operand

if TYPE_CHECKING:
    from ....core.ir.types import ArrayType


def _inlined(e: Emitter, operands: list[Operand], outs: Sequence[Any], *, program: Program, **_: Any) -> list[Operand]:
    return e.inline(program, operands)


def _barrier(e: Emitter, operands: list[Operand], outs: Sequence[Any]) -> list[Operand]:
    return e.ops("stablehlo.optimization_barrier", operands, [o.type for o in operands]) if operands else []


def _checkpoint(
    e: Emitter,
    operands: list[Operand],
    outs: Sequence[Any],
    *,
    program: Program,
    prevent_cse: bool,
    differentiated: bool,
    **_: Any,
) -> list[Operand]:
    # Behind a barrier the recomputation is another computation than the forward pass to XLA.
    if differentiated and prevent_cse:
        operands = _barrier(e, operands, outs)
    return e.inline(program, operands)


def _name(e: Emitter, operands: list[Operand], out: ArrayType, *, name: str) -> Operand:
    return operands[0]


RULES = {
    custom_jvp_call_p: _inlined,
    custom_vjp_call_p: _inlined,
    linear_call_p: _inlined,
    checkpoint_p: _checkpoint,
    optimization_barrier_p: _barrier,
    name_p: _name,
}
