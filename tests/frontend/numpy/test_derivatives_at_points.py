"""Derivatives where formulas break: at kinks, poles and the ends of domains they are the limit, or between the two.

The law compares the first and second derivative at a point with those just left and right of it, in double precision.
"""

import functools
import importlib.util

import numpy as np
import pytest
import scipy.special

import tilewright as tw
from tilewright import lax, nn
from tilewright import numpy as tnp
from tilewright.core.ir.binding import under
from tilewright.core.tracing.numpy_interpreter import NUMPY
from tilewright.scipy import special, stats

POINTS = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0)
UNARY = {
    **{f"nn.{name}": getattr(nn, name) for name in (
        "relu", "relu6", "sigmoid", "softplus", "sparse_plus", "sparse_sigmoid", "soft_sign", "silu", "log_sigmoid",
        "mish", "elu", "celu", "selu", "gelu", "leaky_relu", "hard_tanh", "hard_sigmoid", "hard_silu", "squareplus",
        "log1mexp",
    )},
    **{f"numpy.{name}": getattr(tnp, name) for name in (
        "abs", "fabs", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt", "cbrt", "square", "sin", "cos", "tan",
        "tanh", "sinh", "cosh", "arcsin", "arccos", "arctan", "arctanh", "arcsinh", "i0", "sinc", "positive",
        "negative", "deg2rad", "nan_to_num",
    )},
    **{f"special.{name}": getattr(special, name) for name in (
        "i0", "i1", "i1e", "entr", "erf", "erfc", "erfcx", "dawsn", "expit", "ndtr", "log_ndtr",
    )},
}  # fmt: skip
COMPOSED = {
    "logaddexp(x, x)": lambda x: tnp.logaddexp(x, x),
    "logaddexp(x, 0)": lambda x: tnp.logaddexp(x, 0.0),
    "logaddexp(1, x)": lambda x: tnp.logaddexp(1.0, x),
    "logaddexp2(x, 1)": lambda x: tnp.logaddexp2(x, 1.0),
    "logaddexp(x, -x)": lambda x: tnp.logaddexp(x, -x),
    "x softplus(x)": lambda x: x * nn.softplus(x),
    "softplus(x^2)": lambda x: nn.softplus(x * x),
    "softplus(softplus(x))": lambda x: nn.softplus(nn.softplus(x)),
    "relu(x)^2": lambda x: nn.relu(x) ** 2,
    "|x|^3": lambda x: tnp.abs(x) ** 3,
    "x |x|": lambda x: x * tnp.abs(x),
    "maximum(x, 1)": lambda x: tnp.maximum(x, 1.0),
    "clip": lambda x: tnp.clip(x, -1.0, 1.0),
    "x^0": lambda x: lax.pow(x, tnp.zeros_like(x)),
    "x^1": lambda x: lax.pow(x, tnp.ones_like(x)),
    "x^2": lambda x: lax.pow(x, 2 * tnp.ones_like(x)),
    "x^3": lambda x: x**3,
    "2^x": lambda x: lax.pow(2 * tnp.ones_like(x), x),
    "(1+x^2)^x": lambda x: lax.pow(1 + x * x, x),
    "xlogy(x, 2)": lambda x: special.xlogy(x, 2.0),
    "xlogy(3, x)": lambda x: special.xlogy(3.0, x),
    "xlog1py(x, 2)": lambda x: special.xlog1py(x, 2.0),
    "xlogy(x, x)": lambda x: special.xlogy(x, x),
    "xlogy(x, 1 + x^2)": lambda x: special.xlogy(x, 1 + x * x),
    "log(i0)": lambda x: tnp.log(special.i0(x)),
    "i1 i0": lambda x: special.i1(x) * special.i0(x),
    "mantissa": lambda x: tnp.frexp(5.3 + x)[0],
    "hypot(x, 1)": lambda x: tnp.hypot(x, 1.0),
    "where": lambda x: tnp.where(x > 0, x, 2 * x),
}
FUNCTIONS = UNARY | COMPOSED

# Points where both are between the limits of the two sides, or outside of the domain, and not the same.
DIFFERENT = {
    ("nn.sparse_sigmoid", 1, -1.0): "jax has half of the slope at the kink",
    ("nn.sparse_sigmoid", 1, 1.0): "jax has half of the slope at the kink",
    ("nn.celu", 2, 0.0): "from 1 to 0",
}


