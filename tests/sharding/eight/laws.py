"""Every primitive under a drawn sharding of its operands gives what it gives without, and so does its gradient.

Mesh and specs are drawn, and a batch of the primitive, along which most sizes do not divide. `TILEWRIGHT_SHARDINGS=5`
draws as many of each.
"""

import os
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.laws import CASES, as_list, batchable, differentiable, normal, operands
from tilewright import numpy as tnp
from tilewright.core.ir.types import is_inexact, is_key
from tilewright.sharding import NamedSharding, P

DRAWN = int(os.environ.get("TILEWRIGHT_SHARDINGS", "1"))
MESHES = [tw.make_mesh((4, 2), ("x", "y")), tw.make_mesh((2, 2, 2), ("x", "y", "z")), tw.make_mesh((8,), ("x",))]
# One in so many cases, another each time the table changes little: all of them (`-m targets`) take minutes.
EVERY = 28


def is_taken(case):
    return case.types and not any(is_key(t.dtype) for t in case.types)


TAKEN = [case for case in CASES if is_taken(case)]
# What XLA computes wrongly, or ends the process at, where it is free to split.
HARD = ("reduce-", "reduce_or-", "scatter_add-f32[4,5]-i32[3,2]-f32[2,3,3]-clip", "scatter_max-f32[2,3]-i32[5,2]",
        "scatter_mul-f32[4,3]-i32[3,1]-f32[3,3]-fill-unique")  # fmt: skip
USUAL = {id(case) for i, case in enumerate(TAKEN) if i % EVERY == 0 or str(case).startswith(HARD)}
CHOSEN = [case if id(case) in USUAL else pytest.param(case, marks=pytest.mark.targets) for case in TAKEN]


class Drawing:
    """What hypothesis draws for a case; the first draw, which is its simplest one, is another for each case."""

    def __init__(self, data, case):
        self.data, self.rng = data, np.random.default_rng(zlib.crc32(str(case).encode()))

    def below(self, n):
        return (self.data.draw(st.integers(0, n - 1)) + int(self.rng.integers(n))) % n

    def lying(self, mesh, ndim):
        """A sharding: each axis of the mesh splits one dimension, or none."""
        places = [self.below(ndim + 1) for _ in mesh.axis_names]
        return NamedSharding(mesh, P(*(tuple(n for n, p in zip(mesh.axis_names, places) if p == d)
                                       for d in range(ndim))))  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("case", CHOSEN, ids=str)
@settings(max_examples=DRAWN, deadline=None, derandomize=DRAWN == 1, database=None)
@given(data=st.data())
def test_sharded_is_unsharded(case, data):
    drawing, args = Drawing(data, case), operands(case)
    mesh, rows = MESHES[drawing.below(3)], drawing.below(12) if batchable(case) else 0
    if rows:
        args = [np.stack(column) for column in zip(*(operands(case, salt) for salt in range(rows)))]
    far = [tw.device_put(x, drawing.lying(mesh, np.ndim(x))) for x in args]

    def one(*args):
        return as_list(case.primitive.bind(*args, **case.params))

    f = tw.vmap(one) if rows else one
    mask = differentiable(case)

    def both(*args):
        outs = f(*args)
        if mask is None:
            return outs, []
        weights = [normal(np.random.default_rng(1), o) if is_inexact(o.dtype) else None for o in outs]

        def loss(*moving):
            given = iter(moving)
            full = [next(given) if m else a for m, a in zip(mask, args, strict=True)]
            parts = [tnp.real(tnp.sum(o * w)) for o, w in zip(f(*full), weights, strict=True) if w is not None]
            return sum(parts[1:], start=parts[0])

        moving = [a for a, m in zip(args, mask, strict=True) if m]
        return outs, list(tw.grad(loss, tuple(range(len(moving))))(*moving))

    run = tw.jit(both if case.primitive.transpose is not None or mask is None else lambda *a: (f(*a), []))
    found, wanted = run(*far), run(*args)
    for a, b in zip([*found[0], *found[1]], [*wanted[0], *wanted[1]], strict=True):
        assert not a.size or a.sharding.mesh is mesh
        np.testing.assert_allclose(np.asarray(a, b.dtype), b, rtol=50 * case.tolerance, atol=50 * case.tolerance)
