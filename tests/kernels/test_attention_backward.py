"""The backward pass of attention as one kernel, whose blocks add to the gradient of the queries atomically."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.hopper_cases import attention
from tests.support.gpu.walker import check_hopper, check_triton
from tilewright import nn
from tilewright.kernels.fused.attention import dot_product_attention, reference
from tilewright.lang.kernel.traverse import kernels_of


def operands(kernel):
    rng = np.random.default_rng(1)
    return [rng.standard_normal(t.shape).astype(t.dtype) for t in kernel.in_types]


@pytest.mark.parametrize("options", [{"is_causal": True}, {"local_window_size": (8, 3)}, {"rows": 16, "columns": 32}])
def test_its_gradients_are_those_of_the_formula(options):
    rng = np.random.default_rng(0)
    q, ct = (rng.standard_normal((1, 40, 4, 16)).astype("float32") for _ in range(2))
    k, v = (rng.standard_normal((1, 40, 2, 16)).astype("float32") for _ in range(2))

    def gradients(f, **more):
        return tw.jit(tw.grad(lambda *a: (f(*a, **options, **more) * ct).sum(), (0, 1, 2)))(q, k, v)

    with tw.config(kernel_target="cuda:sm_90"):
        found = gradients(dot_product_attention, deterministic=False)
    for one, expected in zip(found, gradients(reference), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-3, atol=1e-4)


def test_it_is_one_kernel_of_five_products_on_hopper():
    kernels = attention(t=128, d=128, deterministic=False)
    assert [k.name for k in kernels] == ["attention", "attention_backward"]
    check_hopper(kernels[1], *operands(kernels[1]), rtol=5e-3)  # sums of slopes that are rounded to 16 bits


def test_other_heads_run_by_triton():
    kernel = attention(t=64, d=64, is_causal=True, deterministic=False)[1]
    check_triton(kernel, *operands(kernel))


def test_by_default_it_is_two_kernels():
    assert [k.name for k in attention(t=128)] == ["attention", "attention_dq", "attention_dkv"]


@pytest.mark.parametrize("deterministic, count", [(True, 3), (False, 2)])
def test_the_call_of_nn_passes_on_whether_the_order_is_fixed(deterministic, count):
    def summed(*qkv):
        made = nn.dot_product_attention(*qkv, is_causal=True, implementation="fused", deterministic=deterministic)
        return made.astype("float32").sum()

    heads = tw.ShapeDtypeStruct((1, 256, 2, 64), "bfloat16")
    program = tw.compile(tw.grad(summed, (0, 1, 2)), heads, heads, heads, target="cuda:sm_90", stop="split")
    assert [k.name.startswith("attention") for k in kernels_of(program)].count(True) == count