def derivatives(f, x):
    """The value and two derivatives of an elementwise function, by forward mode over itself."""
    (value, slope), (_, second) = tw.jvp(lambda x: tw.jvp(f, (x,), (tnp.ones_like(x),)), (x,), (tnp.ones_like(x),))
    return value, slope, second


def limit(far, near):
    """The limit that a derivative goes to from one side, of its values at two distances: infinite where it grows."""
    return np.copysign(np.inf, near) if abs(near) > max(5.0, 1.2 * abs(far)) else near


def between(at, sides):
    """Whether a derivative is the limit from inside the domain, or between the limits of both sides."""
    limits = [limit(far, near) for far, near in sides if not np.isnan(near)]
    if not limits:
        return True
    low, high = min(limits), max(limits)
    room = 1e-3 * (1 + sum(abs(v) for v in limits if np.isfinite(v)))
    return low - room <= at <= high + room


@pytest.mark.law
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_derivative_is_the_limit_of_those_around_it(name):
    x = np.array([[p - 1e-5, p - 1e-7, p, p + 1e-7, p + 1e-5] for p in POINTS])
    with tw.config(enable_x64=True), np.errstate(all="ignore"):
        value, *found = (np.asarray(v) for v in under(NUMPY, lambda x: derivatives(FUNCTIONS[name], x), x))
    wrong = {}
    for order, slopes in enumerate(found, 1):
        for point, (left, nearer, at, near, right), here in zip(POINTS, slopes, value[:, 2], strict=True):
            if np.isfinite(here) and not between(at, [(left, nearer), (right, near)]):
                wrong[order, point] = left, nearer, at, near, right
    assert wrong == {}


def grads(f, *args):
    return [float(g) for g in tw.grad(f, tuple(range(len(args))))(*args)]


@pytest.mark.parametrize("function, args, wanted", [
    (tnp.logaddexp, (2.0, 2.0), (0.5, 0.5)), (tnp.logaddexp2, (2.0, 2.0), (0.5, 0.5)),
    (tnp.logaddexp, (0.0, -np.inf), (1, 0)), (tnp.logaddexp, (np.inf, np.inf), (1, 1)),
    (special.xlogy, (0.0, 2.0), (np.log(2.0), 0)), (special.xlogy, (2.0, 4.0), (np.log(4.0), 0.5)),
    (special.xlogy, (0.0, 0.0), (-np.inf, 0)), (special.xlog1py, (0.0, 2.0), (np.log(3.0), 0)),
    (special.xlog1py, (0.0, -1.0), (-np.inf, 0)), (lax.pow, (0.0, 2.0), (0, 0)),
    (lax.pow, (2.0, 0.0), (0, np.log(2.0))),
    (lax.pow, (0.0, 0.0), (0, 0)), (lax.pow, (0.0, 1.0), (1, 0)), (tnp.hypot, (3.0, 3.0), (0.5**0.5, 0.5**0.5)),
    (tnp.hypot, (0.0, 0.0), (0.5, 0.5)), (stats.gennorm.cdf, (0.0, 2.0), (np.pi**-0.5, 0)),
])  # fmt: skip
def test_partial_derivatives(function, args, wanted):
    np.testing.assert_allclose(grads(function, *args), wanted, rtol=1e-6)


@pytest.mark.parametrize("function", [nn.softplus, nn.log_sigmoid, lambda x: tnp.logaddexp(2.0, x)])
def test_nan_stays_in_derivatives(function):
    assert np.isnan(tw.grad(function)(np.nan)) and np.isnan(tw.grad(tw.grad(function))(np.nan))


def test_second_derivatives_of_log_ndtr_far_below_zero():
    points = np.array([-1e4, -100.0, -30.0, -10.0, -9.5, -5.0, 0.0, 3.0], np.float32)
    ratio = np.sqrt(2 / np.pi) / scipy.special.erfcx(-points.astype(np.float64) / np.sqrt(2))
    first = tw.grad(special.log_ndtr)
    np.testing.assert_allclose([first(x) for x in points], ratio, rtol=1e-5)
    second = [tw.grad(first)(x) for x in points]
    np.testing.assert_allclose(second, -ratio * (points + ratio), rtol=1e-3)


