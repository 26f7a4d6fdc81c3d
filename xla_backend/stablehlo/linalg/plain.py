"""What XLA itself knows of linear algebra: operations of StableHLO, and calls that its compiler expands."""

from __future__ import annotations

from collections.abc import Sequence

from ....core.ir.types import ArrayType
from ....core.primitives.elementwise.conversion import conj_p
from ..emit import Emitter, Operand
from .call import inline


def triangular_solve(
    e: Emitter, operands: list[Operand], out: ArrayType, *, left_side: bool, lower: bool, transpose_a: bool,
    conjugate_a: bool, unit_diagonal: bool,
) -> Operand:  # fmt: skip
    """`stablehlo.triangular_solve`."""
    a, b = operands
    if conjugate_a and not transpose_a:
        (a,) = inline(e, lambda x: conj_p.bind(x, input_dtype=a.dtype), [a])
    how = ("ADJOINT" if conjugate_a else "TRANSPOSE") if transpose_a else "NO_TRANSPOSE"
    flags = {"left_side": left_side, "lower": lower, "unit_diagonal": unit_diagonal}
    attributes = ", ".join(f"{name} = {str(value).lower()}" for name, value in flags.items())
    transposed = f"transpose_a = #stablehlo<transpose {how}>"
    return e.op("stablehlo.triangular_solve", [a, b], out, f"{attributes}, {transposed}")


def custom(
    e: Emitter, target: str, operands: Sequence[Operand], outs: Sequence[ArrayType], config: str = ""
) -> list[Operand]:
    """A call that XLA's compiler replaces by operations."""
    attributes = f'call_target_name = "{target}", backend_config = "{config}", has_side_effect = false'
    return e.ops("stablehlo.custom_call", operands, outs, f"{attributes}, api_version = 2 : i32")
