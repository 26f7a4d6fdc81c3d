"""Grouped (ragged) matmul: the rows of `x` stand in groups of any sizes, and each group has its own matrix.

A tile of rows is visited once for every group that reaches into it; at most `tiles + groups - 1` visits do. Which
tile and which group a visit is about is prefetched, so the output's index map depends on data too: the visits of
one tile follow each other, the first clears it, and each adds the rows of its group.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def visits(sizes, tile, tiles):
    """For each visit its tile, its group, and the first row and the end of that group (an empty group at the end)."""
    ends = tnp.cumsum(sizes)
    starts = ends - sizes
    first = starts // tile
    counts = tnp.where(sizes > 0, (ends - 1) // tile - first + 1, 0)
    last = tnp.cumsum(counts)
    visit = tnp.arange(tiles + sizes.shape[0] - 1, dtype=tnp.int32)
    group = (visit[:, None] >= last[None, :]).sum(axis=1)
    spare = group == sizes.shape[0]
    group = tnp.where(spare, 0, group)
    at = tnp.where(spare, tiles - 1, first[group] + visit - (last - counts)[group])
    low, high = tnp.where(spare, 0, starts[group]), tnp.where(spare, 0, ends[group])
    return [v.astype(tnp.int32) for v in (at, group, low, high)]


def grouped_matmul(at, group, low, high, x, w, o):
    v = tl.program_id(1)

    @tl.when((v == 0) | (at[v] != at[tnp.maximum(v - 1, 0)]))
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    rows = at[v] * o.shape[0] + tnp.arange(o.shape[0], dtype=tnp.int32)[:, None]
    mine = (rows >= low[v]) & (rows < high[v])
    o[...] += tnp.where(mine, x[...] @ w[...], 0)


def call(x, w, sizes, *, rows=4, columns=4, **changes):
    (m, k), n = x.shape, w.shape[2]
    tiles = tl.cdiv(m, rows)
    options = {
        "grid_spec": tl.PrefetchScalarGridSpec(
            num_scalar_prefetch=4,
            grid=(tl.cdiv(n, columns), tiles + sizes.shape[0] - 1),
            in_specs=[
                tl.BlockSpec((rows, k), lambda j, v, at, group, low, high: (at[v], 0)),
                tl.BlockSpec((None, k, columns), lambda j, v, at, group, low, high: (group[v], 0, j)),
            ],
            out_specs=tl.BlockSpec((rows, columns), lambda j, v, at, group, low, high: (at[v], j)),
        ),
    }
    schedule = visits(tnp.asarray(sizes), rows, tiles)
    return tl.kernel_call(grouped_matmul, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(*schedule, x, w)


def reference(np, x, w, sizes):
    ends = [int(e) for e in sizes.cumsum()]
    return np.concatenate([x[end - int(n) : end] @ w[g] for g, (n, end) in enumerate(zip(sizes, ends))])


def make(rng, m, groups, k, n):
    import numpy as np

    cuts = np.sort(rng.integers(0, m + 1, groups - 1))
    sizes = np.diff(np.concatenate([[0], cuts, [m]])).astype(np.int32)
    return floats(rng, m, k), floats(rng, groups, k, n), sizes


SIZES = [Size(16, 3, 4, 8), Size(13, 5, 3, 7), Size(1, 1, 1, 1), Size(3, 6, 2, 5, rows=8, columns=8)]
DIFFERENTIABLE = (0, 1)
UNBATCHED = (2,)


def too_many_rows(x, w, sizes):
    sizes[:] = 18, 0, 0
    return call(x, w, sizes, interpret=True)


def all_columns(x, w, sizes):
    specs = [
        tl.BlockSpec((4, 4), lambda j, v, at, *_: (at[v], 0)),
        tl.BlockSpec((None, 4, 4), lambda j, v, at, group, *_: (group[v], 0, j)),
    ]
    grid_spec = tl.PrefetchScalarGridSpec(4, (2, 6), specs, tl.BlockSpec((4, 4), lambda j, v, at, *_: (at[v], 0)))
    return call(x, w, sizes, grid_spec=grid_spec, interpret=tl.InterpretParams(detect_races=True),
                dimension_semantics=["parallel", "arbitrary"])  # fmt: skip


WRONG = [
    Wrong(OutOfBoundsError, too_many_rows, ("kernel grouped_matmul", "operand x", "block (4, 0)", "axis 0", "16")),
    Wrong(RaceError, all_columns, ("kernel grouped_matmul", "cell (1, ", "cell (0, ", "of o", "parallel")),
]
