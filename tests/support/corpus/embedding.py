"""Embedding: rows of a table, chosen by ids. The ids are prefetched, so that the table's index map can read them.

A cell's block is known before the cell runs, and can be on its way while the cell before it works.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def embedding(ids, row, o):
    o[...] = row[...]


def call(ids, table, *, columns=4, **changes):
    (n,), width = ids.shape, table.shape[1]
    options = {
        "grid_spec": tl.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(n, tl.cdiv(width, columns)),
            in_specs=[tl.BlockSpec((1, columns), lambda i, j, ids: (ids[i], j))],
            out_specs=tl.BlockSpec((1, columns), lambda i, j, ids: (i, j)),
        )
    }
    return tl.kernel_call(embedding, tw.ShapeDtypeStruct((n, width), table.dtype), **options | changes)(ids, table)


def reference(np, ids, table):
    return table[ids]


def make(rng, n, rows, width):
    return rng.integers(0, rows, n, "int32"), floats(rng, rows, width)


SIZES = [Size(6, 10, 8), Size(5, 3, 7), Size(1, 1, 1)]
DIFFERENTIABLE = (1,)


def spec(table_map, out_map):
    return tl.PrefetchScalarGridSpec(1, (6, 2), [tl.BlockSpec((1, 4), table_map)], tl.BlockSpec((1, 4), out_map))


def past_the_table(ids, table):
    ids[3] = 10
    return call(ids, table, interpret=True)


def one_row(ids, table):
    wrong = spec(lambda i, j, ids: (ids[i], j), lambda i, j, ids: (0, j))
    return call(ids, table, grid_spec=wrong, dimension_semantics=["parallel"] * 2)


WRONG = [
    Wrong(OutOfBoundsError, past_the_table, ("kernel embedding", "operand row", "block (10, 0)", "axis 0", "10")),
    Wrong(RaceError, one_row, ("kernel embedding", "(0, 0) and (1, 0)", "block (0, 0)", "output o", "axis 0")),
]
