"""What lies past the end of a ragged operand: kept out of outputs, refused where it reaches one, or not known."""

from functools import partial

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import KernelError, PaddingError, SemaphoreError
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.verify.verify import verify

F32 = np.float32
X = np.arange(70, dtype=F32).reshape(10, 7)
STRUCT = tw.ShapeDtypeStruct((10, 7), F32)


def call(body, out=STRUCT, block=(4, 4), out_block=None, grid=(3, 2), fill=None, out_map=None, **options):
    """One ragged operand of 10 x 7 in blocks of 4 x 4."""
    spec = tl.BlockSpec(block, lambda i, j: (i, j), fill=fill)
    out_spec = tl.BlockSpec(out_block or block, out_map or (lambda i, j: (i, j)))
    return lambda x: tl.kernel_call(body, out, grid=grid, in_specs=[spec], out_specs=out_spec, **options)(x)


def verdict(f, x=X):
    """The finding about the operand, or the error."""
    try:
        (kernel,) = kernels_of(tw.make_jaxpr(f)(x))
    except PaddingError as error:
        return error
    return next(f.verdict for f in verify(kernel) if f.what == "padding unread")


def rows(body, **options):
    """Rows of blocks, the result one block of 4 rows by 1: the second axis is gone."""
    options = {"out": tw.ShapeDtypeStruct((10, 2), F32), "out_block": (4, 1)} | options
    return call(body, **options)


def summed(x, o):
    o[...] = x[...].sum(axis=1, keepdims=True)


def masked(x, o):
    ids = tl.program_id(1) * 4 + tnp.arange(4)
    o[...] = tnp.where(ids < 7, x[...], 0).sum(axis=1, keepdims=True)


def masked_otherwise(x, o):
    ids = tl.program_id(1) * 4 + tnp.arange(4)
    o[...] = tnp.where(ids >= 7, 0, x[...] + 1).sum(axis=1, keepdims=True)


def half_masked(x, o):
    ids = tl.program_id(1) * 4 + tnp.arange(4)
    o[...] = tnp.where(ids < 8, x[...], 0).sum(axis=1, keepdims=True)


def loaded(x, o):
    ids = tl.program_id(1) * 4 + tnp.broadcast_to(tnp.arange(4), (4, 4))
    o[...] = tl.load(x, ..., mask=ids < 7, other=0).sum(axis=1, keepdims=True)


def accumulate(x, o):
    @tl.when(tl.program_id(1) == 0)
    def _():
        o[...] = tnp.zeros((4, 1), F32)

    o[...] += tnp.exp(x[...]).sum(axis=1, keepdims=True)


def whole_blocks(x, o):
    @tl.when(tl.program_id(1) == 0)
    def _():
        o[...] = x[...].sum(axis=1, keepdims=True)


SAME = {"out": tw.ShapeDtypeStruct((8, 1), F32), "out_map": lambda i, j: (i, 0), "out_block": (4, 1), "grid": (2, 2)}


def by_data(v):
    """A choice by the data and the positions of a ragged block."""
    return tnp.where((v > 0) & (tnp.broadcast_to(tnp.arange(4), (4, 4)) < 3), v, 1)


def from_data(x, o):
    o[...] = tnp.zeros((4, 1), F32)
    tl.when(x[0, 0] >= 0)(lambda: summed(x, o))


def storing(f):
    def body(x, o):
        o[...] = f(x[...])

    return body


ONE = {"out_block": (4, 1)}
# Each takes the rest of what `call` takes.
PROVED = {
    "a copy": partial(call, storing(lambda v: v)),
    "elementwise": partial(call, storing(lambda v: tnp.sin(v) * 2 + tnp.where(v > 0, v, 1))),
    "a transpose": partial(call, storing(lambda v: v.T), out=tw.ShapeDtypeStruct((7, 10), F32),
                           out_map=lambda i, j: (j, i)),
    "a running sum": partial(call, storing(lambda v: tnp.cumsum(v, axis=1))),
    "a sum over another axis": partial(call, summed, out=tw.ShapeDtypeStruct((10, 1), F32), block=(4, 7), grid=(3, 1),
                                       **ONE),
    "only whole blocks seen": partial(call, summed, out=tw.ShapeDtypeStruct((8, 1), F32), grid=(2, 1), **ONE),
    "whole blocks by a test": partial(call, whole_blocks, **SAME),
    "a mask of positions": partial(rows, masked),
    "the other way round": partial(rows, masked_otherwise),
    "a masked load": partial(rows, loaded),
    "a choice by data": partial(call, storing(by_data)),
    "rows without the last": partial(call, storing(lambda v: v[:, :3].sum(axis=1, keepdims=True)), block=(4, 4),
                                     out=tw.ShapeDtypeStruct((10, 2), F32), **ONE),
    "a mask of data and positions": partial(rows, storing(
        lambda v: ((v > 3) & (tl.program_id(1) * 4 + tnp.arange(4) < 7)).astype(F32).sum(axis=1, keepdims=True))),
    "rows of a choice by data": partial(call, storing(lambda v: by_data(v[:, :4]).sum(axis=1, keepdims=True)),
                                        out=tw.ShapeDtypeStruct((10, 1), F32), block=(4, 7), grid=(3, 1), **ONE),
    "a sort of rows": partial(call, storing(lambda v: tnp.sort(v, axis=1)[:, ::-1]), block=(4, 7), grid=(3, 1)),
}  # fmt: skip
REFUSED = {
    "a sum": partial(rows, summed),
    "a mask that lets one through": partial(rows, half_masked),
    "a maximum": partial(rows, storing(lambda v: v.max(axis=1, keepdims=True))),
    "a softmax": partial(call, storing(lambda v: tnp.exp(v - 80) / tnp.exp(v - 80).sum(axis=1, keepdims=True))),
    "a sum over the grid": partial(call, accumulate, **SAME),
    "a contraction": partial(rows, storing(lambda v: v @ tnp.ones((4, 1), F32))),
    "a sum of squares": partial(rows, storing(lambda v: (v * v).sum(axis=1, keepdims=True))),
    "a sum where it is not negative": partial(
        rows, storing(lambda v: tnp.where(v < 0, 0, v).sum(axis=1, keepdims=True))
    ),
}
UNKNOWN = {
    "a sum of a choice by data": partial(rows, storing(lambda v: by_data(v).sum(axis=1, keepdims=True))),
    "a reversal": partial(call, storing(lambda v: v[:, ::-1])),
    "a longer output": partial(call, storing(lambda v: v), out=tw.ShapeDtypeStruct((12, 8), F32)),
    "a test of data": partial(rows, from_data),
}


