"""Standard operations under `jit` as machine code, where that is estimated to be faster than XLA's loops."""

from __future__ import annotations

import functools
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.machine_code import needs_llvm
from tilewright import lax, nn, random
from tilewright import numpy as tnp
from tilewright.compiler import cpu_kernel_selection
from tilewright.lang.kernel.traverse import kernels_of

# A machine whose memory is slow: whatever is read again is dear.
SLOW_MEMORY = "read=1e9,copy=1e9,in_place=1e9,streamed=1e9,near=1e11,fma=1e11,bytes=1e11"
pytestmark = needs_llvm


@pytest.fixture(autouse=True)
def slow_memory():
    with tw.config(cpu_rates=SLOW_MEMORY):
        yield


def struct(*shape, dtype="float32"):
    return tw.ShapeDtypeStruct(shape, dtype)


def layer_norm(x, scale):
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale


def kernels(f, *args):
    return [k.name for k in kernels_of(tw.compile(f, *args, stop="kernels"))]


def routes(f, *args):
    return [route for _, route in tw.explain(f, *args, compile=True).routes]


ROWS, SCALE = struct(2048, 256), struct(256)


def test_a_norm_is_one_kernel_of_machine_code():
    assert len(kernels(layer_norm, ROWS, SCALE)) == 1
    (route,) = routes(layer_norm, ROWS, SCALE)
    assert route.startswith("machine code of this CPU")


def test_its_gradients_too():
    slopes = tw.grad(lambda x, s: (layer_norm(x, s) ** 2).sum(), argnums=(0, 1))
    assert all("machine code" in route for route in routes(slopes, ROWS, SCALE))


def test_the_places_of_maxima_alone_are_a_kernel():
    f = functools.partial(tnp.argmax, axis=-1)
    assert kernels(f, ROWS)
    x = np.random.default_rng(0).standard_normal(ROWS.shape, np.float32)
    np.testing.assert_array_equal(tw.jit(f)(x), x.argmax(-1))


@pytest.mark.parametrize("f", [
    lambda x: tnp.tanh(x) * 2,  # no reduction
    lambda x: layer_norm(x[:64], 1.0),  # a small one
    lambda x: x @ x.T,  # a product
])  # fmt: skip
def test_what_xla_does_as_well_is_left_to_it(f):
    assert not kernels(f, ROWS)


def test_products_beside_a_reduction_stay_outside_of_its_kernel():
    program = tw.compile(lambda x, w: nn.gelu(layer_norm(x, 1.0) @ w), ROWS, struct(256, 64), stop="kernels")
    (kernel,) = kernels_of(program)
    assert kernel.name.startswith("rows")
    assert {"dot_general", "tanh"} <= {eqn.primitive.name for eqn in program.eqns}


def test_arithmetic_in_16_bits_is_left_to_xla_but_not_conversions():
    narrow = struct(4096, 256, dtype="bfloat16")
    assert not kernels(lambda x: layer_norm(x, 1), narrow)
    assert kernels(lambda x: layer_norm(x.astype("float32"), 1).astype("bfloat16"), narrow)


@pytest.mark.parametrize("options", [
    {"cpu_tiles": False}, {"cpu_route": "xla"}, {"cpu_rates": "read=1e12,copy=1e12,in_place=1e12,streamed=1e12,"
    "near=1e12,fma=1e9,bytes=1e9"},
])  # fmt: skip
def test_settings_and_the_machine_decide(options):
    with tw.config(**options):
        assert not kernels(layer_norm, ROWS, SCALE)


@pytest.mark.parametrize("f", [nn.rms_norm, nn.layer_norm, nn.fused.softmax, nn.fused.log_softmax])
def test_a_kernel_that_reduces_rows_goes_into_one_with_what_is_around_it(f):
    slopes = tw.grad(lambda x: (f(x) ** 2).sum())
    assert len(routes(slopes, ROWS)) == 1
    x = np.random.default_rng(0).standard_normal(ROWS.shape, np.float32)
    with tw.config(cpu_tiles=False):
        assert len(routes(slopes, ROWS)) > 1
        expected = tw.jit(lambda x: slopes(x))(x)
    np.testing.assert_allclose(tw.jit(slopes)(x), expected, rtol=1e-4, atol=1e-4)


def test_a_kernel_alone_stays_as_it_is():
    assert kernels(nn.layer_norm, ROWS) == ["layer_norm"]


