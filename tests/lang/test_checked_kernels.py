"""Checks in the bodies of kernels: the cell and the line, interpreted, compiled, and in programs for devices."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.walker.check import check_mosaic, check_triton, kernels_of
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.experimental import checkify as ck


def body(x_ref, o_ref):
    i = tl.program_id(0)
    x = x_ref[...]
    ck.check(tnp.all(x < 10), "block {} holds {}", i, tnp.max(x))
    o_ref[...] = x * 2


LINE = body.__code__.co_firstlineno + 3


def doubled(x, **options):
    spec = tl.BlockSpec((8, 128), lambda i, j: (i, j))
    return tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.shape[0] // 8, 2),
                          in_specs=[spec], out_specs=spec, **options)(x)  # fmt: skip


GOOD = np.ones((32, 256), np.float32)
BAD = GOOD.copy()
BAD[20, 200], BAD[30, 3] = 11.0, 20.0
TEXT = "kernel body, cell (2, 1): block 2 holds 11.0 (`check` failed)"


@pytest.mark.parametrize("interpret", [False, True])
def test_the_first_cell_that_fails(interpret):
    checked = ck.checkify(lambda x: doubled(x, interpret=interpret))
    for way in (checked, tw.jit(checked)):
        error, out = way(BAD)
        assert error.get() == TEXT and error.get_exception().source.line == LINE
        np.testing.assert_array_equal(out, 2 * BAD)
        assert way(GOOD)[0].get() is None


def test_without_checkify():
    with pytest.raises(ck.FailedCheckError, match=r"cell \(2, 1\): block 2 holds 11.0") as caught:
        doubled(BAD, interpret=True)
    assert caught.value.source.line == LINE
    with pytest.raises(ck.NotFunctionalizedError) as caught:
        doubled(GOOD)
    assert caught.value.source.line == LINE


def test_transformed():
    total = ck.checkify(lambda x: tnp.sum(doubled(x)))
    for way in (ck.checkify(tw.grad(lambda x: tnp.sum(doubled(x)))), ck.checkify(tw.jit(doubled))):
        assert way(BAD)[0].get() == TEXT and way(GOOD)[0].get() is None
    got, error = tw.grad(lambda x: total(x)[::-1], has_aux=True)(BAD)
    assert error.get() == TEXT
    np.testing.assert_array_equal(got, np.full_like(BAD, 2))
    assert tw.vmap(ck.checkify(doubled))(np.stack([GOOD, BAD]))[0].get() == f"at mapped index 1: {TEXT}"
    assert "cell (1, 2, 1): block 2 holds 11.0" in ck.checkify(tw.vmap(doubled))(np.stack([GOOD, BAD]))[0].get()


def rows(x_ref, o_ref):
    @tl.when(tl.program_id(0) > 0)
    def _():
        def turn(k, c):
            ck.check(x_ref[k, 0] != 3, "row {}", k)
            return c

        lax.fori_loop(0, 8, turn, 0)

    o_ref[...] = x_ref[...]


def test_loops_branches_and_computed_grids():
    """Cells outside of a computed grid do not run, and so have no failure."""
    spec = tl.BlockSpec((8, 128), lambda i: (i, 0))

    def call(n, x):
        return tl.kernel_call(rows, out_shape=tw.ShapeDtypeStruct(x.shape, x.dtype), in_specs=[spec], out_specs=spec,
                              grid=(n,))(x)  # fmt: skip

    x = np.zeros((24, 128), np.float32)
    x[3, 0] = x[20, 0] = 3
    checked = tw.jit(ck.checkify(call))
    assert checked(3, x)[0].get() == "kernel rows, cell (2): row 4 (`check` failed)"
    assert checked(2, x)[0].get() is None


@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e"])
def test_programs_for_devices(target):
    """The checks are outputs of the kernel: walked, they hold what the interpreter finds, cell by cell."""
    with tw.config(kernel_target=target):
        ((kernel, _),) = kernels_of(lambda x: ck.checkify(doubled)(x), BAD)
    check = check_mosaic if target.startswith("tpu") else check_triton
    _, code, *payload = check(kernel, BAD, target=target)
    assert code.reshape(4, 2, -1)[..., 0].tolist() == [[0, 0], [0, 0], [0, 1], [1, 0]]
    assert [p.reshape(4, 2, -1)[2, 1, 0] for p in payload] == [2, 11.0]
