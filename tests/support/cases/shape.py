"""Cases of the primitives that move elements."""

from typing import Any

import numpy as np

from tilewright.core.ir.types import ArrayType, bfloat16
from tilewright.core.primitives.movement.shape import (
    broadcast_in_dim_p,
    concatenate_p,
    copy_p,
    iota_p,
    pad_p,
    reshape_p,
    rev_p,
    slice_p,
    split_p,
    squeeze_p,
    transpose_p,
)

from . import Case


def t(*shape: int, dtype: Any = "float32") -> ArrayType:
    return ArrayType(shape, dtype)


def broadcast(type_, shape, dims):
    return Case(broadcast_in_dim_p, (type_,), {"shape": shape, "broadcast_dimensions": dims}, note=str(dims))


def reshape(type_, *sizes):
    return Case(reshape_p, (type_,), {"new_sizes": sizes, "dimensions": None}, note=str(sizes))


def cut(type_, starts, limits, strides=None):
    params = {"start_indices": starts, "limit_indices": limits, "strides": strides}
    return Case(slice_p, (type_,), params, note=f"{starts}:{limits}:{strides}")


def pad(type_, *config):
    return Case(pad_p, (type_, ArrayType((), type_.dtype)), {"padding_config": config}, note=str(config))


def join(dimension, *types):
    return Case(concatenate_p, types, {"dimension": dimension})


CASES = [
    broadcast(t(), (2, 3), ()),
    broadcast(t(3), (2, 3), (1,)),
    broadcast(t(2), (2, 3), (0,)),
    broadcast(t(2, 1), (4, 2, 3), (1, 2)),
    broadcast(t(1, 3, dtype="int32"), (2, 3, 4), (0, 1)),
    broadcast(t(2, dtype=bfloat16), (2, 0), (0,)),
    broadcast(t(2, dtype="complex64"), (2, 2), (1,)),
    reshape(t(2, 3), 3, 2),
    reshape(t(5, 7), 7, 5),
    reshape(t(3, 1, 6, 10), 3, 4, 15),
    reshape(t(7, 3, dtype="int32"), 21),
    reshape(t(2, 3, dtype="bool"), 6),
    reshape(t(1), *()),
    reshape(t(0, 3), 3, 0, 2),
    Case(squeeze_p, (t(1, 3, 1),), {"dimensions": (0, 2)}),
    Case(squeeze_p, (t(2, 1, dtype=bfloat16),), {"dimensions": (1,)}),
    Case(transpose_p, (t(2, 3, 4),), {"permutation": (2, 0, 1)}, note="(2,0,1)"),
    Case(transpose_p, (t(2, 3, dtype="complex64"),), {"permutation": (1, 0)}),
    Case(rev_p, (t(2, 3),), {"dimensions": (1,)}, note="1"),
    Case(rev_p, (t(2, 3, dtype="int32"),), {"dimensions": (0, 1)}, note="01"),
    Case(copy_p, (t(2, 3),)),
    Case(copy_p, (t(dtype="bool"),)),
    cut(t(6), (1,), (5,)),
    cut(t(6), (1,), (6,), (2,)),
    cut(t(4, 5), (1, 0), (4, 5), (3, 2)),
    cut(t(4, 5, dtype="int32"), (2, 2), (2, 4)),
    cut(t(4, dtype=bfloat16), (4,), (4,), (2,)),
    Case(iota_p, (), {"dtype": np.dtype("int32"), "shape": (3, 2), "dimension": 0}, note="rows"),
    Case(iota_p, (), {"dtype": np.dtype("float32"), "shape": (2, 3), "dimension": 1}, note="columns"),
    Case(iota_p, (), {"dtype": bfloat16, "shape": (4,), "dimension": 0}, note="bf16"),
    Case(iota_p, (), {"dtype": np.dtype("uint8"), "shape": (0,), "dimension": 0}, note="empty"),
    pad(t(3), (1, 2, 0)),
    pad(t(3), (-1, 2, 1)),
    pad(t(2, 3), (0, -1, 2), (2, -2, 0)),
    pad(t(2, 2, dtype="int32"), (1, 0, 1), (0, 0, 0)),
    pad(t(0, 2), (1, 1, 3), (0, 0, 0)),
    pad(t(2, dtype="bool"), (0, 1, 0)),
    join(0, t(2, 3), t(1, 3)),
    join(1, t(2, 1), t(2, 0), t(2, 2)),
    join(0, t(2, dtype="int32"), t(3, dtype="int32")),
    join(0, t(2, dtype="complex64"), t(1, dtype="complex64")),
    Case(split_p, (t(5, 2),), {"sizes": (1, 3, 1), "axis": 0}),
    Case(split_p, (t(2, 3, dtype="int32"),), {"sizes": (0, 3), "axis": 1}),
]
