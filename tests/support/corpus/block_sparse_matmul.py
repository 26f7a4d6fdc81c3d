"""Matmul with a block-sparse left side: only the blocks that are there are stored, multiplied, or read.

Block row `i` has its `counts[i]` blocks at `slots[i, :]` of `blocks`, and they stand in block columns
`columns[i, :]`. All three are prefetched; the index maps find the block and the rows of `y` that it meets.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def block_sparse_matmul(counts, slots, columns, block, y, o):
    i, s = tl.program_id(0), tl.program_id(2)

    @tl.when(s == 0)
    def _():
        o[...] = tnp.zeros(o.shape, o.dtype)

    @tl.when(s < counts[i])
    def _():
        o[...] += block[...] @ y[...]


def call(counts, slots, columns, blocks, y, *, width=4, **changes):
    (rows, most), (_, m, k), n = slots.shape, blocks.shape, y.shape[1]
    options = {
        "grid_spec": tl.PrefetchScalarGridSpec(
            num_scalar_prefetch=3,
            grid=(rows, tl.cdiv(n, width), most),
            in_specs=[
                tl.BlockSpec((None, m, k), lambda i, j, s, counts, slots, columns: (slots[i, s], 0, 0)),
                tl.BlockSpec((k, width), lambda i, j, s, counts, slots, columns: (columns[i, s], j)),
            ],
            out_specs=tl.BlockSpec((m, width), lambda i, j, s, *prefetched: (i, j)),
        ),
    }
    shape = tw.ShapeDtypeStruct((rows * m, n), y.dtype)
    return tl.kernel_call(block_sparse_matmul, shape, **options | changes)(counts, slots, columns, blocks, y)


def reference(np, counts, slots, columns, blocks, y):
    rows, most = slots.shape
    _, m, k = blocks.shape
    found = []
    for i in range(rows):
        total = np.zeros((m, y.shape[1]), y.dtype)
        for s in range(int(counts[i])):
            at = int(columns[i, s]) * k
            total = total + blocks[int(slots[i, s])] @ y[at : at + k]
        found.append(total)
    return np.concatenate(found)


def make(rng, rows, columns, m, k, n, present):
    """`present` of each row's blocks on average; some row may have none."""
    import numpy as np

    there = rng.random((rows, columns)) < present
    counts = there.sum(axis=1).astype(np.int32)
    most = max(int(counts.max()), 1)
    slots, at = np.zeros((rows, most), np.int32), np.zeros((rows, most), np.int32)
    first = 0
    for i in range(rows):
        slots[i, : counts[i]] = np.arange(first, first + counts[i])
        at[i, : counts[i]] = np.flatnonzero(there[i])
        first += counts[i]
    return counts, slots, at, floats(rng, max(first, 1), m, k), floats(rng, columns * k, n)


SIZES = [Size(3, 4, 4, 4, 8, 0.5), Size(5, 3, 2, 3, 7, 0.4), Size(1, 1, 1, 1, 1, 1.0)]
DIFFERENTIABLE = (3, 4)
UNBATCHED = (0, 1, 2)


def column_past_the_end(counts, slots, columns, blocks, y):
    columns[1, 0] = 4
    return call(counts, slots, columns, blocks, y, interpret=True)


def all_parallel(*arrays):
    return call(*arrays, dimension_semantics=["parallel"] * 3)


WRONG = [
    Wrong(OutOfBoundsError, column_past_the_end, ("kernel block_sparse_matmul", "operand y", "block (4, 0)", "16")),
    Wrong(RaceError, all_parallel, ("kernel block_sparse_matmul", "(0, 0, 0) and (0, 0, 1)", "output o", "axis 2")),
]
