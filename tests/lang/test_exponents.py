"""`exp(a * (x - m))` by one multiply-add an element: on GPUs, with the values that it has."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.tracing.trace import as_type
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.legalize.exponents import fold_exponents
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.ops.scaled_exp2 import scaled_exp2_p

LOWEST = float(np.finfo("float32").min)


def shifted(x, a=1.0, axis=-1):
    """Exponentials of a block less the largest of each row."""

    def body(x, o):
        top = x[...].max(axis, keepdims=True)
        o[...] = tnp.exp((x[...] - top) * a if a != 1 else x[...] - top)

    return tl.kernel_call(body, x)(x)


def both(function, x):
    """A kernel's results as they are, and folded."""
    (kernel,) = kernels_in(function, [as_type(x)])
    folded = fold_exponents(kernel)
    assert "scaled_exp2" in str(folded.body) and "exp " not in str(folded.body).replace("scaled_exp2 ", "")
    return [interpret(k, x, params=InterpretParams())[0] for k in (kernel, folded)]


@pytest.mark.parametrize("a", [1.0, 0.125, 0.08838834764831845])
@pytest.mark.parametrize("size", [1.0, 50.0, 1e4])
def test_values(a, size):
    x = (np.random.default_rng(0).standard_normal((16, 64)) * size).astype("float32")
    plain, folded = both(lambda x: shifted(x, a), x)
    # An error of x by half a unit in its last place is one of the exponent.
    np.testing.assert_allclose(folded, plain, rtol=1e-6 + a * np.abs(x).max() * 2.0**-23, atol=1e-30)


@pytest.mark.parametrize("low", [LOWEST, 0.7 * LOWEST, -1e30, -1e9])
@pytest.mark.parametrize("a", [1.0, 0.1])
def test_rows_of_nothing_but_masked_numbers_are_uniform(low, a):
    x = np.random.default_rng(1).standard_normal((8, 64)).astype("float32")
    x[:4] = low
    x[4:, ::2] = low
    plain, folded = both(lambda x: shifted(x, a), x)
    assert (folded[:4] == 1).all() and (folded[4:, ::2] == 0).all()
    np.testing.assert_allclose(folded, plain, rtol=2e-6)


def test_infinities_and_nans_stay_what_they_are():
    x = np.random.default_rng(2).standard_normal((8, 64)).astype("float32")
    x[0], x[1, 3], x[2, 5], x[3, ::2] = -np.inf, np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        plain, folded = both(shifted, x)
    np.testing.assert_allclose(folded, plain, rtol=1e-6)


def test_columns_and_sums_known_from_elsewhere():
    x = np.random.default_rng(3).standard_normal((64, 16)).astype("float32")
    plain, folded = both(lambda x: shifted(x, 0.5, 0), x)
    np.testing.assert_allclose(folded, plain, rtol=1e-6)


def test_other_exponentials_stay():
    def body(x, y, o):
        o[...] = tnp.exp(x[...] - y[...]) + tnp.exp(x[...]) + tnp.exp((x[...] - x[...].max(1, keepdims=True)) * 2)

    x = np.ones((8, 8), "float32")
    (kernel,) = kernels_in(lambda x, y: tl.kernel_call(body, x)(x, y), [as_type(x)] * 2)
    assert fold_exponents(kernel) is kernel


def test_derivatives_of_the_operation():
    x, scale, shift = (np.random.default_rng(i).standard_normal(8).astype("float32") for i in range(3))
    with tw.config(debug_checks=False):
        found = tw.grad(lambda *xs: scaled_exp2_p.bind(*xs).sum(), (0, 1, 2))(x, scale, shift)
    value = np.exp2(x * scale + shift) * np.log(2)
    for got, wanted in zip(found, (value * scale, value * x, value), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_100", "rocm:gfx942"])
def test_what_is_emitted(target):
    x = np.random.default_rng(4).standard_normal((16, 64)).astype("float32")
    x[0, 0] = 200.0  # the rest of the row is less than what a float holds
    found = tw.emulate(lambda x: shifted(x, 0.5), x, target=target)
    np.testing.assert_allclose(found, np.exp(0.5 * (x - x.max(-1, keepdims=True))), rtol=1e-5, atol=1e-37)
    text = tw.compile(lambda x: shifted(x, 0.5), tw.ShapeDtypeStruct(x.shape, x.dtype), target=target, stop="legalize")
    assert "scaled_exp2" in str(text)
