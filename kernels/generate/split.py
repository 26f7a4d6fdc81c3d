"""A sum whose cells are too few for a target's cores, or too small: its steps are shared out over runs.

Cells are too small where, for there to be enough of them, operands come in so often that reading less of them is worth
a second kernel, which adds up the runs.
"""

from __future__ import annotations

import math

from ...core.ir import Eqn, Var
from ...core.primitives.convert import convert_element_type_p
from ...core.primitives.reduce import reduce_or_p, reduce_sum_p
from ...core.types import ArrayType, is_bool
from ...lang.ops import cdiv
from ...lang.target import Target
from .group import nbytes
from .loops import Tiles
from .one import Alone
from .sums import accumulator
from .tiles import options

LEAST = 4  # steps of a run: fewer, and filling and emptying it takes as long as the steps
LAUNCH = 5e-6  # seconds that one kernel more takes
RUNS = (2, 4, 8)


def runs_of(cells: int, steps: int, units: int, moved: int, partial: int) -> tuple[int, ...]:
    """Numbers of runs worth trying, the best first; none where the sum is better left in one.

    Args:
      cells: those that run at once without.
      steps: of the sum in each.
      units: cores that share the cells.
      moved: bytes of the operands.
      partial: bytes of the results in the dtype of the sums: each run writes them, and they are read again.

    >>> runs_of(cells=2, steps=64, units=132, moved=2**24, partial=2**14)
    (16, 8, 4, 2)
    >>> runs_of(cells=100, steps=64, units=132, moved=2**24, partial=2**14)
    ()
    """
    if units < 2 * cells or not partial:
        return ()
    most = min(units // cells, steps // LEAST, moved // (2 * partial))
    tried = [cdiv(steps, cdiv(steps, most >> k)) for k in range(most.bit_length() - 1)]
    return tuple(dict.fromkeys(n for n in tried if n > 1))


def split_tiles(product: Alone, target: Target) -> list[Tiles]:
    """Tiles and runs of a product that is better split, the best first."""
    loops = product.loops
    if target.units == 1 or target.whole_arrays or not loops.matrix or loops.shared is None:
        return []
    return _for_cores(product, target) or _for_bytes(product, target)


def _partial(product: Alone) -> int:
    (out,) = (v.type for v in product.nest.outputs)
    return math.prod(out.shape) * accumulator(out.dtype).itemsize


def _for_cores(product: Alone, target: Target) -> list[Tiles]:
    """Tiles that a matrix unit likes, and runs, of a product that would leave cores idle."""
    loops, choices = product.loops, options(product.loops, target)
    assert loops.shared is not None
    least, liked = (tuple(c[min(step, len(c) - 1)] for c in choices) for step in (0, 1))
    free = [i for i in range(len(choices)) if i not in loops.carry]
    if 2 * math.prod(cdiv(loops.sizes[i], least[i]) for i in free) > target.units:  # smaller tiles keep them at work
        return []
    for tiles in (liked, least):
        if product.blocks(target).refuse(tiles, target.fast_bytes) is None:
            cells = math.prod(cdiv(loops.sizes[i], tiles[i]) for i in free)
            steps, moved = cdiv(loops.sizes[loops.shared], tiles[loops.shared]), sum(map(nbytes, product.group.inputs))
            return [(*tiles, n) for n in runs_of(cells, steps, target.units, moved, _partial(product))]
    return []


def _for_bytes(product: Alone, target: Target) -> list[Tiles]:
    """Tiles and runs of a product that takes less time split, by the roofline, for its larger tiles."""
    if not target.gpu:
        return []
    loops, group, best = product.loops, product.group, []
    assert loops.shared is not None
    flops, partial, dtype = 2 * math.prod(loops.sizes), _partial(product), group.inputs[0].type.dtype
    alone = product.tiled(target)
    least = target.seconds(flops, alone.bytes, dtype) - LAUNCH
    bound = target.seconds(flops, sum(map(nbytes, (*group.inputs, *product.nest.outputs))), dtype)
    if alone.refused is not None or least <= bound:
        return []
    for runs in RUNS:
        tiling = product.tiled(target, runs)
        found = target.seconds(flops, tiling.bytes + 2 * runs * partial, dtype)
        steps = cdiv(loops.sizes[loops.shared], tiling.tiles[loops.shared])
        if found < least and runs <= steps:
            best, least = [(*tiling.tiles, runs)], found
    return best


def total(rows: ArrayType, out: ArrayType) -> Alone:
    """The kernel that adds up the rows of an array, in order, to a result of its own dtype."""
    given, added, result = Var(rows), Var(ArrayType(rows.shape[1:], rows.dtype)), Var(out)
    adding = reduce_or_p if is_bool(out.dtype) else reduce_sum_p
    if rows.dtype == out.dtype:
        return Alone([Eqn(adding, [given], [result], {"axes": (0,)})])
    cast = Eqn(convert_element_type_p, [added], [result], {"new_dtype": out.dtype, "weak_type": False})
    return Alone([Eqn(adding, [given], [added], {"axes": (0,)}), cast])
