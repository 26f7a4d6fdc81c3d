"""Selective scan (Mamba): the state of every channel goes from step to step, and from block to block in scratch.

    h[t] = exp(dt[t] a) h[t - 1] + dt[t] x[t] b[t],   y[t] = sum(h[t] c[t]) + d x[t]
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import OutOfBoundsError, RaceError


def selective_scan(x, dt, a, b, c, d, o, h):
    @tl.when(tl.program_id(2) == 0)
    def _():
        h[...] = tnp.zeros_like(h)

    def step(t, state):
        now, width = x[t, :], dt[t, :]
        state = tnp.exp(width[:, None] * a[...]) * state + (width * now)[:, None] * b[t, :][None, :]
        o[t, :] = tnp.sum(state * c[t, :][None, :], axis=1) + d[0, :] * now
        return state

    h[...] = lax.fori_loop(0, x.shape[0], step, h[...])


def call(x, dt, a, b, c, d, *, steps=4, channels=4, **changes):
    (batch, length, width), n = x.shape, a.shape[1]
    wide = tl.BlockSpec((None, steps, channels), lambda b, i, t: (b, t, i))
    shared = tl.BlockSpec((None, steps, n), lambda b, i, t: (b, t, 0))
    options = {
        "grid": (batch, width // channels, length // steps),
        "in_specs": [wide, wide, tl.BlockSpec((channels, n), lambda b, i, t: (i, 0)), shared, shared,
                     tl.BlockSpec((1, channels), lambda b, i, t: (0, i))],
        "out_specs": wide,
        "scratch_shapes": [tl.VMEM((channels, n), "float32")],
        "dimension_semantics": ["parallel", "parallel", "arbitrary"],
        "name": "selective_scan",
    }  # fmt: skip
    shape = tw.ShapeDtypeStruct(x.shape, x.dtype)
    return tl.kernel_call(selective_scan, shape, **options | changes)(x, dt, a, b, c, d)


def reference(np, x, dt, a, b, c, d):
    h, out = np.zeros((x.shape[0], *a.shape), x.dtype), []
    for t in range(x.shape[1]):
        h = np.exp(dt[:, t, :, None] * a) * h + (dt[:, t] * x[:, t])[..., None] * b[:, t, None, :]
        out.append((h * c[:, t, None, :]).sum(-1) + d[0] * x[:, t])
    return np.stack(out, 1)


def make(rng, batch, length, width, n):
    dt = rng.uniform(0.01, 0.3, (batch, length, width)).astype("float32")
    a = -rng.uniform(0.5, 2, (width, n)).astype("float32")
    rest = floats(rng, batch, length, n), floats(rng, batch, length, n), floats(rng, 1, width)
    return floats(rng, batch, length, width), dt, a, *rest


SIZES = [Size(2, 12, 8, 3), Size(1, 8, 4, 2, channels=4)]
DIFFERENTIABLE = (0, 1, 2, 3, 4, 5)
TOLERANCE = 2e-5


def too_long(*arrays):
    return call(*arrays, grid=(2, 2, 4))


def all_parallel(*arrays):
    return call(*arrays, dimension_semantics=["parallel"] * 3)


WRONG = [
    Wrong(OutOfBoundsError, too_long, ("kernel selective_scan", "operand x", "cell (0, 0, 3)", "12 to 15", "has 12")),
    Wrong(RaceError, all_parallel, ("kernel selective_scan", "scratch h", "axis 2", "parallel")),
]