@pytest.mark.parametrize("function, args, wanted", [
    (lax.pow, (2.0, 0.0), 0.5), (special.xlogy, (0.0, 2.0), 0.5), (special.xlog1py, (0.0, 1.0), 0.5),
    (tnp.logaddexp, (1.0, 1.0), -0.25),
])  # fmt: skip
def test_mixed_derivatives_in_either_order(function, args, wanted):
    found = [tw.grad(tw.grad(function, a), b)(*args) for a, b in ((0, 1), (1, 0))]
    np.testing.assert_allclose(found, [wanted, wanted], rtol=1e-6)


@pytest.mark.parametrize("x", [1.3, -6.5, 0.0, 1e-40, 3e38, 2.0**-126])
def test_the_mantissa_has_the_slope_of_its_power_of_two(x):
    with tw.config(enable_x64=True):
        mantissa, power = tnp.frexp(x)
        assert (float(mantissa), int(power)) == np.frexp(x)
        assert float(tw.grad(lambda x: tnp.frexp(x)[0])(x)) == 2.0 ** -int(power)


def test_large_arguments_of_bessel_functions():
    assert float(tw.grad(special.i0)(80.0)) == float(special.i1(80.0))
    assert float(tw.grad(special.i0)(100.0)) == np.inf
    ends = np.float32([-np.inf, np.inf])
    np.testing.assert_array_equal([special.i0(ends), special.i1(ends)], [abs(ends), ends])


@pytest.mark.parametrize("function, nothing", [(nn.softmax, 0.0), (nn.log_softmax, -np.inf)])
def test_softmax_of_what_is_masked(function, nothing):
    x = tnp.array([[1.0, 2.0, 3.0], [1.0, 1e9, np.nan]])
    mask = np.array([[False] * 3, [True, False, False]])
    found = np.asarray(function(x, where=mask))
    np.testing.assert_array_equal(found, [[nothing] * 3, [float(nothing == 0), nothing, nothing]])
    slope = tw.grad(lambda x: tnp.where(mask, function(x, where=mask), 0.0).sum())(x)
    np.testing.assert_array_equal(slope, np.zeros((2, 3)))


@pytest.mark.parametrize("indices", [-1, [-5, -1, 0, 2, 7]])
def test_take_clips_negative_indices_as_numpy_does(indices):
    x = np.arange(3.0, dtype=np.float32)
    np.testing.assert_array_equal(tnp.take(tnp.asarray(x), indices, mode="clip"), np.take(x, indices, mode="clip"))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "uint32", "int64"])
def test_integer_powers_count_every_bit_of_the_exponent(dtype):
    with tw.config(enable_x64=True), np.errstate(all="ignore"):
        for exponent in (0, 1, 5, 63, 64, 65, 100, 127):
            base = np.arange(8).astype(dtype) - np.array(2).astype(dtype)
            power = np.full(8, exponent, dtype)
            np.testing.assert_array_equal(tnp.power(tnp.asarray(base), tnp.asarray(power)), base**power)


@functools.cache
def derivatives_of_jax(module):
    """What jax gives for all functions of a module at the points, in one program."""
    import jax

    functions = {"nn": jax.nn, "numpy": jax.numpy, "special": jax.scipy.special}[module]

    def both(x):
        slopes = {n: jax.grad(getattr(functions, n.partition(".")[2])) for n in UNARY if n.startswith(f"{module}.")}
        return {n: (jax.vmap(slope)(x), jax.vmap(jax.grad(slope))(x)) for n, slope in slopes.items()}

    with jax.enable_x64(True):
        return jax.tree.map(np.asarray, jax.jit(both)(np.array(POINTS)))


@pytest.mark.law
@pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="needs jax")
@pytest.mark.parametrize("name", UNARY)
def test_a_derivative_is_that_of_jax(name):
    x, wanted = np.array(POINTS), derivatives_of_jax(name.partition(".")[0])[name]
    with tw.config(enable_x64=True), np.errstate(all="ignore"):
        found = [np.asarray(v) for v in under(NUMPY, lambda x: derivatives(UNARY[name], x), x)[1:]]
    for order, (ours, want) in enumerate(zip(found, wanted, strict=True), 1):
        told = np.array([(name, order, p) not in DIFFERENT for p in POINTS])
        np.testing.assert_allclose(ours[told], want[told], rtol=1e-6, atol=1e-9, err_msg=f"{name}, order {order}")


