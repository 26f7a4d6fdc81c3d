"""Every primitive under a sharding of its operands gives what it gives without, and so does its gradient."""

import zlib

import numpy as np
import pytest

import tilewright as tw
from tests.support.laws import CASES, as_list, differentiable, normal, operands
from tilewright import numpy as tnp
from tilewright.core.types import is_inexact, is_key
from tilewright.sharding import NamedSharding, P

MESHES = [tw.make_mesh((4, 2), ("x", "y")), tw.make_mesh((2, 2, 2), ("x", "y", "z")), tw.make_mesh((8,), ("x",))]
# One in so many cases, another each time the table changes little: all of them (`-m targets`) take minutes.
EVERY = 14


def is_taken(case):
    return case.types and not any(is_key(t.dtype) for t in case.types)


TAKEN = [case for case in CASES if is_taken(case)]
# What XLA computes wrongly, or ends the process at, where it is free to split.
HARD = ("reduce-", "reduce_or-", "scatter_add-f32[4,5]-i32[3,2]-f32[2,3,3]-clip", "scatter_max-f32[2,3]-i32[5,2]")
USUAL = {id(case) for i, case in enumerate(TAKEN) if i % EVERY == 0 or str(case).startswith(HARD)}
CHOSEN = [case if id(case) in USUAL else pytest.param(case, marks=pytest.mark.targets) for case in TAKEN]


def lying(rng, mesh, ndim):
    """A drawn sharding; most sizes of the cases do not divide."""
    places = rng.integers(-1, max(ndim, 1), len(mesh.axis_names)) if ndim else []
    dims = [tuple(n for n, p in zip(mesh.axis_names, places) if p == d) for d in range(ndim)]
    return NamedSharding(mesh, P(*dims))


@pytest.mark.parametrize("case", CHOSEN, ids=str)
def test_sharded_is_unsharded(case):
    rng = np.random.default_rng(zlib.crc32(str(case).encode()))
    mesh, args = MESHES[rng.integers(3)], operands(case)
    far = [tw.device_put(x, lying(rng, mesh, np.ndim(x))) for x in args]

    def f(*args):
        return as_list(case.primitive.bind(*args, **case.params))

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
