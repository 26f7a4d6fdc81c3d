"""Cases of sort and top_k."""

import numpy as np

from tilewright.core.ir.types import bfloat16
from tilewright.core.primitives.movement.sort import sort_p, top_k_p

from . import Case
from .shape import t

SPECIAL = np.array([1.0, np.nan, -0.0, np.inf, 0.0, -np.inf, np.nan, -1.0], np.float32)


def sort(*types, dimension=0, keys=1, stable=True, note="", **more):
    params = {"dimension": dimension, "is_stable": stable, "num_keys": keys}
    return Case(sort_p, types, params, note=f"{dimension}{note}", **more)


def top_k(type_, k, axis, **more):
    return Case(top_k_p, (type_,), {"k": k, "axis": axis}, note=f"{k}@{axis}", **more)


CASES = [
    sort(t(6)),
    sort(t(3, 4), dimension=1),
    sort(t(3, 4), dimension=0),
    sort(t(2, 0), dimension=1),
    sort(t(6, dtype="int32")),
    sort(t(6, dtype="uint8")),
    sort(t(5, dtype="bool")),
    sort(t(5, dtype=bfloat16), grad=(False,)),
    sort(t(5, dtype="complex64")),
    sort(t(6), t(6)),
    sort(t(4, 3, dtype="int32"), t(4, 3), dimension=0, note="-keyed"),
    sort(t(6, dtype="int32"), t(6), t(6, dtype="int32"), keys=2),
    sort(t(8), operands=(SPECIAL,), grad=(False,), note="-special"),
    sort(t(8), t(8, dtype="int32"), operands=(SPECIAL, np.arange(8, dtype=np.int32)), grad=(False,) * 2, note="-order"),
    top_k(t(6), 3, 0),
    top_k(t(3, 4), 2, 1),
    top_k(t(4, 3), 2, 0),
    top_k(t(6, dtype="int32"), 6, 0),
    top_k(t(6, dtype="uint8"), 2, 0),
    top_k(t(6, dtype=bfloat16), 2, 0, grad=(False,)),
    top_k(t(4), 0, 0),
    top_k(t(8), 8, 0, operands=(SPECIAL,), grad=(False,)),
]
