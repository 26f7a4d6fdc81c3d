"""Sums of blocks of rows with copies of its own: while one block is added up, the next is on its way.

The operand stays in far memory (`ANY`); the body copies pieces of it to two buffers in turn, each with a semaphore.
The interpreter moves the bytes only when the copy is waited for, so a missing wait shows.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright.core.support.errors import OutOfBoundsError, RaceError, SemaphoreError


def piece_sums(x, o, buffers, semaphores, *, wait=True):
    pieces = o.shape[0]
    columns = tl.ds(tl.program_id(0) * o.shape[1], o.shape[1])

    def copy(k):
        return tl.make_async_copy(x.at[k, :, columns], buffers.at[k % 2], semaphores.at[k % 2])

    copy(0).start()
    for k in range(pieces):
        if k + 1 < pieces:
            copy(k + 1).start()
        if wait:
            copy(k).wait()
        o[k, :] = buffers[k % 2].sum(axis=0)


def call(x, *, columns=4, body=piece_sums, **changes):
    pieces, rows, n = x.shape
    options = {
        "grid": n // columns,
        "in_specs": [tl.BlockSpec(memory_space=tl.ANY)],
        "out_specs": tl.BlockSpec((pieces, columns), lambda j: (0, j)),
        "scratch_shapes": [tl.VMEM((2, rows, columns), x.dtype), tl.SemaphoreType.DMA((2,))],
        "name": "piece_sums",
    }
    return tl.kernel_call(body, tw.ShapeDtypeStruct((pieces, n), x.dtype), **options | changes)(x)


def reference(np, x):
    return x.sum(axis=1)


def make(rng, pieces, rows, columns):
    return (floats(rng, pieces, rows, columns),)


SIZES = [Size(3, 4, 8, columns=4), Size(5, 3, 7, columns=7), Size(1, 1, 1, columns=1)]
DIFFERENTIABLE = (0,)


def no_wait(x, columns):
    return call(x, columns=columns, body=lambda *refs: piece_sums(*refs, wait=False), interpret=True)


def same_columns(x, columns):
    return call(x, columns=columns, out_specs=tl.BlockSpec((3, columns), lambda j: (0, 0)),
                dimension_semantics=["parallel"])  # fmt: skip


def one_further(x, columns):
    return call(x, columns=columns, out_specs=tl.BlockSpec((3, columns), lambda j: (0, j + 1)))


WRONG = [
    Wrong(OutOfBoundsError, one_further, ("kernel piece_sums", "operand o of f32[3,8]", "cell (1,)", "block (0, 2)")),
    Wrong(SemaphoreError, no_wait, ("kernel piece_sums", "cell (", "nothing waited for", ".wait()")),
    Wrong(RaceError, same_columns, ("kernel piece_sums", "(0,) and (1,)", "block (0, 0)", "output o", "axis 0")),
]