def indifferent(make):
    """Whether the results are the same whatever lies past the end."""
    found = []
    for interpret in (False, True):
        one, two = (np.asarray(make(fill=fill, interpret=interpret)(X)) for fill in (75, 80))
        found.append(np.array_equal(one, two))
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("name", PROVED)
def test_padding_that_stays_out(name):
    assert verdict(PROVED[name]()) == "proved"
    assert indifferent(PROVED[name])


@pytest.mark.parametrize("name", REFUSED)
def test_padding_that_reaches_an_output_is_refused(name):
    error = verdict(REFUSED[name]())
    assert isinstance(error, PaddingError)
    text = str(error)
    for word in ("operand x of f32[10,7] ends within a block of (4, 4)", "output o", "fill=0", "test_padding.py"):
        assert word in text, text
    assert not indifferent(REFUSED[name])


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_runs(name):
    f = UNKNOWN[name]()
    assert verdict(f) == "unknown"
    assert np.asarray(f(X)).size
    assert "not proved: x: padding unread (what lies past its end may reach an output" in str(tw.explain(f, X))


@pytest.mark.parametrize("make", [PROVED["a mask of positions"], PROVED["a masked load"]])
def test_masks_work(make):
    got = np.asarray(make()(X))
    np.testing.assert_allclose(got, np.stack([X[:, :4].sum(1), X[:, 4:].sum(1)], 1), rtol=1e-6)


def test_a_fill_is_no_padding():
    got = rows(summed, fill=0)(X)
    np.testing.assert_allclose(got, np.stack([X[:, :4].sum(1), X[:, 4:].sum(1)], 1), rtol=1e-6)


def test_strict_refuses_what_is_unknown():
    assert np.asarray(rows(from_data)(X)).shape == (10, 2)
    with pytest.raises(KernelError, match=r"operand x: padding unread is not proved"):
        rows(from_data, strict=True)(X)
    with tw.config(strict_kernels=True):
        with pytest.raises(KernelError, match="padding unread is not proved"):
            rows(from_data)(X)
        assert np.asarray(rows(from_data, strict=False)(X)).shape == (10, 2)
    np.testing.assert_array_equal(call(lambda x, o: o.__setitem__(..., x[...]), strict=True)(X), X)


# ---------------------------------------------------------------------------- semaphores, before a kernel runs

x8 = np.arange(8, dtype=F32)


def semaphore(body):
    spec = tl.BlockSpec((4,), lambda i: (i,))
    kind = tl.SemaphoreType.DMA
    shape = tw.ShapeDtypeStruct((8,), F32)
    return tl.kernel_call(body, shape, grid=2, in_specs=[spec], out_specs=spec, scratch_shapes=[kind])(x8)


def waits(x, o, sem):
    tl.make_async_copy(x, o, sem).wait()
    o[...] = x[...]


def starts(x, o, sem):
    tl.make_async_copy(x, o, sem).start()


def both(x, o, sem):
    copy = tl.make_async_copy(x, o, sem)
    copy.start()
    copy.wait()


def test_semaphores_that_are_surely_misused_are_refused_compiled():
    with pytest.raises(SemaphoreError, match="the first use of semaphore sem waits"):
        semaphore(waits)
    with pytest.raises(SemaphoreError, match="a copy is started on semaphore sem, and nothing waits for it"):
        semaphore(starts)
    np.testing.assert_array_equal(semaphore(both), x8)
