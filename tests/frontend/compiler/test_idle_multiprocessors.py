"""No kernel that moves megabytes leaves multiprocessors idle: plans for a GPU that need not be here."""

from __future__ import annotations

import functools

import pytest

import examples.gpt as gpt
import tilewright as tw
from tests.support.authors import EVERY
from tests.support.gpu.gpu_cases import FUSED
from tests.support.gpu.hopper_large import CORPUS, of_corpus
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.core.support import pytree
from tilewright.kernels.fused import OPERATIONS
from tilewright.lang.gpu.normalize import GPU_LIMITS
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.loopnest.plan import plan
from tilewright.lang.targets.target import target_of
from tilewright.lang.transforms.desugar import desugared
from tilewright.lang.transforms.dynamic_grid import static

TARGET = "cuda:sm_90"
UNITS = target_of(TARGET).units
FULL = 0.95  # of the multiprocessors: 128 blocks of a power of two are as many as there need be
LARGE = 8e6  # bytes
# Kernels that have few blocks as they are written, and carry more than sums from step to step.
FEW = {
    "grouped_matmul": "a schedule in memory says which rows each step adds to: blocks of columns alone are parallel",
    "cross_entropy": "16 rows to a block of 256 rows; the maximum so far scales the sum",
    "paged_attention": "a block for each sequence and head, as decoding has them; the maximum so far scales the sum",
    "ring_cache": "a copy in far memory for each of 8 sequences",
    "nested_pipelines": "one program that starts its own copies",
}  # fmt: skip
ROWS, VECTOR = tw.ShapeDtypeStruct((16384, 8192), "bfloat16"), tw.ShapeDtypeStruct((8192,), "bfloat16")


def idle(function, *args):
    """The kernels with few blocks and much to move, each with its number of blocks."""
    return idle_kernels(kernels_of(tw.compile(function, *args, target=TARGET, stop="split")))


def idle_kernels(kernels):
    found = []
    for kernel in dict.fromkeys(kernels):
        kernel = desugared(static(kernel, "a launch needs"), atomics=True, in_step=False)
        blocks = plan(kernel, GPU_LIMITS).programs
        if blocks < FULL * UNITS and sum(t.nbytes for t in (*kernel.in_types, *kernel.out_types)) > LARGE:
            found.append((kernel.name, blocks))
    return found


def total(function):
    def summed(*args):
        return sum(y.astype("float32").sum() for y in pytree.leaves(function(*args)))

    return summed


def moments(x, axis=None):
    x = x.astype("float32")
    return x.mean(axis), x.var(axis)


def batch_norm(x, scale, bias):
    mean, var = moments(x, (0, 1, 2))
    return (x - mean) * lax.rsqrt(var + 1e-5) * scale + bias


IMAGES, CHANNELS = tw.ShapeDtypeStruct((32, 56, 56, 256), "bfloat16"), tw.ShapeDtypeStruct((256,), "bfloat16")
SUMS = {
    "all": (lambda x: x.astype("float32").sum(), ROWS),
    "columns": (lambda x: x.astype("float32").sum(0), ROWS),
    "rows": (lambda x: x.astype("float32").sum(1), ROWS),
    "moments": (moments, ROWS),
    "moments of columns": (functools.partial(moments, axis=0), ROWS),
    "maximum": (lambda x: x.max(), ROWS),
    "maxima of columns": (lambda x: x.max(0), ROWS),
    "any": (lambda x: (x > 0).any(), ROWS),
    "norm": (lambda x: tnp.sqrt((x.astype("float32") ** 2).sum()), ROWS),
    "squared error": (tw.value_and_grad(lambda x, y: ((x - y).astype("float32") ** 2).mean()), ROWS, ROWS),
    "dot": (lambda x: tnp.dot(x, x, preferred_element_type="float32"), tw.ShapeDtypeStruct((2**26,), "bfloat16")),
    "layer norm": (tw.grad(total(nn.fused.layer_norm), (0, 1, 2)), ROWS, VECTOR, VECTOR),
    "bias": (
        tw.grad(total(lambda x, w, b: nn.gelu(x @ w + b)), (0, 1, 2)), tw.ShapeDtypeStruct((8192, 1024), "bfloat16"),
        tw.ShapeDtypeStruct((1024, 4096), "bfloat16"), tw.ShapeDtypeStruct((4096,), "bfloat16")),
    "batch norm": (tw.grad(total(batch_norm), (0, 1, 2)), IMAGES, CHANNELS, CHANNELS),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums_and_their_gradients(name):
    assert idle(*SUMS[name]) == []


@pytest.mark.parametrize("name", FUSED)
def test_fused_operations_and_their_gradients(name):
    operation, types, rest, options = FUSED[name]
    function = functools.partial(OPERATIONS[operation].function, **options)
    args = [tw.ShapeDtypeStruct(t.shape, str(t.dtype)) for t in (*types, *rest)]
    assert idle(tw.value_and_grad(total(function), tuple(range(len(types)))), *args) == []


@pytest.mark.parametrize("case", EVERY, ids=lambda case: case.name)
def test_kernels_of_authors(case):
    function = functools.partial(case.call, **case.blocks)
    found = idle(function, *case.large)
    if case.derived:
        found += idle(tw.grad(total(function), case.derived), *case.large)
    assert bool(found) == (case.name in FEW) and all(name.startswith(case.name) for name, _ in found)


@pytest.mark.parametrize("name", CORPUS)
def test_kernels_of_the_corpus(name):
    assert bool(idle_kernels(of_corpus(name))) == (name in FEW)


def test_a_training_step_of_a_language_model(monkeypatch):
    monkeypatch.setattr(gpt, "WIDTH", 1024)
    monkeypatch.setattr(gpt, "HEADS", 16)
    monkeypatch.setattr(gpt, "LAYERS", 1)
    shapes = tw.eval_shape(lambda: gpt.initial(tw.random.key(0), 50304))
    params = pytree.map(lambda x: tw.ShapeDtypeStruct(x.shape, "bfloat16"), shapes)
    state, codes = tw.eval_shape(nn.adamw_init, params), tw.ShapeDtypeStruct((8, 1025), "int32")
    assert idle(gpt.make_step(100), params, state, codes) == []
