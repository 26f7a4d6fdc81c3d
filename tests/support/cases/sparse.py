"""Cases of products with sparse matrices: elements in any order, repeated, outside, and none at all."""

import numpy as np

from tilewright.core.primitives.contraction.coo_matmul import coo_matmul_p

from . import Case
from .shape import t

PLACES = {
    "by rows": ([0, 0, 1, 3], [1, 2, 0, 2]),
    "any order": ([3, 0, 1, 0], [2, 2, 0, 1]),
    "repeated": ([1, 1, 1, 0], [2, 2, 0, 0]),
    "outside": ([4, 0, -1, 2], [1, 3, 0, -2]),
}


def product(note, rows, columns, k=3, n=9, size=4, dtype="float32", index="int32"):
    rows, columns = np.array(rows, index), np.array(columns, index)
    types = (t(len(rows), dtype=dtype), *(t(len(rows), dtype=index),) * 2, t(k, n, dtype=dtype))
    random = np.random.default_rng(len(note))
    data, dense = (random.integers(-4, 5, s.shape).astype(dtype) / np.asarray(2).astype(dtype) for s in
                   (types[0], types[3]))  # fmt: skip
    operands = (data.astype(dtype), rows, columns, dense.astype(dtype))
    return Case(coo_matmul_p, types, {"size": size}, operands=operands, note=note)


CASES = [
    *(product(note, *places) for note, places in PLACES.items()),
    product("complex", *PLACES["repeated"], dtype="complex64"),
    product("integers", *PLACES["any order"], dtype="int32"),
    product("half", *PLACES["any order"], dtype="bfloat16"),
    product("short indices", *PLACES["outside"], index="int8"),
    product("narrow", *PLACES["any order"], n=2),
    product("no elements", [], []),
    product("no columns", *PLACES["by rows"], n=0),
    product("no rows", *PLACES["by rows"], size=0),
]
