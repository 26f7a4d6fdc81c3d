"""Matmul of int8 with int32 sums, scaled to float32 at the end: a scale for each row of `x` and column of `y`."""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def int8_matmul(x, y, row_scale, column_scale, o, total):
    k = tl.program_id(2)

    @tl.when(k == 0)
    def _():
        total[...] = tnp.zeros(total.shape, total.dtype)

    total[...] += tnp.dot(x[...], y[...], preferred_element_type=tnp.int32)

    @tl.when(k == tl.num_programs(2) - 1)
    def _():
        o[...] = total[...].astype(o.dtype) * row_scale[...] * column_scale[...]


def call(x, y, row_scale, column_scale, *, rows=4, columns=4, depth=4, **changes):
    (m, k), n = x.shape, y.shape[1]
    options = {
        "grid": (tl.cdiv(m, rows), tl.cdiv(n, columns), tl.cdiv(k, depth)),
        "in_specs": [
            tl.BlockSpec((rows, depth), lambda i, j, k: (i, k), fill=0),
            tl.BlockSpec((depth, columns), lambda i, j, k: (k, j), fill=0),
            tl.BlockSpec((rows, 1), lambda i, j, k: (i, 0)),
            tl.BlockSpec((1, columns), lambda i, j, k: (0, j)),
        ],
        "out_specs": tl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        "scratch_shapes": [tl.VMEM((rows, columns), tnp.int32)],
    }
    shape = tw.ShapeDtypeStruct((m, n), row_scale.dtype)
    return tl.kernel_call(int8_matmul, shape, **options | changes)(x, y, row_scale, column_scale)


def reference(np, x, y, row_scale, column_scale):
    total = np.asarray(x, np.int32) @ np.asarray(y, np.int32)
    return total.astype(row_scale.dtype) * row_scale * column_scale


def make(rng, m, k, n):
    import numpy as np

    x, y = rng.integers(-128, 128, (m, k), "int8"), rng.integers(-128, 128, (k, n), "int8")
    return x, y, rng.random((m, 1), np.float32) / 128, rng.random((1, n), np.float32) / 128


SIZES = [Size(8, 12, 8), Size(7, 11, 5), Size(1, 1, 1)]
DIFFERENTIABLE = (2, 3)


def too_deep(*arrays):
    return call(*arrays, grid=(2, 2, 4))


def all_parallel(*arrays):
    return call(*arrays, dimension_semantics=["parallel"] * 3)


WRONG = [
    Wrong(OutOfBoundsError, too_deep, ("kernel int8_matmul", "operand x", "cell (0, 0, 3)", "12 to 15", "has 12")),
    Wrong(RaceError, all_parallel, ("kernel int8_matmul", "(0, 0, 0) and (0, 0, 1)", "output o", "axis 2")),
]
