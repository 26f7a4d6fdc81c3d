"""Special functions against NumPy's of more digits: within their bounds, and right at special values."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

import tilewright as tw
from tests.support.machine_code import DTYPES, elementwise, needs_llvm, ulps
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.cpu_backend.functions import FUNCTIONS, ULPS

pytestmark = needs_llvm
COUNT = 1 << 17
SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 1e-30, -1e-30, 1e30, -1e30]


def _erf(x: np.ndarray) -> np.ndarray:
    """erf of more digits than float64, by its series of positive terms: up to 6.5, from where on it is 1."""
    x = np.clip(x, -6.5, 6.5)
    total = term = x
    for k in range(1, 200):
        term = term * (2 * x * x / (2 * k + 1))
        total = total + term
    return total * np.exp(-x * x) * 2 / np.sqrt(np.longdouble("3.14159265358979323846264338327950288"))


REFERENCE = {
    "logistic": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x), "pow": np.power,
    "erf": lambda x: special.erf(x) if x.dtype == np.float64 else _erf(x),
}  # fmt: skip


def reference(name: str) -> Callable[..., np.ndarray]:
    return REFERENCE[name] if name in REFERENCE else getattr(np, name)


def drawn(name: str, dtype: type) -> np.ndarray:
    """Arguments over the function's range, many near where it is hard."""
    rng = np.random.default_rng(7)
    near = rng.normal(size=COUNT) * 10.0 ** rng.uniform(-8, 1, COUNT)
    ends = {"exp2": (-160, 128)}.get(name, (-105, 89)) if dtype is np.float32 else (-760, 720)
    wide = np.exp(rng.uniform(-85, 85, COUNT))
    waves = [near, rng.uniform(-1e6, 1e6, COUNT), wide]
    if dtype is np.float64:
        multiples = np.pi / 2 * rng.integers(1, 1 << 40, COUNT)
        waves += [multiples, np.exp(rng.uniform(20, 709, COUNT)), np.ldexp([6381956970095103.0], [797])]
    choice = {
        "log": [wide, rng.uniform(0.5, 2, COUNT), 2.0 ** rng.uniform(-149, -126, COUNT)],
        "log1p": [wide, rng.uniform(-0.9999, 2, COUNT), near[near > -1]],
        "rsqrt": [wide], "erf": [near],
        "sin": waves, "cos": waves,
    }.get(name, [near, rng.uniform(*ends, COUNT)])  # fmt: skip
    return np.concatenate(choice).astype(dtype)


@pytest.mark.law
@pytest.mark.parametrize("lanes", [0, 4, 8, 16])
@pytest.mark.parametrize(("name", "scalar"), list(ULPS))
def test_a_function_is_within_its_bound(name, scalar, lanes):
    dtype = DTYPES[scalar]
    wide = np.float64 if scalar == "float" else np.longdouble
    x = drawn(name, dtype)
    arrays = [x]
    if name == "pow":
        rng = np.random.default_rng(8)
        arrays = [np.exp(rng.uniform(-20, 20, COUNT)).astype(dtype), rng.uniform(-4, 4, COUNT).astype(dtype)]
        if dtype is np.float64:
            near, far = 1 + rng.normal(size=COUNT) * 1e-3, np.exp(rng.uniform(-700, 700, COUNT))
            arrays = [np.concatenate([arrays[0], near, far]),
                      np.concatenate([arrays[1], rng.uniform(-1e5, 1e5, COUNT), rng.uniform(-1.0, 1.0, COUNT)])]
    with np.errstate(all="ignore"):
        wanted = reference(name)(*(a.astype(wide) for a in arrays))
    assert ulps(elementwise(name, scalar, lanes, len(arrays))(*arrays), wanted) <= ULPS[name, scalar]


@pytest.mark.parametrize(("name", "scalar"), [k for k in ULPS if k[0] != "pow"])
def test_special_values_are_right(name, scalar):
    x = np.asarray(SPECIAL, DTYPES[scalar])
    with np.errstate(all="ignore"):
        wanted = np.asarray(reference(name)(x.astype(np.float64))).astype(x.dtype)
    found = elementwise(name, scalar, 16)(x)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    np.testing.assert_array_equal(np.isinf(found), np.isinf(wanted))
    real = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]))
    np.testing.assert_allclose(found[real], wanted[real], rtol=1e-6)


@pytest.mark.parametrize("scalar", ["float", "double"])
def test_powers_of_special_values_are_right(scalar):
    values = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, 3.0, -3.0, 4.0, 1e30, 2.5]
    x, y = (a.ravel().astype(DTYPES[scalar]) for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    found = elementwise("pow", scalar, 16, 2)(x, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    real = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[real]), np.signbit(wanted[real]))


def test_denormal_results_are_kept():
    x = np.asarray([-88.0, -95.0, -103.0], np.float32)
    np.testing.assert_allclose(elementwise("exp", "float", 16)(x), np.exp(x.astype(np.float64)), atol=1.5e-45)


def test_every_function_has_a_bound():
    assert {name for name, _ in ULPS} == set(FUNCTIONS)


@pytest.mark.parametrize("name", ["erf", "pow"])
def test_the_estimate_takes_machine_code_for_functions_of_float64(name):
    def body(x_ref, o_ref):
        x = x_ref[...]
        o_ref[...] = lax.erf(x) if name == "erf" else tnp.abs(x) ** x

    rows = tl.BlockSpec((8, 1024), lambda i: (i, 0))
    with tw.config(enable_x64=True):
        x = np.random.default_rng(9).normal(size=(512, 1024))
        call = tl.kernel_call(
            body, out_shape=tw.ShapeDtypeStruct(x.shape, "float64"), grid=64, in_specs=[rows], out_specs=rows)
        assert "machine code of this CPU" in str(tw.explain(call, x, compile=True))
        wanted = special.erf(x) if name == "erf" else np.abs(x) ** x
        np.testing.assert_allclose(tw.jit(call)(x), wanted, rtol=1e-15)  # of SciPy's digits


def test_waves_of_float64_are_machine_code():
    def body(x_ref, o_ref):
        o_ref[...] = tnp.sin(x_ref[...]) * tnp.cos(x_ref[...])

    with tw.config(enable_x64=True):
        x = np.random.default_rng(9).uniform(-1e12, 1e12, (5, 37))
        params = tl.cpu.CompilerParams(route="machine_code")
        call = tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct(x.shape, "float64"), compiler_params=params)
        assert "machine code of this CPU" in str(tw.explain(call, x, compile=True))
        np.testing.assert_allclose(tw.jit(call)(x), np.sin(x) * np.cos(x), rtol=4e-16)
