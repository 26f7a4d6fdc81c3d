"""Clusters: blocks beside each other, in the shared memory of one of which copies of another one land.

Two blocks of a pair differ in one axis of the grid; four are two pairs of pairs, along two axes. On Hopper each of a
pair copies one half of what both read to both. On Blackwell one of them starts products of both blocks' rows: each has
its rows of the left operand, and one half of the right one.
"""

from __future__ import annotations

from dataclasses import replace

from ..core.ir.program import Var
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.refs.state_primitives import get_p
from ..lang.legalize import Unfit
from ..lang.loopnest.loop_bounds import Line
from .schedule import Moved, Schedule, steady

ALONE = "leave `cluster` out"


def clustered(s: Schedule, blocks: int, joint: bool) -> Schedule:
    """A schedule of clusters of 2 or 4 blocks, along the axes that spare most copies.

    `joint`: products are made together, by pairs.

    Raises:
      Unfit: why they are not.
    """
    if blocks not in (2, 4) or joint and blocks > 2:
        raise Unfit(f"a cluster of {blocks} blocks: ask for 1 or 2, on Hopper also for 4")
    if not s.plan.parallel or not s.ring:
        raise Unfit(f"no blocks beside each other copy something turn by turn: {ALONE}")
    if joint and (s.fixed or s.consumers > 1):
        raise Unfit(f"products of two blocks are of 128 rows each, whose operands are copied turn by turn: {ALONE}")
    while s.cluster < blocks:
        found, why = [], ""
        for axis in [a for a in s.plan.parallel if a not in s.pairs]:
            try:
                found.append(_paired(s, axis, joint))
            except Unfit as error:
                why = why or str(error)
        if not found:
            raise Unfit(why or "its grid has one axis, and four blocks are along two: ask for a cluster of 2")
        s = max(found, key=lambda one: sum(m.size for m in one.moved.values() if m.half))
    return s


def _paired(s: Schedule, axis: int, joint: bool) -> Schedule:
    """Blocks in pairs along one axis more; of what has halves already nothing changes."""
    grid = s.plan.kernel.grid
    if grid[axis] % 2:
        raise Unfit(f"axis {axis} of its grid has {grid[axis]} blocks, which make no pairs: {ALONE}")
    if any(isinstance(line, Line) and line.axis == axis for line in s.turns or ()):
        raise Unfit(f"blocks beside each other take different turns: {ALONE}")
    tiles = {n: tile for n in s.ring if isinstance(tile := s.moved[n], Moved)}
    alike = [n for n, tile in tiles.items() if not tile.half and steady(s.plan, tile.block, (axis,))]
    if not alike:
        raise Unfit(f"blocks beside each other read nothing alike: {ALONE}")
    moved = dict(s.moved)
    for n, along in _right(s, alike).items() if joint else ():
        one = tiles[n]
        rows, columns = (one.block.sizes[a] for a in one.axes)
        if along and rows % 32 or not along and columns % (2 * one.columns):
            raise Unfit(f"a right operand in blocks of {one.block.shape}, which have no halves of 16 rows, or of 128 "
                        "bytes a row: take larger ones")  # fmt: skip
        moved[n] = replace(
            one, half="rows" if along else "columns", rows=min(one.rows, rows // 2) if along else one.rows
        )
    for n in alike if not joint else ():
        rows = tiles[n].block.sizes[tiles[n].axes[0]]
        if rows % 16:
            raise Unfit(f"a tile of {rows} rows has no halves of a multiple of 8 rows: take blocks of a multiple of 16")
        moved[n] = replace(tiles[n], rows=tiles[n].rows // 2, half="copied", pair=len(s.pairs))
    return replace(s, pairs=(*s.pairs, axis), joint=joint, moved=moved)


def _right(s: Schedule, alike: list[int]) -> dict[int, bool]:
    """The tiles that are right operands, and whether they are summed along the columns of memory.

    Raises:
      Unfit: products are not of a block's own left operand and a right one that is the same for both.
    """
    body, first = s.parts.main, s.plan.kernel.splits[1]
    number = {ref: n for n, ref in enumerate(s.plan.kernel.body.inputs[first:])}
    read = {e.outputs[0]: number[e.inputs[0]] for e in body.eqns if e.primitive is get_p and e.inputs[0] in number}
    found, left = {}, set()
    for eqn in body.eqns:
        if eqn.primitive is dot_general_p:
            a, b = (read.get(x) if isinstance(x, Var) else None for x in eqn.inputs)
            ((_, (along,)), _) = eqn.params["dimension_numbers"]
            if a is None or b is None or a in alike or b not in alike or a not in s.ring:
                raise Unfit("products that are not of rows of a block's own and columns that are the same for both "
                            f"blocks: {ALONE}")  # fmt: skip
            left.add(a)
            tile = s.moved[b]
            assert isinstance(tile, Moved)
            found[b] = _visible(tile).index(tile.axes[1]) == along
    if left & set(found) or set(found) | left != set(s.ring):
        raise Unfit(f"what is copied turn by turn is not read by products alone: {ALONE}")
    return found


def _visible(moved: Moved) -> list[int]:
    return [d for d, gone in enumerate(moved.block.squeezed) if not gone]