def test_the_derivative_of_digamma_left_of_its_poles():
    x = np.array([-0.5, -3.3, -9.5, -12.3, -30.5, 0.3, 50.0], np.float32)
    found = tw.vmap(tw.grad(lax.digamma))(x)
    np.testing.assert_allclose(found, scipy.special.polygamma(1, x), rtol=1e-4)
    found = tw.vmap(tw.grad(tw.grad(lax.digamma)))(x)
    np.testing.assert_allclose(found, scipy.special.polygamma(2, x), rtol=2e-3, atol=1e-4)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_polygamma_left_of_its_first_poles(order):
    x = np.array([-3.3, -9.5, -12.3, -30.5, -1e-8, -1000.25, -4.0000005, 0.3, 50.0], np.float32)
    wide = x.astype(np.float64)
    found = lax.polygamma(np.float32(order), x)
    np.testing.assert_allclose(found, scipy.special.polygamma(order, wide), rtol=1e-4, atol=2e-6)
    slope = tw.vmap(tw.grad(lambda x: lax.polygamma(np.float32(order), x)))(x[[1, 2, 3, 7]])
    wanted = scipy.special.polygamma(order + 1, wide[[1, 2, 3, 7]])
    np.testing.assert_allclose(slope, wanted, rtol=1e-4, atol=1e-5 * abs(wanted).max())


@pytest.mark.parametrize("name, sign", [("arcsin", 1), ("arccos", -1), ("arctanh", 1), ("arccosh", 1)])
def test_second_derivatives_at_the_ends_of_domains(name, sign):
    slope = tw.grad(getattr(tnp, name))
    assert float(slope(1.0)) == sign * np.inf
    assert float(tw.grad(slope)(1.0)) == (-np.inf if name == "arccosh" else sign * np.inf)
    if name != "arccosh":
        assert float(tw.grad(slope)(-1.0)) == -sign * np.inf


def test_slopes_of_i1e_near_zero():
    x = np.float32([1e-20, -1e-20, 1e-4, 0.099, 0.101])
    first, second = (tw.vmap(f)(x) for f in (tw.grad(lax.bessel_i1e), tw.grad(tw.grad(lax.bessel_i1e))))
    slope = scipy.special.i0e(x) - (np.sign(x) + 1 / x) * scipy.special.i1e(x)
    np.testing.assert_allclose(first, slope, rtol=1e-5)
    np.testing.assert_allclose(second, [-1, 1, -0.99981, -0.83038, -0.82723], rtol=1e-3)


