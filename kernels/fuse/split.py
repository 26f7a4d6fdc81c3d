"""A contraction whose cells are too few for a target's cores, or too small, as partial sums and their sum.

    dot_general   becomes   a kernel of the partial sums of runs, then   reduce_sum over the runs, and a cast

Cells are too small where, for there to be enough of them, operands come in so often that reading less of them is worth
a second kernel.

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
from ..reduce import accumulator
from ..template import Loops, Tiles
from .axes import Fresh, nbytes
from .nest import nest_of, single
from .tiles import Tiling, tile_nest

TEMPLATE = contract.TEMPLATES[dot_general_p]
LAUNCH = 5e-6  # seconds that one kernel more takes
RUNS = (2, 4, 8)


def split_long(program: Program, target: Target) -> Program:
    """The Program with such contractions split; that of a target of one core as it is."""
    if target.units == 1:
        return program
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        tiles = _tiles(eqn, target) if eqn.primitive is dot_general_p else None
        eqns += [eqn] if tiles is None else _split(eqn, tiles)
    return program.replace(eqns=eqns) if len(eqns) > len(program.eqns) else program


def _tiles(eqn: Eqn, target: Target) -> Tiles | None:
    """The tiles and runs of a contraction that is better split."""
    types: Any = [a.type for a in eqn.inputs]
    (out,) = (v.type for v in eqn.outputs)
    if not all(type(a) is Var and isinstance(a.type, ArrayType) for a in eqn.inputs):
        return None
    if any(is_bool(t.dtype) or is_complex(t.dtype) or str(t.dtype) in target.refused for t in (*types, out)):
        return None
    loops = TEMPLATE.loops(types, eqn.params)
    if not loops.matrix or loops.shared is None or 0 in loops.sizes:
        return None
    return _for_cores(eqn, types, loops, target) or _for_bytes(eqn, types, loops, target)


def _for_cores(eqn: Eqn, types: Any, loops: Loops, target: Target) -> Tiles | None:
    """Tiles that a matrix unit likes, and runs, of a contraction that would leave cores idle."""
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


def _for_bytes(eqn: Eqn, types: Any, loops: Loops, target: Target) -> Tiles | None:
    """Tiles and runs of a contraction that takes less time split, by the roofline, for its larger tiles."""
    fresh = Fresh()
    group = single(0, (), [eqn], fresh) if target.gpu else None
    if group is None or loops.shared is None:
        return None
    nest, (out,) = nest_of(group, [eqn], eqn.outputs), eqn.outputs
    flops, partial = 2 * math.prod(loops.sizes), math.prod(out.type.shape) * accumulator(out.type.dtype).itemsize

    def tiled(runs: int) -> Tiling:
        return tile_nest(group, nest, [eqn], fresh.sizes, target, runs=runs)

    def seconds(moved: int) -> float:
        return target.seconds(flops, moved, types[0].dtype)

    alone, best = tiled(1), None
    least = seconds(alone.bytes) - LAUNCH
    if alone.refused is not None or least <= seconds(sum(map(nbytes, (*eqn.inputs, out)))):
        return None
    left, right, _ = contract.roles(types, eqn.params)
    atoms: Any = eqn.inputs
    place = {loop: x for a, role in zip(atoms, (left, right)) for loop, x in zip(role, group.axes[a], strict=True)}
    for runs in RUNS:
        tiling = tiled(runs)
        sizes = [1 if (x := place[i]) is None else tiling.tile[x] for i in range(len(loops.sizes))]
        found = seconds(tiling.bytes + 2 * runs * partial)
        if found < least and runs <= loops.cut(tuple(sizes)).counts[loops.shared]:
            best, least = (*sizes, runs), found
    return best


def _split(eqn: Eqn, tiles: Tiles) -> list[Eqn]:
    """The partial sums, at tiles that fit the target, and their sum."""
    types: Any = [a.type.strong() for a in eqn.inputs]
    kernel, _, _ = TEMPLATE.first(types, eqn.params, tiles)
    partial = equation(kernel_call_p, eqn.inputs, {"kernel": kernel.replace(name="contract_split")}, eqn)
    total = equation(reduce_sum_p, partial.outputs, {"axes": (0,)}, eqn)
    (out,) = eqn.outputs
    params = {"new_dtype": out.type.dtype, "weak_type": out.type.weak_type}
    if total.outputs[0].type == out.type:
        return [partial, total.replace(outputs=eqn.outputs)]
    return [partial, total, equation(convert_element_type_p, total.outputs, params, eqn).replace(outputs=eqn.outputs)]
