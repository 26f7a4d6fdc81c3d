"""Contractions that are better split over a target's cores, as partial sums and their sum.

    dot_general   becomes   a kernel of the partial sums of runs, then   reduce_sum over the runs, and a cast

The kernel takes elementwise neighbours of its operands in; the sum is an operation like any other, to which those of
the result are fused.
"""

from __future__ import annotations

from typing import Any

from ...core.ir.program import Eqn, Program, Var
from ...core.ir.types import ArrayType, is_bool, is_complex
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.reduction.reduce import reduce_sum_p
from ...lang.call.primitive import kernel_call_p
from ...lang.kernel.traverse import equation
from ...lang.targets.target import Target
from ..generate.single_op import Alone


def split_long(program: Program, target: Target) -> Program:
    """The Program with such contractions split; that of a target of one core as it is."""
    if target.units == 1:
        return program
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        eqns += _split(eqn, target) if eqn.primitive is dot_general_p else [eqn]
    return program.replace(eqns=eqns) if len(eqns) > len(program.eqns) else program


def _split(eqn: Eqn, target: Target) -> list[Eqn]:
    """The partial sums and their sum, of a contraction that is better split; else the contraction."""
    types: Any = [a.type for a in eqn.inputs]
    (out,) = eqn.outputs
    out_type: Any = out.type
    if not all(type(a) is Var and isinstance(a.type, ArrayType) and 0 not in a.type.shape for a in eqn.inputs):
        return [eqn]
    if any(is_bool(t.dtype) or is_complex(t.dtype) or str(t.dtype) in target.refused for t in (*types, out.type)):
        return [eqn]
    product = Alone.of(dot_general_p, [t.strong() for t in types], [out_type.strong()], eqn.params)
    tiles = next(iter(product.split_tiles(target)), None)
    if tiles is None:
        return [eqn]
    kernel = product.kernel(tiles, "contract_split")
    partial = equation(kernel_call_p, eqn.inputs, {"kernel": kernel}, eqn)
    total = equation(reduce_sum_p, partial.outputs, {"axes": (0,)}, eqn)
    params = {"new_dtype": out.type.dtype, "weak_type": out.type.weak_type}
    if total.outputs[0].type == out.type:
        return [partial, total.replace(outputs=eqn.outputs)]
    return [partial, total, equation(convert_element_type_p, total.outputs, params, eqn).replace(outputs=eqn.outputs)]
