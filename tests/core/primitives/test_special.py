"""Special functions against SciPy, in both precisions, and at their edges."""

import numpy as np
import pytest
import scipy.special as sp

from tilewright import config, jit, lax
from tilewright.core.ir.binding import under
from tilewright.core.tracing.numpy_interpreter import NUMPY

RNG = np.random.default_rng(0)


def _uniform(low, high):
    return RNG.uniform(low, high, 500)


def _powers(low, high):
    return 10 ** _uniform(low, high)


_A = _powers(-2, 3)
CASES = {
    "erf": (lax.erf, sp.erf, (_uniform(-5, 5),), 1e-6),
    "erfc": (lax.erfc, sp.erfc, (_uniform(-5, 9),), 1e-5),
    "erf_inv": (lax.erf_inv, sp.erfinv, (_uniform(-1, 1),), 1e-5),
    "lgamma": (lax.lgamma, sp.gammaln, (_uniform(2.5, 50),), 1e-5),
    "digamma": (lax.digamma, sp.digamma, (_uniform(2, 50),), 1e-5),
    "zeta": (lax.zeta, sp.zeta, (_uniform(1.1, 20), _uniform(0.1, 50)), 1e-5),
    "polygamma": (
        lax.polygamma, lambda m, x: sp.polygamma(m.astype(int), x), (np.floor(_uniform(1, 6)), _uniform(0.1, 50)), 1e-5
    ),
    "igamma": (lax.igamma, sp.gammainc, (_A, _A * _powers(-1, 1)), 1e-4),
    "igammac": (lax.igammac, sp.gammaincc, (_A, _A * _powers(-1, 0.5)), 1e-4),
    "betainc": (lax.betainc, sp.betainc, (_powers(-1, 2), _powers(-1, 2), _uniform(0, 1)), 1e-3),
    "bessel_i0e": (lax.bessel_i0e, sp.i0e, (_uniform(-50, 50),), 1e-5),
    "bessel_i1e": (lax.bessel_i1e, sp.i1e, (_uniform(-50, 50),), 1e-5),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_compiled(name, x64):
    function, reference, args, coarse = CASES[name]
    dtype = np.float64 if x64 else np.float32
    args = [a.astype(dtype) for a in args]
    with config(enable_x64=x64):
        found = np.asarray(jit(function)(*args))
    expected = reference(*(a.astype(np.float64) for a in args))
    np.testing.assert_allclose(found, expected, rtol=1e-10 if x64 else coarse, atol=1e-30)


@pytest.mark.law
@pytest.mark.parametrize("name", CASES)
def test_numpy_meaning(name):
    function, reference, args, _ = CASES[name]
    args = [a[:50] for a in args]
    with config(enable_x64=True):
        found = under(NUMPY, function, *args)
    np.testing.assert_allclose(found, reference(*args), rtol=1e-10, atol=1e-30)


EDGES = {
    lax.igamma: (sp.gammainc, [(0, 1), (1, 0), (np.inf, 1), (1, np.inf), (-1, 1), (1, -1), (np.nan, 1)]),
    lax.igammac: (sp.gammaincc, [(0, 1), (1, 0), (np.inf, 1), (1, np.inf), (-1, 1), (1, -1), (np.nan, 1)]),
    lax.betainc: (
        sp.betainc,
        [
            (1, 2, 0),
            (1, 2, 1),
            (1, 2, -0.5),
            (-1, 2, 0.5),
            (1, 2, np.nan),
            (0, 2, 0.5),
            (2, 0, 0.5),
            (0, 2, 0),
            (2, 0, 1),
            (2, 0, 0),
            (0, 0, 0.5),
        ],
    ),
    lax.lgamma: (sp.gammaln, [(0,), (-1,), (np.inf,), (1,), (2,)]),
    lax.digamma: (sp.digamma, [(-1e-20,), (1e-20,), (-1e-10,), (np.inf,), (-np.inf,), (-2,)]),
    lax.erf_inv: (sp.erfinv, [(-1,), (1,), (0,), (2,), (1e-20,)]),
    lax.bessel_i0e: (sp.i0e, [(0,), (8,), (-8,), (1e6,)]),
    lax.bessel_i1e: (sp.i1e, [(0,), (8,), (-8,), (1e6,)]),
    lax.zeta: (
        sp.zeta,
        [*((np.inf, q) for q in (-np.inf, -2, -0.5, 0, 0.5, 1, np.inf, np.nan)),
         *((s, q) for s in (3, 1.5, 1, 0.5, 0, -2) for q in (0, -3, -np.inf)), (2, np.inf), (2.5, np.inf), (2, np.nan)],
    ),
    lax.polygamma: (sp.polygamma, [(m, x) for m in range(4) for x in (-np.inf, -2, np.inf, np.nan)]),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("function", EDGES, ids=lambda f: f.__name__)
def test_edges(function):
    reference, points = EDGES[function]
    args = [np.array(column, np.float64) for column in zip(*points, strict=True)]
    with config(enable_x64=True):
        for found in (function(*args), under(NUMPY, function, *args)):
            np.testing.assert_allclose(found, reference(*args), rtol=1e-12)


@pytest.mark.parametrize("a, x", [(1, 2), (1, 0.5), (2, 5), (3, 1), (5, 40), (0.5, 0.3), (20, 25.5), (7.25, 9)])
def test_slope_of_igamma_in_its_order(a, x):
    """At whole a the continued fraction of the value ends, and that of the slope goes on."""
    wanted = (sp.gammainc(a + 1e-5, x) - sp.gammainc(a - 1e-5, x)) / 2e-5
    np.testing.assert_allclose(lax.igamma_grad_a(np.float32(a), np.float32(x)), wanted, rtol=1e-4, atol=1e-9)


def test_digamma_at_its_poles():
    x = np.array([0.0, -0.0, -1.0, -3.0], np.float32)
    for found in (lax.digamma(x), under(NUMPY, lax.digamma, x), under(NUMPY, lax.polygamma, 0 * x, x)):
        np.testing.assert_array_equal(found, [-np.inf, -np.inf, np.nan, np.nan])


def test_functions_take_the_names_of_jax():
    x, a = np.float32(0.5), np.float32(2.0)
    np.testing.assert_allclose(lax.igamma(a=a, x=x), 1 - lax.igammac(a=a, x=x), rtol=1e-5)
    np.testing.assert_allclose(lax.betainc(a=a, b=a, x=x), 0.5, rtol=1e-5)
    assert lax.nextafter(x1=x, x2=a) > 0.5
    assert lax.zeta(x=a, q=a) > 0 and lax.polygamma(m=a, x=a) < 0 and lax.igamma_grad_a(a=a, x=x) < 0
