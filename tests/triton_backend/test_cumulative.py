"""Cumulative sums beside axes of size 1, which Triton's compiler once refused."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.walker import check_triton
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.triton_backend import compiler

N = 64


def differences(a, o):
    sums = tnp.cumsum(a[...], axis=0 if a.shape[1] == 1 else 1)
    o[...] = sums - sums.T


def columns(a, o):
    sums = tnp.cumsum(a[...], axis=0)
    o[...] = sums[:, :1] - sums[:, :1].T


def flat(a, o):
    sums = tnp.cumsum(a[...][:, 0])
    o[...] = sums[:, None] - sums[None, :]


def repeated(a, o):
    o[...] = tnp.cumsum(a[...], axis=0) * tnp.ones((1, N), "float32")


CASES = {
    "a column": (differences, (N, 1)), "a row": (differences, (1, N)), "two columns": (columns, (N, 2)),
    "a vector": (flat, (N, 1)), "a repeated column": (repeated, (N, 1)),
}  # fmt: skip


def call(name):
    body, shape = CASES[name]
    struct = ArrayType(shape, np.dtype("float32"))
    return lambda a: tl.kernel_call(body, tw.ShapeDtypeStruct((N, N), "float32"), name="sums")(a), struct


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    function, struct = call(name)
    (kernel,) = kernels_in(function, [struct])
    check_triton(kernel, np.random.default_rng(0).standard_normal(struct.shape).astype("float32"))


@pytest.mark.targets
@pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]")
@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90", "rocm:gfx942"])
@pytest.mark.parametrize("name", CASES)
def test_they_compile(name, target):
    function, struct = call(name)
    program = tw.compile(function, tw.ShapeDtypeStruct(struct.shape, struct.dtype), target=target)
    assert [k.name for k in program.kernels] == ["sums"] and not any(r.left_to_xla for r in program.resources)