# A function, a point at the end of its domain, of a support or of a case of its formula, and two derivatives there:
# their limits from inside.
LOG2, INF = np.log(2.0), np.inf
ENDS = {
    "gammainc": (lambda x: special.gammainc(1.0, x), 0, 1, -1),
    "gammaincc": (lambda x: special.gammaincc(1.0, x), 0, -1, 1),
    "gamma.cdf": (lambda x: stats.gamma.cdf(x, 1.0), 0, 1, -1),
    "betainc at 0": (lambda x: special.betainc(1.0, 3.0, x), 0, 3, -6),
    "betainc at 1": (lambda x: special.betainc(3.0, 1.0, x), 1, 3, 6),
    "truncnorm.logpdf at a": (lambda x: stats.truncnorm.logpdf(x, -1.0, 2.0), -1, 1, -1),
    "truncnorm.logpdf at b": (lambda x: stats.truncnorm.logpdf(x, -1.0, 2.0), 2, -2, -1),
    "gennorm of 2": (lambda x: stats.gennorm.logpdf(x, 2.0), 0, 0, -2),
    "gennorm of 1.5": (lambda x: stats.gennorm.logpdf(x, 1.5), 0, 0, -INF),
    "boxcox by its power": (lambda p: special.boxcox(2.0, p), 0, LOG2**2 / 2, LOG2**3 / 3),
    "boxcox1p by its power": (lambda p: special.boxcox1p(1.0, p), 0, LOG2**2 / 2, LOG2**3 / 3),
    "boxcox of 0 by its power": (lambda p: special.boxcox(0.0, p), 2, 0.25, None),
    "boxcox squared": (lambda x: special.boxcox(x, 2.0), 0, 0, 1),
    "boxcox1p of the power 1": (lambda x: special.boxcox1p(x, 1.0), -1, 1, 0),
    "expi": (special.expi, INF, INF, None),
    "i0": (special.i0, INF, INF, INF),
    "i1": (special.i1, -INF, INF, -INF),
    "entr": (special.entr, INF, -INF, 0),
    "sine integral": (lambda x: special.sici(x)[0], INF, 0, 0),
    "cosine integral": (lambda x: special.sici(x)[1], INF, 0, 0),
    "hyp1f1 by a, which is b": (lambda a: special.hyp1f1(a, 3.0, 3.0), 3, 14.7300920, 8.97502),
    "hyp1f1 by b, which is a": (lambda b: special.hyp1f1(3.0, b, 3.0), 3, -14.7300920, None),
    "hyp1f1 of 0 by a": (lambda a: special.hyp1f1(a, 2.0, 1.5), 0, 0.99747863, None),
    "hyp1f1 of -2 by a": (lambda a: special.hyp1f1(a, 2.0, 1.5), -2, 0.23828436, None),
    "hyp2f1 of 0 by a": (lambda a: special.hyp2f1(a, 2.0, 1.5, 0.5), 0, 1, None),
    "hyp2f1 of -1 by a": (lambda a: special.hyp2f1(a, 2.0, 1.5, 0.5), -1, 0.41248766, None),
    "log1mexp": (nn.log1mexp, -0.0, INF, -INF),
    "spence at 0": (special.spence, 0, -INF, INF),
    "spence close to 1": (special.spence, 1.05, -np.log(1.05) / 0.05, (np.log(1.05) / 0.05 - 1 / 1.05) / 0.05),
    "spence of 0.3": (special.spence, 0.3, np.log(0.3) / 0.7, (1 / 0.3 + np.log(0.3) / 0.7) / 0.7),
    "gamma.pdf": (lambda x: stats.gamma.pdf(x, 2.0), 0, 1, -2),
    "gamma.pdf far away": (lambda x: stats.gamma.pdf(x, 2.0), INF, 0, 0),
    "chi2.pdf far away": (lambda x: stats.chi2.pdf(x, 4.0), INF, 0, 0),
    "gamma.pdf of 1": (lambda x: stats.gamma.pdf(x, 1.0, scale=2.0), 0, -0.25, 0.125),
    "gamma.pdf of 3": (lambda x: stats.gamma.pdf(x, 3.0), 0, 0, 1),
    "gamma.pdf of 1.5": (lambda x: stats.gamma.pdf(x, 1.5), 0, INF, -INF),
    "gamma.pdf of 0.5": (lambda x: stats.gamma.pdf(x, 0.5), 0, -INF, INF),
    "chi2.pdf": (lambda x: stats.chi2.pdf(x, 4.0), 0, 0.25, -0.25),
    "beta.pdf at 0": (lambda x: stats.beta.pdf(x, 2.0, 1.0), 0, 2, 0),
    "beta.pdf at 1": (lambda x: stats.beta.pdf(x, 2.0, 1.0), 1, 2, 0),
    "beta.pdf of 2 at 1": (lambda x: stats.beta.pdf(x, 2.0, 2.0), 1, -6, -12),
    "bernoulli.pmf at 0": (lambda p: stats.bernoulli.pmf(1, p), 0, 1, 0),
    "bernoulli.pmf at 1": (lambda p: stats.bernoulli.pmf(0, p), 1, -1, 0),
    "binom.pmf at 0": (lambda p: stats.binom.pmf(1, 3, p), 0, 3, -12),
    "binom.pmf at 1": (lambda p: stats.binom.pmf(2, 3, p), 1, -3, -12),
    "geom.pmf at 1": (lambda p: stats.geom.pmf(2, p), 1, -1, -2),
    "nbinom.pmf at 1": (lambda p: stats.nbinom.pmf(1, 2.0, p), 1, -2, -8),
    "gennorm.cdf": (lambda x: stats.gennorm.cdf(x, 2.0), 0, 1 / np.sqrt(np.pi), 0),
    "vonmises.logpdf": (lambda k: stats.vonmises.logpdf(1.0, k), 0, np.cos(1.0), -0.5),
    "gammainc of 0.5": (lambda x: special.gammainc(0.5, x), 0, INF, -INF),
    "betainc of 0.5": (lambda x: special.betainc(0.5, 0.5, x), 0, INF, -INF),
    "betainc of 0.5 at 1": (lambda x: special.betainc(0.5, 0.5, x), 1, INF, INF),
    "beta.sf of 0.5": (lambda x: stats.beta.sf(x, 2.0, 0.5), 1, -INF, -INF),
    "poisson.pmf": (lambda mu: stats.poisson.pmf(1, mu), 0, 1, -2),
    "dirichlet.pdf": (lambda x: stats.dirichlet.pdf(tnp.stack([x, 1 - x]), tnp.array([2.0, 1.0])), 0, 2, 0),
    "multinomial.pmf": (lambda p: stats.multinomial.pmf(np.array([1, 1]), 2, tnp.stack([p, 1 - p])), 0, 2, -4),
    "gammainc of 2": (lambda x: special.gammainc(2.0, x), 0, 0, 1),
    "gammaincc of 2": (lambda x: special.gammaincc(2.0, x), 0, 0, -1),
    "beta.cdf at 0": (lambda x: stats.beta.cdf(x, 2.0, 1.0), 0, 0, 2),
    "cumlogsumexp at infinity": (lambda x: lax.cumlogsumexp(tnp.stack([tnp.ones_like(x), x]))[1], INF, 1, 0),
    "cumlogsumexp beside infinity": (lambda x: lax.cumlogsumexp(tnp.stack([x, INF * tnp.ones_like(x)]))[1], 2, 0, 0),
    "sign of the complex 0": (lambda x: lax.real(lax.sign(lax.complex(x, 2 * x))), 0, 0, 0),
    "sinc far away": (tnp.sinc, INF, 0, 0),
    "sinc of a thousand": (tnp.sinc, 4000.0, 1 / 4000, None),
    "beta.pdf of 0.5 at 0": (lambda x: stats.beta.pdf(x, 0.5, 0.5), 0, -INF, INF),
    "beta.pdf of 0.5 at 1": (lambda x: stats.beta.pdf(x, 2.0, 0.5), 1, INF, INF),
    "beta.pdf of 1.5": (lambda x: stats.beta.pdf(x, 1.5, 2.5), 0, INF, -INF),
    "beta.logcdf": (lambda x: stats.beta.logcdf(x, 2.0, 3.0), 0, INF, -INF),
    "beta.logsf": (lambda x: stats.beta.logsf(x, 2.0, 3.0), 1, -INF, -INF),
    "gamma.logcdf": (lambda x: stats.gamma.logcdf(x, 2.0), 0, INF, -INF),
    "chi2.logcdf": (lambda x: stats.chi2.logcdf(x, 3.0), 0, INF, -INF),
    "gamma.pdf far away, by a": (lambda a: stats.gamma.pdf(INF, a), 2, 0, 0),
    "norm.pdf far away": (stats.norm.pdf, INF, 0, 0),
    "norm.cdf far away": (stats.norm.cdf, -INF, 0, 0),
    "norm.pdf far away, by its scale": (lambda s: stats.norm.pdf(INF, 0.0, s), 2, 0, 0),
    "norm.logpdf far away": (stats.norm.logpdf, INF, -INF, -1),
    "t.logpdf far away": (lambda x: stats.t.logpdf(x, 3.0), INF, 0, 0),
    "expon.sf far away, by its scale": (lambda s: stats.expon.sf(INF, 0.0, s), 2, 0, 0),
    "expon.logcdf at -0": (stats.expon.logcdf, -0.0, INF, -INF),
    "cauchy.logcdf far away": (stats.cauchy.logcdf, -INF, 0, 0),
    "cauchy.ppf at 0": (stats.cauchy.ppf, 0, INF, -INF),
    "cauchy.isf at 1": (stats.cauchy.isf, 1, -INF, -INF),
    "gumbel_r.ppf at 0": (stats.gumbel_r.ppf, 0, INF, -INF),
    "gumbel_r.ppf at 1": (stats.gumbel_r.ppf, 1, INF, INF),
    "gumbel_l.ppf at 0": (stats.gumbel_l.ppf, 0, INF, -INF),
    "gumbel_l.ppf at 1": (stats.gumbel_l.ppf, 1, INF, INF),
    "truncnorm.cdf from -inf": (lambda x: stats.truncnorm.cdf(x, -INF, 2.0), 0, 0.4082295559, 0),
    "truncnorm.sf to inf": (lambda x: stats.truncnorm.sf(x, -1.0, INF), 0, -0.4741721890, 0),
    "truncnorm.logpdf to inf, by a": (lambda a: stats.truncnorm.logpdf(1.0, a, INF), -1, 0.2875999710, 0.3703136784),
    "truncnorm.cdf at a": (lambda x: stats.truncnorm.cdf(x, -1.0, 2.0), -1, 0.2955928498, 0.2955928498),
    "truncnorm.sf at b": (lambda x: stats.truncnorm.sf(x, -1.0, 2.0), 2, -0.0659556829, 0.1319113657),
    "truncnorm.cdf at a, by a": (lambda a: stats.truncnorm.cdf(-1.0, a, 2.0), -1, -0.2955928498, None),
    "truncnorm.logsf at b": (lambda x: stats.truncnorm.logsf(x, -1.0, 2.0), 2, -INF, -INF),
    "beta.cdf at 1": (lambda x: stats.beta.cdf(x, 1.0, 2.0), 1, 0, -2),
    "gamma.logsf of 0.5": (lambda x: stats.gamma.logsf(x, 0.5), 0, -INF, INF),
    "gamma.logsf of 2": (lambda x: stats.gamma.logsf(x, 2.0), 0, 0, -1),
    "chi2.logsf of 1": (lambda x: stats.chi2.logsf(x, 1.0), 0, -INF, INF),
    "beta.logsf of 0.5 at 0": (lambda x: stats.beta.logsf(x, 0.5, 2.0), 0, -INF, INF),
    "beta.logcdf of 0.5 at 1": (lambda x: stats.beta.logcdf(x, 2.0, 0.5), 1, INF, INF),
    "pareto.logcdf": (lambda x: stats.pareto.logcdf(x, 2.5), 1, INF, -INF),
    "pareto.logcdf by b": (lambda b: stats.pareto.logcdf(1.0, b), 2.5, 0.4, -0.16),
    "gumbel_r.logsf far away": (stats.gumbel_r.logsf, INF, -1, 0),
    "norm.logcdf far away": (stats.norm.logcdf, -INF, INF, -1),
    "norm.logsf far away": (stats.norm.logsf, INF, -INF, -1),
}


