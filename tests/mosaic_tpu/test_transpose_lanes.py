"""Bodies that cut lanes, turned: they compute what they computed, and compile in seconds."""

import importlib.util
import time

import numpy as np
import pytest

import tilewright as tw
from tests.support.authors import EVERY
from tests.support.authors.forms import loss
from tests.support.authors.orders import bitonic, by_rows
from tests.support.corpus.runs import close
from tests.support.gpu.walker import check_mosaic, kernels_of
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.transforms.desugar import desugared
from tilewright.mosaic_tpu.transpose_lanes import transpose_lanes

PLAIN = InterpretParams()
CASES = {c.name: c for c in EVERY}


def check_turned(kernel, arrays):
    """A kernel that is turned, which gives what it gave."""
    kernel = desugared(kernel)
    other = transpose_lanes(kernel)
    assert other.body is not kernel.body
    close(interpret(other, *arrays, params=PLAIN), interpret(kernel, *arrays, params=PLAIN), 1e-6)


def test_sorts_and_their_gradients_are_turned():
    case = CASES["bitonic_sort"]
    arrays = case.operands()
    found = kernels_of(tw.grad(loss(case.call, case.plain(np, *arrays)), case.derived), *arrays)
    assert len(found) == 2
    for kernel, operands in found:
        check_turned(kernel, operands)
        check_mosaic(kernel, *operands)


def blocks(body, x, **options):
    block = tl.BlockSpec((4, *x.shape[1:]), lambda i: (i, *[0] * (x.ndim - 1)))
    ((kernel, arrays),) = kernels_of(tl.kernel_call(body, x, grid=len(x) // 4, in_specs=[block], out_specs=block,
                                                    **options), x)  # fmt: skip
    return kernel, arrays


X = np.random.default_rng(0).standard_normal((8, 16), dtype=np.float32)


def halves(x, o):
    parts = x[...].reshape(4, 4, 2, 2)
    low, high = parts[:, ::2, 0], parts[:, 1::2, 1]
    place = lax.broadcasted_iota("float32", (4, 2, 2), 1) + 4 * lax.broadcasted_iota("float32", (4, 2, 2), 0)
    total = (low * high + place).sum(axis=2, keepdims=True)
    o[...] = tnp.pad(tnp.broadcast_to(total, (4, 2, 2)).reshape(4, 4), ((0, 0), (3, 9)))


def in_parts(x, o):
    first = x[:, 0, :].reshape(4, 2, 2)
    o[:, 0, :] = first[:, ::-1].reshape(4, 4)
    o[:, 1, :] = x[:, 1, :]
    o[:, 1, :] += tnp.concatenate([first[:, :, :1], first[:, :, 1:] * 2], axis=2).reshape(4, 4)


@pytest.mark.parametrize("body, x", [(halves, X), (in_parts, X.reshape(8, 2, 8)[:, :, :4].copy())])
def test_windows_positions_and_sums_are_turned(body, x):
    kernel, arrays = blocks(body, x)
    check_turned(kernel, arrays)
    check_mosaic(kernel, *arrays)


def over_rows(x, o):
    o[...] = (x[...].reshape(4, 4, 4) / x[...].sum()).reshape(4, 16)


def in_half_words(x, o):
    o[...] = (x[...].astype("bfloat16").reshape(4, 8, 2)[:, ::-1]).reshape(4, 16).astype("float32")


def whole_lanes(x, o):
    o[...] = x[...] * 2


@pytest.mark.parametrize("body", [over_rows, in_half_words, whole_lanes])
def test_what_joins_rows_or_has_no_use_of_it_stays_as_it_is(body):
    kernel = desugared(blocks(body, X)[0])
    assert transpose_lanes(kernel) is kernel


@pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="the extra `tpu` is not installed")
def test_the_gradient_of_a_sort_compiles_in_seconds():
    """With the lanes cut it took minutes."""
    call = by_rows(bitonic, "bitonic_sort")
    begun = time.perf_counter()
    tw.compile(tw.grad(lambda x: (call(x, rows=8) ** 2).sum()), tw.ShapeDtypeStruct((64, 32), "float32"),
               target="tpu:v5e")  # fmt: skip
    assert time.perf_counter() - begun < 60
