"""A contraction whose cells are too few for a target's cores, as partial sums and their sum.

    dot_general   becomes   a kernel of the partial sums of runs, then   reduce_sum over the runs, and a cast

The kernel is the template's and takes elementwise neighbours of its operands in; the sum is an operation like any
other, to which those of the result are fused.
"""

from __future__ import annotations

import math
from typing import Any

from ...core.ir import Eqn, Program, Var
from ...core.primitives.contract import dot_general_p
from ...core.primitives.convert import convert_element_type_p
from ...core.primitives.reduce import reduce_sum_p
from ...core.types import ArrayType, is_bool, is_complex
from ...lang.ops import cdiv
from ...lang.plain import equation
from ...lang.primitive import kernel_call_p
from ...lang.target import Target
from .. import contract
from ..template import Tiles

TEMPLATE = contract.TEMPLATES[dot_general_p]


def split_long(program: Program, target: Target) -> Program:
    """The Program with such contractions split; that of a target of one core as it is."""
    if target.units == 1:
        return program
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        tiles = _tiles(eqn, target) if eqn.primitive is dot_general_p else None
        eqns += [eqn] if tiles is None else _split(eqn, tiles, target)
    return program.replace(eqns=eqns) if len(eqns) > len(program.eqns) else program


def _tiles(eqn: Eqn, target: Target) -> Tiles | None:
    """The tiles of a contraction that is better split: those that its matrix unit likes, and the runs."""
    types: Any = [a.type for a in eqn.inputs]
    (out,) = (v.type for v in eqn.outputs)
    if not all(type(a) is Var and isinstance(a.type, ArrayType) for a in eqn.inputs):
        return None
    if any(is_bool(t.dtype) or is_complex(t.dtype) or str(t.dtype) in target.refused for t in (*types, out)):
        return None
    loops = TEMPLATE.loops(types, eqn.params)
    if not loops.matrix or loops.shared is None or 0 in loops.sizes:
        return None
    options = {i: target.tile_sizes(n, loops, i) for i, n in enumerate(loops.sizes) if i in loops.matrix}
    least, liked = (
        tuple(options[i][min(step, len(options[i]) - 1)] if i in options else 1 for i in range(len(loops.sizes)))
        for step in (0, 1)
    )
    free = [i for i in range(len(loops.sizes)) if i not in loops.carry]
    most = math.prod(cdiv(loops.sizes[i], least[i]) for i in free)
    if 2 * most > target.units:  # smaller tiles keep the cores at work
        return None
    for tiles in (liked, least):
        if TEMPLATE.bytes_held(types, eqn.params, (*tiles, 2)) <= target.fast_bytes:
            return next(iter(TEMPLATE.shared(types, eqn.params, target, tiles)), None)
    return None


def _split(eqn: Eqn, tiles: Tiles, target: Target) -> list[Eqn]:
    types: Any = [a.type.strong() for a in eqn.inputs]
    kernel = TEMPLATE.kernel(*types, tiles=tiles, target=target, **eqn.params).replace(name="contract_split")
    partial = equation(kernel_call_p, eqn.inputs, {"kernel": kernel}, eqn)
    total = equation(reduce_sum_p, partial.outputs, {"axes": (0,)}, eqn)
    (out,) = eqn.outputs
    params = {"new_dtype": out.type.dtype, "weak_type": out.type.weak_type}
    if total.outputs[0].type == out.type:
        return [partial, total.replace(outputs=eqn.outputs)]
    return [partial, total, equation(convert_element_type_p, total.outputs, params, eqn).replace(outputs=eqn.outputs)]
