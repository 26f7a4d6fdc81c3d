"""What a kernel's author chose for its compilation goes along to the kernels of its derivatives and batches."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.walker import kernels_of
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError

X, W = np.ones((8, 16), np.float32), np.full((16, 4), 0.5, np.float32)
ROWS = tl.triton.CompilerParams(num_warps=2, num_stages=1)
BACK = tl.triton.CompilerParams(num_warps=8)


def matmul(x, w, **options):
    """A sum over the last axis, with an end that is not linear."""

    def body(x, w, o, acc):
        @tl.when(tl.program_id(1) == 0)
        def _():
            acc[...] = tnp.zeros_like(acc)

        acc[...] += x[...] @ w[...]

        @tl.when(tl.program_id(1) == 1)
        def _():
            o[...] = tnp.tanh(acc[...])

    return tl.kernel_call(
        body, tw.ShapeDtypeStruct((8, 4), "float32"), grid=(2, 2),
        in_specs=[tl.BlockSpec((4, 8), lambda i, k: (i, k)), tl.BlockSpec((8, 4), lambda i, k: (k, 0))],
        out_specs=tl.BlockSpec((4, 4), lambda i, k: (i, 0)), scratch_shapes=[tl.VMEM((4, 4), "float32")], **options,
    )(x, w)  # fmt: skip


def decay(x, w, **options):
    """A carry that is no sum, along the last axis; every row has the same weights."""

    def body(x, w, o, state):
        @tl.when(tl.program_id(1) == 0)
        def _():
            state[...] = tnp.zeros_like(state)

        state[...] = state[...] * w[0, 0] + x[...] * state[...] + x[...]
        o[...] = state[...]

    block = tl.BlockSpec((4, 4), lambda i, t: (i, t))
    return tl.kernel_call(
        body, tw.ShapeDtypeStruct((8, 16), "float32"), grid=(2, 4),
        in_specs=[block, tl.BlockSpec((16, 4), lambda i, t: (0, 0))], out_specs=block,
        scratch_shapes=[tl.VMEM((4, 4), "float32")], **options,
    )(x, w)  # fmt: skip


def derived(call, argnums=(0, 1), **options):
    """The kernels of a gradient, by whether they are backward ones; `options` are the call's."""
    found = kernels_of(tw.grad(lambda x, w: tnp.sum(tnp.sin(call(x, w, **options))), argnums), X, W)
    kernels = [k for k, _ in found]
    back = [k for k in kernels if "_bwd" in k.name]
    assert back and len(back) < len(kernels)
    return [k for k in kernels if k not in back], back


def params(kernel):
    return dict(kernel.settings).get("compiler_params")


@pytest.mark.parametrize("call", [matmul, decay], ids=["sums", "carry"])
def test_parameters_reach_every_derived_kernel(call):
    forward, back = derived(call, compiler_params=ROWS)
    assert all(params(k) == ROWS for k in forward + back)
    for fun in (tw.vmap(lambda x, w: call(x, w, compiler_params=ROWS), in_axes=(0, None)),
                lambda x, w: tw.jvp(lambda x, w: call(x[0], w, compiler_params=ROWS), (x, w), (x, w))):  # fmt: skip
        found = kernels_of(fun, np.stack([X, X]), W)
        assert found and all(params(k) == ROWS for k, _ in found)


@pytest.mark.parametrize("call", [matmul, decay], ids=["sums", "carry"])
def test_backward_kernels_may_have_others(call):
    given = tl.triton.CompilerParams(num_warps=2, backward=BACK)
    forward, back = derived(call, compiler_params=given)
    assert all(params(k) == given for k in forward) and all(params(k) == BACK for k in back)


def test_a_limit_of_memory_reaches_the_gradient():
    given = tl.tpu.CompilerParams(vmem_limit_bytes=32 << 20, backward=tl.tpu.CompilerParams(vmem_limit_bytes=64 << 20))
    grad = tw.grad(lambda x, w: tnp.sum(tnp.sin(decay(x, w, compiler_params=given))))
    text = tw.compile(grad, X, W, target="tpu:v5e", stop="module")
    assert str(32 << 20) in text and str(64 << 20) in text


def test_declared_axes_of_sums():
    """A block of x for every cell: both axes are free. Rows add to the gradient of w: their axis is innermost."""
    forward, back = derived(matmul, dimension_semantics=("parallel", "arbitrary"))
    assert all(k.semantics == ("parallel", "arbitrary") for k in forward)
    shown = {k.outputs[-1].name: k.semantics for k in back}
    assert shown["x_bar"] == ("parallel", "parallel") and shown["w_bar"] == ("parallel", "arbitrary")
    batch = tw.vmap(lambda x: matmul(x, W, dimension_semantics=("parallel", "arbitrary")))
    ((batched, _),) = kernels_of(batch, X[None])
    assert batched.semantics == ("parallel", "parallel", "arbitrary")


@pytest.mark.parametrize("budget", [2**30, 0], ids=["saved", "computed again"])
def test_declared_axes_of_a_carry(budget):
    stated = ("parallel", "arbitrary")
    with tw.config(residual_bytes=budget):
        forward, back = derived(decay, 0, dimension_semantics=stated)
        assert all(k.semantics == stated for k in forward if k.name.startswith("body"))
        assert [k.semantics for k in back] == [("parallel", "arbitrary") if budget else (*stated, "arbitrary")]
        _, (both,) = derived(decay, dimension_semantics=stated)  # every row adds to the gradient of w
        assert set(both.semantics) == {"arbitrary"}


def test_wrong_parameters_of_backward_kernels():
    with pytest.raises(ArgumentTypeError, match="backward of compiler_params is"):
        matmul(X, W, compiler_params=tl.triton.CompilerParams(backward=tl.tpu.CompilerParams()))
    inner = tl.tpu.CompilerParams(dimension_semantics=("parallel",))
    with pytest.raises(ArgumentError, match="grids of their own"):
        matmul(X, W, compiler_params=tl.tpu.CompilerParams(backward=inner))
