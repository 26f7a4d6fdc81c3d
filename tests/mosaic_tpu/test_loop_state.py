"""Loops whose iterations hand a part of the state on to another part, on TPUs, whatever they start with."""

import importlib.util

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.walker import check_mosaic
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType

ROWS = 8
STARTS = {
    "constants": lambda a: (tnp.full(a.shape, 3, a.dtype), tnp.zeros(a.shape, a.dtype)),
    "lanes": lambda a: (lax.broadcasted_iota(a.dtype, a.shape, 1), tnp.full(a.shape, 2, a.dtype)),
    "a column": lambda a: (tnp.broadcast_to(a[:, :1], a.shape), tnp.ones(a.shape, a.dtype)),
}
compiles = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="the extra `tpu` is not installed")


def handed_on(start, counted):
    """A kernel of two values, the second of which is the first of the iteration before."""

    def turn(a, now, last):
        return tnp.minimum(now + a, 2 * last), now

    def body(a, o):
        value = a[...]
        if counted:
            found = lax.fori_loop(0, 9, lambda i, s: turn(value, *s), STARTS[start](value))
        else:
            state = (np.int32(0), *STARTS[start](value))
            found = lax.while_loop(lambda s: s[0] < 9, lambda s: (s[0] + 1, *turn(value, *s[1:])), state)[1:]
        o[...] = found[0] - found[1]

    return lambda a: tl.kernel_call(body, tw.ShapeDtypeStruct(a.shape, a.dtype), name="handed_on")(a)


def levenshtein(n):
    """Edit distances of the rows of two arrays, by diagonals of n + 1 lanes."""

    def body(a, b, o):
        far = np.int32(1 << 20)
        shape = (ROWS, n + 1)
        lane = lax.broadcasted_iota("int32", shape, 1)

        def shifted(x):
            return tnp.concatenate([tnp.full((ROWS, 1), far, "int32"), x[:, :-1]], axis=1)

        def step(k, state):
            last, before, turned = state
            turned = tnp.concatenate([turned[:, -1:], turned[:, :-1]], axis=1)
            cost = (a[...] != turned).astype("int32")
            now = tnp.minimum(tnp.minimum(last, shifted(last)) + 1, shifted(before) + cost)
            return tnp.where(lane == 0, k, now), last, turned

        start = tnp.where(lane == 0, 0, far), tnp.full(shape, far, "int32"), b[...]
        o[...] = lax.fori_loop(1, 2 * n + 1, step, start)[0]

    spec = tl.BlockSpec((ROWS, n + 1), lambda i: (i, 0))
    return lambda a, b: tl.kernel_call(
        body, tw.ShapeDtypeStruct(a.shape, "int32"), grid=a.shape[0] // ROWS, in_specs=[spec, spec], out_specs=spec,
        name="levenshtein",
    )(a, b)  # fmt: skip


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("start", STARTS)
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_values_that_are_handed_on(dtype, start, counted):
    struct = ArrayType((ROWS, 129), np.dtype(dtype))
    (kernel,) = kernels_in(handed_on(start, counted), [struct])
    check_mosaic(kernel, np.random.default_rng(0).integers(-9, 9, struct.shape).astype(dtype))


@compiles
@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("start", STARTS)
def test_they_compile(start, counted):
    struct = tw.ShapeDtypeStruct((ROWS, 129), "float32")
    (used,) = tw.compile(handed_on(start, counted), struct, target="tpu:v5e").resources
    assert used.kernel == "handed_on" and not used.left_to_xla


@compiles
@pytest.mark.parametrize("n", [127, 128, 200])
def test_widths_of_one_lane_more(n):
    struct = tw.ShapeDtypeStruct((2 * ROWS, n + 1), "int32")
    (used,) = tw.compile(levenshtein(n), struct, struct, target="tpu:v5e").resources
    assert used.kernel == "levenshtein" and not used.left_to_xla
