"""The reciprocal of which a target may give fewer digits: value, derivative, batch; where it is an instruction."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.walker import check_mosaic, kernels_of
from tilewright import lang as tl
from tilewright.lang import tpu
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_tpu import mosaic_module
from tilewright.mosaic_tpu.rules import BACKEND as MOSAIC_TPU
from tilewright.triton_backend.rules import BACKEND as TRITON

X = np.linspace(0.5, 4, 24, dtype=np.float32).reshape(4, 6)


def call(x, **how):
    def body(x, o):
        o[...] = tpu.reciprocal(x[...], approx=True, full_range=False) + tpu.reciprocal(x[...])

    return tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct(x.shape, x.dtype), **how)(x)


@pytest.mark.parametrize("interpret", [False, True])
def test_values(interpret):
    np.testing.assert_allclose(call(X, interpret=interpret), 2 / X, rtol=1e-6)


def test_derivatives_and_batches():
    np.testing.assert_allclose(tw.grad(lambda x: call(x).sum())(X), -2 / X**2, rtol=1e-5)
    np.testing.assert_allclose(tw.vmap(call)(np.stack([X, 2 * X])), np.stack([2 / X, 1 / X]), rtol=1e-6)


def test_the_instruction_walked():
    ((kernel, arrays),) = kernels_of(call, X)
    check_mosaic(kernel, *arrays)
    assert "tpu.reciprocal" in str(mosaic_module(kernel, target_of("tpu:v5e")))


def test_where_it_is_an_instruction():
    assert MOSAIC_TPU.way(tpu.approx_reciprocal_p) == "printed"
    assert TRITON.way(tpu.approx_reciprocal_p) == "rewritten"
    text = str(tw.make_jaxpr(lambda x: tpu.reciprocal(x, approx=True))(X))
    assert "approx_reciprocal[full_range=True] a" in text
    assert "approx_reciprocal" not in str(tw.make_jaxpr(tpu.reciprocal)(X))
