"""Product with a matrix of 4-bit integers, two in a byte, and a scale for each group of its rows and each column."""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def int4_matmul(x, packed, scale, o, acc):
    k = tl.program_id(2)

    @tl.when(k == 0)
    def _():
        acc[...] = tnp.zeros_like(acc)

    pairs = packed[...].astype("int32")
    low, high = ((pairs & 15) ^ 8) - 8, (((pairs >> 4) & 15) ^ 8) - 8
    rows = tnp.stack([low, high], axis=1).reshape(2 * pairs.shape[0], pairs.shape[1])
    weights = rows.astype(x.dtype) * scale[...].astype(x.dtype)
    acc[...] += tnp.dot(x[...], weights, preferred_element_type="float32")

    @tl.when(k == tl.num_programs(2) - 1)
    def _():
        o[...] = acc[...].astype(o.dtype)


def call(x, packed, scale, *, rows=8, columns=8, **changes):
    (m, depth), n = x.shape, packed.shape[1]
    group = depth // scale.shape[0]
    options = {
        "grid": (tl.cdiv(m, rows), tl.cdiv(n, columns), depth // group),
        "in_specs": [tl.BlockSpec((rows, group), lambda i, j, k: (i, k)),
                     tl.BlockSpec((group // 2, columns), lambda i, j, k: (k, j)),
                     tl.BlockSpec((1, columns), lambda i, j, k: (k, j))],
        "out_specs": tl.BlockSpec((rows, columns), lambda i, j, k: (i, j)),
        "scratch_shapes": [tl.VMEM((rows, columns), "float32")],
        "name": "int4_matmul",
    }  # fmt: skip
    return tl.kernel_call(int4_matmul, tw.ShapeDtypeStruct((m, n), x.dtype), **options | changes)(x, packed, scale)


def reference(np, x, packed, scale):
    pairs = packed.astype("int32")
    low, high = ((pairs & 15) ^ 8) - 8, (((pairs >> 4) & 15) ^ 8) - 8
    rows = np.stack([low, high], 1).reshape(2 * packed.shape[0], packed.shape[1])
    return x @ (rows.astype(x.dtype) * np.repeat(scale, x.shape[1] // scale.shape[0], 0))


def make(rng, m, depth, n, groups):
    packed = rng.integers(-128, 128, (depth // 2, n)).astype("int8")
    return floats(rng, m, depth), packed, rng.uniform(0.01, 0.1, (groups, n)).astype("float32")


SIZES = [Size(16, 16, 16, 2), Size(13, 8, 11, 1)]
LARGE = Size(256, 1024, 512, 8, rows=128, columns=128)
DTYPES = ("bfloat16", "int8", "float32")
DIFFERENTIABLE = (0, 2)
TOLERANCE = 2e-5


def too_wide(*arrays):
    return call(*arrays, grid=(2, 3, 2))


def all_parallel(*arrays):
    return call(*arrays, dimension_semantics=["parallel"] * 3)


WRONG = [
    Wrong(OutOfBoundsError, too_wide, ("kernel int4_matmul", "operand packed", "cell (0, 2, 0)", "16 to 23", "has 16")),
    Wrong(RaceError, all_parallel, ("kernel int4_matmul", "axis 2", "parallel")),
]
