"""Loops whose masks hold for all elements of most blocks: these have a body of their own, without masks."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.core.tracing.trace import as_type
from tilewright.lang.gpu.normalize import GPU_LIMITS
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.loopnest.full_blocks import full_blocks
from tilewright.lang.loopnest.loop_bounds import Line, bounds_of
from tilewright.lang.loopnest.plan import plan
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend.lower import triton_module

SM_90 = target_of("cuda:sm_90")
SIZES, CELLS = st.sampled_from([16, 32, 64, 128]), st.integers(2, 9)


def value(place, x):
    if not isinstance(place, Line):
        return place
    found = (place.slope * x + place.start) // place.divisor - place.shift
    return min(max(found, 0), place.most) if place.clipped else found


@given(rows=SIZES, columns=SIZES, grid=st.tuples(CELLS, CELLS), left=st.none() | st.integers(0, 300))
@settings(deadline=None)
def test_bounds_of_runs_that_may_be_empty(rows, columns, grid, left):
    """For the blocks in which a causal mask, or one with a window, leaves everything."""
    i, j = np.indices(grid)
    table = i * rows >= (j + 1) * columns - 1
    if left is not None:
        table &= j * columns >= (i + 1) * rows - 1 - left
    kernel = Kernel.__new__(Kernel)
    object.__setattr__(kernel, "grid", grid)
    found = bounds_of(kernel, 1, table, empty_runs=True)
    if found is None:
        return
    for x in range(grid[0]):
        low, high = (value(place, x) for place in found)
        assert [low <= y < high for y in range(grid[1])] == list(table[x]), (found, x)


def masked_sums(mask, t=64, n=64, size=16):
    """A kernel that adds up the elements of blocks that a mask of rows and columns keeps."""

    def body(x, o):
        i, j = tl.program_id(0), tl.program_id(1)

        @tl.when(j == 0)
        def _():
            o[...] = tnp.zeros(o.shape, o.dtype)

        rows = lax.broadcasted_iota("int32", (size, size), 0) + i * size
        columns = lax.broadcasted_iota("int32", (size, size), 1) + j * size
        o[...] += tnp.where(mask(rows, columns), x[...], -1.0).sum(1)

    def call(x):
        return tl.kernel_call(
            body, tw.ShapeDtypeStruct((t,), x.dtype), grid=(t // size, tl.cdiv(n, size)),
            in_specs=[tl.BlockSpec((size, size), lambda i, j: (i, j), fill=0)],
            out_specs=tl.BlockSpec((size,), lambda i, j: (i,)),
        )(x)  # fmt: skip

    return call


MASKS = {
    "causal": (lambda r, c: r >= c, 2),
    "above": (lambda r, c: c >= r, 2),
    "window": (lambda r, c: (c <= r + 20) & (c >= r - 20), 3),
    "bounded": (lambda r, c: c < 50, 2),
    "steep": (lambda r, c: 3 * c <= 2 * r + 7, 2),
    "one column": (lambda r, c: c == 3, 1),
    "squares": (lambda r, c: r * c < 900, 1),
}


@pytest.mark.parametrize("name", MASKS)
def test_values_of_masked_sums(name):
    mask, loops = MASKS[name]
    x = np.random.default_rng(0).standard_normal((64, 64)).astype("float32")
    call = masked_sums(mask)
    (kernel,) = kernels_in(call, [as_type(x)])
    module, whole = triton_module(kernel, SM_90), triton_module(kernel, SM_90, divided=False)
    assert module.text.count("scf.for") == loops and module.divided == (loops > 1)
    assert whole.text.count("scf.for") == 1 and not whole.divided
    r, c = np.indices(x.shape)
    np.testing.assert_allclose(tw.emulate(call, x, target="cuda:sm_90"), np.where(mask(r, c), x, -1).sum(1), rtol=1e-4,
                               atol=1e-4)  # fmt: skip


def test_a_mask_from_data_stays():
    x = np.random.default_rng(1).standard_normal((64, 64)).astype("float32")

    def body(x, y, o):
        @tl.when(tl.program_id(1) == 0)
        def _():
            o[...] = tnp.zeros(o.shape, o.dtype)

        o[...] += tnp.where(y[...] > 0, x[...], 0.0).sum(1)

    block = tl.BlockSpec((16, 16), lambda i, j: (i, j))
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((64,), x.dtype), grid=(4, 4), in_specs=[block, block],
                          out_specs=tl.BlockSpec((16,), lambda i, j: (i,)))  # fmt: skip
    (kernel,) = kernels_in(call, [as_type(x)] * 2)
    assert full_blocks(plan(kernel, GPU_LIMITS).kernel, 1, kernel.body) is None


@pytest.mark.parametrize("options", [{"is_causal": True}, {"is_causal": True, "local_window_size": (100, 0)}, {}])
@pytest.mark.parametrize("route", ["mosaic_gpu", "triton"])
def test_attention_in_several_loops(options, route):
    """Full blocks, those on the diagonal and a ragged end: values as computed by XLA."""
    q, k, v = (np.random.default_rng(i).standard_normal((1, 512, 1, 64)).astype("bfloat16") for i in range(3))

    def attention(q, k, v):
        return nn.fused.dot_product_attention(q, k, v, **options)

    with tw.config(kernel_route=route):
        found = tw.emulate(attention, q, k, v, target="cuda:sm_90")
    wanted = nn.dot_product_attention(*(tnp.asarray(x, "float32") for x in (q, k, v)), **options)
    np.testing.assert_allclose(np.asarray(found, "float32"), np.asarray(wanted), rtol=2e-2, atol=2e-2)