def test_kernels_within_loops_and_branches():
    def sweep(x):
        return lax.fori_loop(0, 3, lambda _, x: lax.cond(x[0, 0] > 0, nn.softmax, lambda x: layer_norm(x, 2.0), x), x)

    x = np.random.default_rng(0).standard_normal((1024, 256), np.float32)
    assert len(kernels(sweep, x)) == 2
    with tw.config(cpu_tiles=False):
        expected = tw.jit(lambda x: sweep(x))(x)
    np.testing.assert_allclose(tw.jit(sweep)(x), expected, rtol=2e-5, atol=1e-6)


def test_an_export_has_no_machine_code():
    exported = tw.export.export(tw.jit(layer_norm))(ROWS, SCALE)
    assert "cpu-" not in exported.mlir_module()


def test_a_kernel_without_machine_code_is_what_it_was_made_of(monkeypatch):
    def refuse(kernel, most_seconds):
        raise tw.errors.UnsupportedError("no code", "none")

    monkeypatch.setattr(cpu_kernel_selection, "call_of", refuse)
    f = functools.partial(layer_norm, scale=3.0)
    (route,) = routes(f, ROWS)
    assert route.startswith("XLA, as the operations that it was made of") and "no code" in route
    x = np.random.default_rng(0).standard_normal(ROWS.shape, np.float32)
    np.testing.assert_allclose(tw.jit(f)(x), f(x), rtol=1e-5, atol=1e-5)


def test_explain_has_the_kernel_and_xlas_fusions():
    text = str(tw.explain(lambda x, w: nn.gelu(layer_norm(x, 1.0) @ w), ROWS, struct(256, 64)))
    assert "1 kernel" in text and "XLA fusion" in text and "fuses" in text


def test_programs_without_a_large_reduction_do_not_load_the_kernel_language():
    code = (
        "import sys, numpy as np, tilewright as tw\n"
        "tw.jit(lambda x: (x * 2).sum())(np.ones(9))\n"
        "assert not [m for m in sys.modules if m.startswith(('tilewright.cpu_backend', 'llvmlite'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# ---------------------------------------------------------------------------- values

UNARY = {"exp": np.exp, "tanh": np.tanh, "square": np.square, "abs": np.abs, "negative": np.negative}
REDUCTIONS = ("sum", "max", "min", "mean")


@st.composite
def recipes(draw):
    """Shape, axis, and steps: an elementwise function, or a reduction that is subtracted from what it reduces."""
    shape = draw(st.sampled_from([(700, 300), (131, 4, 257), (512, 512), (3, 2, 40000)]))
    axis = draw(st.integers(0, len(shape) - 1))
    steps = draw(st.lists(st.sampled_from([*UNARY, *REDUCTIONS]), min_size=2, max_size=6))
    return shape, axis, [*steps, draw(st.sampled_from(REDUCTIONS))], draw(st.booleans())


def compute(np_, x, axis, steps, kept):
    for step in steps:
        if step in UNARY:
            x = getattr(np_, step)(x) if step != "exp" else np_.exp(np_.minimum(x, 3))
        else:
            x = x - getattr(np_, step)(x, axis=axis, keepdims=True)
        x = x / (1 + np_.abs(x))
    return x if kept else np_.sum(x, axis=axis)


@given(recipes(), st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_values_are_those_of_numpy(recipe, seed):
    shape, axis, steps, kept = recipe
    x = np.random.default_rng(seed).standard_normal(shape)
    expected = compute(np, x, axis, steps, kept)
    found = tw.jit(functools.partial(compute, tnp, axis=axis, steps=steps, kept=kept))(x.astype("float32"))
    np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-3 if kept else 0.5)
    with tw.config(enable_x64=True):
        found = tw.jit(functools.partial(compute, tnp, axis=axis, steps=steps, kept=kept))(x)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("axis", [0, 1])
def test_gradients_are_those_of_xlas_loops(axis):
    x = random.normal(random.key(0), (800, 400))

    def loss(x):
        shifted = tnp.exp(x - x.max(axis, keepdims=True))
        return (tnp.log(shifted.sum(axis)) + (shifted**2).mean(axis)).sum()

    with tw.config(cpu_tiles=False):
        expected = tw.jit(tw.grad(lambda x: loss(x)))(x)
    np.testing.assert_allclose(tw.jit(tw.grad(loss))(x), expected, rtol=1e-5, atol=1e-6)