@pytest.mark.law
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("name", ENDS)
def test_derivatives_at_ends_are_those_from_inside(name, wide):
    """In single precision forwards, twice; in double precision backwards, and forwards over that."""
    f, x, *wanted = ENDS[name]

    def slopes(x):
        slope = tw.grad(f) if wide else lambda x: tw.jvp(f, (x,), (np.ones_like(x),))[1]
        return [slope(x)] if wanted[1] is None else tw.jvp(slope, (x,), (np.ones_like(x),))

    with tw.config(enable_x64=wide), np.errstate(all="ignore"):
        found = under(NUMPY, slopes, np.asarray(x, np.float64 if wide else np.float32))
    for order, (a, b) in enumerate(zip(found, wanted, strict=False), 1):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6, err_msg=f"order {order}")


@pytest.mark.parametrize("x", [0.5, 1.0, 3.0])
def test_derivative_of_gammainc_by_a_where_that_is_zero(x):
    found = tw.grad(special.gammainc)(0.0, x), tw.grad(special.gammaincc)(0.0, x)
    np.testing.assert_allclose(found, [-scipy.special.exp1(x), scipy.special.exp1(x)], rtol=1e-5)


def test_second_derivatives_of_gammainc_by_a_are_differences_of_the_first():
    a, x = (v.ravel() for v in np.meshgrid([0.3, 1.0, 2.0, 30.0], [0.1, 2.5, 40.0]))

    def slope(a):
        return tw.jvp(lambda a: special.gammainc(a, x), (a,), (np.ones_like(a),))[1]

    with tw.config(enable_x64=True):
        found = under(NUMPY, lambda a: tw.jvp(slope, (a,), (np.ones_like(a),))[1], a)
        wanted = under(NUMPY, lambda a: (slope(a + 1e-5) - slope(a - 1e-5)) / 2e-5, a)
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("function", [special.boxcox, special.boxcox1p])
def test_derivatives_of_boxcox_by_its_power(function):
    """Of both ways to compute them, by differences."""
    x, power, h = np.r_[0.3, 1.7, 5.0], np.r_[-3.0, -0.3, -1e-4, 1e-9, 0.2, 0.9, 4.0][:, None], 1e-5

    def differences(f):
        return (f(power + h) - f(power - h)) / (2 * h)

    def slope(f):
        return lambda p: tw.jvp(f, (p,), (np.ones_like(p),))[1]

    def check():
        first = slope(lambda p: function(x, p))
        np.testing.assert_allclose(first(power), differences(lambda p: function(x, p)), rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(slope(first)(power), differences(first), rtol=1e-5, atol=1e-6)

    with tw.config(enable_x64=True):
        under(NUMPY, check)
