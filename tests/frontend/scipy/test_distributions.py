"""`scipy.stats` against SciPy: values, dtypes, edges and bad parameters; derivatives; samples' statistics."""


import inspect

import numpy as np
import pytest
import scipy.stats

import tilewright as tw
from tests.support.distributions import DISTRIBUTIONS, SHARES, values
from tilewright import numpy as jnp
from tilewright.core.ir.binding import under, using
from tilewright.core.support.errors import ArgumentError, DtypeError, ShapeError, UnsupportedError
from tilewright.core.tracing.numpy_interpreter import NUMPY
from tilewright.scipy import stats

TABLE = [pytest.param(d, id=d.name) for d in DISTRIBUTIONS]


@pytest.fixture
def wide():
    with tw.config(enable_x64=True):
        yield


@pytest.fixture
def numpy_meaning():
    with tw.config(enable_x64=True), using(NUMPY):
        yield


def columns(one):
    """The parameters, each a column beside the row of points."""
    return [np.array(p)[:, None] for p in zip(*one.parameters, strict=True)] if one.parameters[0] else []


def expected(one, x, q, parameters):
    with np.errstate(all="ignore"):
        return [np.asarray(v) for v in values(getattr(scipy.stats, one.name), one, x, q, parameters)]


def names(one):
    return one.functions.split() + one.inverses.split()


@pytest.mark.law
@pytest.mark.parametrize("one", TABLE)
def test_as_scipy_and_derivatives_as_differences(one, numpy_meaning):
    """Along the point and the parameters that have derivatives, at the first set of them."""
    module, parameters, edges = getattr(stats, one.name), columns(one), len(one.at)
    x = np.concatenate([one.at, one.middle])
    tx = np.r_[np.zeros(edges), np.ones(len(one.middle))]
    tq = np.where((SHARES > 0.01) & (SHARES < 0.95), 1.0, 0.0)
    fixed, moving = parameters[: one.fixed], parameters[one.fixed :]
    directions = (tx, tq, *[np.full_like(p, 0.3) for p in moving])

    def of(x, q, *moving):
        return values(module, one, x, q, (*fixed, *moving))

    def slope(x, *p):
        return tw.jvp(lambda x, *p: getattr(module, names(one)[0])(x, *fixed, *p), (x, *p), (tx, *directions[2:]))[1]

    found, tangents = tw.jvp(of, (x, SHARES, *moving), directions)
    for name, v, e in zip(names(one), found, expected(one, x, SHARES, parameters), strict=True):
        assert v.dtype == np.float64
        np.testing.assert_allclose(np.asarray(v), e, rtol=2e-9, atol=1e-12, err_msg=name)
    h = 1e-6
    steps = [(p + h * t, p - h * t) for p, t in zip((x, SHARES, *moving), directions, strict=True)]
    above, below = ([*of(x, q, *p), slope(x, *p)] for x, q, *p in zip(*steps, strict=True))
    second = tw.jvp(slope, (x, *moving), (tx, *directions[2:]))[1]
    for name, t, a, b in zip([*names(one), "slope"], [*tangents, second], above, below, strict=True):
        inner = (tq == 1)[: t.shape[-1]] if name in ("ppf", "isf") else slice(2, 3) if one.whole else slice(edges, None)
        t, a, b = (np.atleast_2d(v)[0, inner] for v in (t, a, b))
        np.testing.assert_allclose(t, (a - b) / (2 * h), rtol=1e-5, atol=1e-6, err_msg=f"derivative of {name}")


# What compiles to the same operations as the others is left out: programs take seconds.
COMPILED = ("norm", "cauchy", "expon", "gamma", "beta", "uniform", "bernoulli", "poisson")


@pytest.mark.law
@pytest.mark.parametrize("one", [p for p in TABLE if p.values[0].name in COMPILED])
def test_vmap_in_single_precision(one):
    parameters = [p.astype(np.float32) for p in columns(one)]
    module, x, q = getattr(stats, one.name), one.at.astype(np.float32), SHARES.astype(np.float32)
    if parameters:
        found = tw.jit(tw.vmap(lambda x, q, *p: values(module, one, x, q, p), (None, None, *[0] * len(parameters))))
    else:
        found = tw.jit(lambda x, q: values(module, one, x, q, ()))
    reference = expected(one, x.astype(np.float64), q.astype(np.float64), [p.astype(np.float64) for p in parameters])
    for name, f, e in zip(names(one), found(x, q, *parameters), reference, strict=True):
        assert f.dtype == np.float32 and not f.weak_type
        f, e = (np.where(v < -80, -80, v) for v in (np.asarray(f), e))  # logarithms of what underflows
        ends = name in ("ppf", "isf", "logcdf", "logsf")  # of q near 1 a float has few digits left
        np.testing.assert_allclose(f, e, rtol=2e-3 if ends else 2e-4, atol=1e-5, err_msg=name)


# ---------------------------------------------------------------------------- distributions of vectors

RNG = np.random.default_rng(0)
SHARE = RNG.dirichlet([1.0, 2.0, 3.0], 4).T  # (3, 4)
ROOT = RNG.standard_normal((2, 3, 3))
COVARIANCE = ROOT @ ROOT.swapaxes(1, 2) + np.eye(3)
POINTS = RNG.standard_normal((4, 2, 3))


def test_dirichlet(wide):
    alpha = np.array([1.5, 0.7, 3.0])
    for f in ("logpdf", "pdf"):
        e = getattr(scipy.stats.dirichlet, f)(SHARE, alpha)
        for x in (SHARE, SHARE[:-1]):
            np.testing.assert_allclose(np.asarray(getattr(stats.dirichlet, f)(x, alpha)), e, rtol=1e-12)
    off = np.array([[0.2, 0.5, 1.2, 0.0], [0.3, 0.3, -0.2, 1.0]])
    assert np.asarray(stats.dirichlet.logpdf(off, np.array([2.0, 1.0]))).tolist() == [-np.inf] * 3 + [-np.inf]
    assert np.isnan(stats.dirichlet.logpdf(SHARE[:, 0], np.array([1.0, -1.0, 1.0])))
    assert np.isfinite(tw.grad(lambda a: stats.dirichlet.logpdf(off[:, 0], a))(np.array([2.0, 1.0]))).all()
    for f in (stats.dirichlet.logpdf, stats.dirichlet.pdf):
        assert not np.any(under(NUMPY, tw.grad(f, (0, 1)), SHARE[:, 0], np.array([1.0, 0.0, -1.0])))
    with pytest.raises(ShapeError, match="alpha"):
        stats.dirichlet.logpdf(SHARE, np.ones(5))


def test_multinomial(wide):
    x, p = np.array([[1, 2, 0], [3, 0, 0], [1, 1, 0], [4, -1, 0]]), np.array([0.2, 0.5, 0.3])
    expected = scipy.stats.multinomial.logpmf(x, 3, p)
    found = stats.multinomial.logpmf(x, 3, p)
    assert found.dtype == np.float64 and not found.weak_type
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(tw.vmap(stats.multinomial.pmf, (0, None, None))(x, 3, p)), np.exp(expected))
    assert np.isnan(stats.multinomial.logpmf(x[0], 3, np.array([0.2, 1.5, -0.7])))
    with pytest.raises(DtypeError, match="float"):
        stats.multinomial.logpmf(x * 1.0, 3, p)


def test_multivariate_normal(wide):
    mean = np.array([0.1, -0.2, 0.3])
    f = tw.jit(stats.multivariate_normal.logpdf)
    for x, cov in ((POINTS, COVARIANCE[0]), (POINTS[0, 0], COVARIANCE[0]), (POINTS[:0], COVARIANCE[0])):
        e = scipy.stats.multivariate_normal.logpdf(x, mean, cov) if x.size else np.zeros((0, 2))
        np.testing.assert_allclose(np.asarray(f(x, mean, cov)), e, rtol=1e-10)
    e = np.stack([scipy.stats.multivariate_normal.pdf(POINTS[:, i], mean, COVARIANCE[i]) for i in range(2)], 1)
    np.testing.assert_allclose(np.asarray(stats.multivariate_normal.pdf(POINTS, mean, COVARIANCE)), e, rtol=1e-10)
    e = scipy.stats.multivariate_normal.logpdf(POINTS, mean, 2 * np.eye(3))
    np.testing.assert_allclose(np.asarray(f(POINTS, mean, 2.0)), e, rtol=1e-10)
    np.testing.assert_allclose(np.asarray(f(POINTS, 0.5, 2.0)), scipy.stats.norm.logpdf(POINTS, 0.5, np.sqrt(2.0)))
    assert np.isnan(f(mean, mean, -np.eye(3)))
    h, t = 1e-6, np.full((3, 3), 0.3)
    slope = (f(POINTS[0, 0], mean, COVARIANCE[0] + h * t) - f(POINTS[0, 0], mean, COVARIANCE[0] - h * t)) / (2 * h)
    gradient = tw.grad(lambda c: f(POINTS[0, 0], mean, c))(COVARIANCE[0])
    np.testing.assert_allclose(np.sum(np.asarray(gradient) * t), slope, rtol=1e-7)
    with pytest.raises(ShapeError, match="covariance"):
        f(mean, mean, np.eye(2))
    with pytest.raises(UnsupportedError, match="allow_singular"):
        stats.multivariate_normal.logpdf(mean, mean, np.eye(3), allow_singular=True)


def test_entropy_of_poisson(numpy_meaning):
    mu = np.array([0.0, 1e-3, 0.7, 5.0, 59.0, 61.0, 1e4, -1.0])
    k = np.arange(12000)
    e = [-np.sum(p * np.log(p, where=p > 0, out=np.zeros(k.shape))) for p in scipy.stats.poisson.pmf(k, mu[:-1, None])]
    np.testing.assert_allclose(np.asarray(stats.poisson.entropy(mu)), [*e, np.nan], rtol=1e-8, atol=1e-12)
    for slopes in (tw.jvp(stats.poisson.entropy, (mu,), (np.ones(8),))[1], tw.vjp(stats.poisson.entropy, mu)[1](mu)[0]):
        assert np.isfinite(slopes[1:]).all() and not slopes[-1]
    assert tw.grad(stats.poisson.entropy)(0.0) == np.inf == tw.jvp(stats.poisson.entropy, (0.0,), (1.0,))[1]


@pytest.mark.law
@pytest.mark.parametrize("function,x,by", [
    (stats.expon.logpdf, -1.0, ()), (stats.gamma.logpdf, -1.0, (0.5,)), (stats.beta.logpdf, 1.5, (0.5, 0.5)),
    (stats.pareto.logcdf, 0.5, (2.0,)), (stats.uniform.cdf, 3.0, ()), (stats.poisson.logpmf, 2.5, (1.0,)),
    (stats.expon.ppf, 1.5, ()), (stats.uniform.logpdf, 3.0, (0.0, 1.5)), (stats.gamma.logpdf, -1.0, (0.5, 0.0, 2.0)),
])  # fmt: skip
def test_nothing_leaks_from_outside_of_the_support(function, x, by):
    """What the form would give there is not differentiated, by the point or by any parameter."""
    assert tw.grad(lambda args: function(*args))((x, *by)) == (0,) * (1 + len(by))


@pytest.mark.parametrize("name", ["norm.logpdf", "laplace.logpdf", "expon.sf", "logistic.cdf"])
def test_nothing_leaks_from_a_scale_of_zero(name):
    family, _, function = name.partition(".")
    slopes = under(NUMPY, tw.grad(getattr(getattr(stats, family), function), (0, 1, 2)), 0.0, 0.0, 0.0)
    assert [float(v) for v in slopes] == [0, 0, 0]


SHAPED = [p for p in TABLE if getattr(stats, p.id)._D.parameters]


@pytest.mark.law
@pytest.mark.parametrize("one", SHAPED)
def test_nothing_leaks_from_parameters_outside_of_their_domain(one, numpy_meaning):
    """NaN with derivatives that are 0, backwards and forwards, also where the point is an end of the support."""
    module, points = getattr(stats, one.name), np.array([0.0, 1.0, 0.5, 7.0, -np.inf, np.inf])
    count = len(module._D.parameters.split())
    fixed, moving = np.split(np.full((count, 6), -1.0), [2 if one.name == "beta" else 0])
    args = (points, *moving)
    for name in names(one):

        def of(x, *p, name=name):
            return getattr(module, name)(x, *fixed, *p)

        def slope(*args, of=of):
            return tw.vjp(of, *args)[1](np.ones(6))

        assert np.isnan(of(*args)).all(), name
        assert not np.any(tw.jvp(slope, args, (np.ones(6),) * len(args))), name


def test_shapes_and_empty_arrays():
    assert stats.norm.logpdf(jnp.zeros((0, 3)), jnp.zeros(3)).shape == (0, 3)
    assert stats.beta.cdf(jnp.zeros((2, 1)), jnp.ones(3), 2.0).shape == (2, 3)
    assert stats.poisson.pmf(jnp.arange(3), 2).dtype == np.float32
    assert stats.gamma.pdf(jnp.float16(1), 2.0).dtype == np.float16
    with pytest.raises(ShapeError):
        stats.norm.pdf(jnp.zeros(2), jnp.zeros(3))


def test_signatures_are_those_of_jax():
    reference = pytest.importorskip("jax").scipy.stats
    for name in (*(d.name for d in DISTRIBUTIONS), "dirichlet", "multinomial", "multivariate_normal"):
        theirs, mine = getattr(reference, name), getattr(stats, name)
        functions = {n for n in dir(theirs) if n[0] != "_" and inspect.isfunction(inspect.unwrap(getattr(theirs, n)))}
        assert functions - set(dir(mine)) == set()
        for f in functions:
            a, b = (list(inspect.signature(getattr(m, f)).parameters.values()) for m in (mine, theirs))
            assert [(p.name, p.default) for p in a] == [(p.name, p.default) for p in b], f"{name}.{f}"


# ---------------------------------------------------------------------------- samples

SAMPLE = np.array([[2, 4, 1, 1, 4, 4], [3, 3, 0, 1, 1, 7]])


@pytest.mark.parametrize("axis", [0, 1, -1, None])
@pytest.mark.parametrize("keepdims", [False, True])
def test_mode(axis, keepdims):
    found, e = (m.mode(SAMPLE, axis=axis, keepdims=keepdims) for m in (stats, scipy.stats))
    np.testing.assert_array_equal(np.asarray(found.mode), e.mode)
    np.testing.assert_array_equal(np.asarray(found.count), e.count)
    with tw.config(enable_x64=True):
        assert stats.mode(SAMPLE, axis=axis).count.dtype == np.int64


@pytest.mark.law
@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
def test_rankdata(method, axis):
    x = np.where(SAMPLE == 7, np.nan, SAMPLE).astype(np.float32)
    for a in (SAMPLE, x):
        found = stats.rankdata(a, method, axis=axis)
        np.testing.assert_array_equal(np.asarray(found), scipy.stats.rankdata(a, method, axis=axis))


def test_edges_of_samples():
    x = np.where(SAMPLE == 7, np.nan, SAMPLE).astype(np.float32)
    for policy in ("propagate", "omit"):
        e = scipy.stats.sem(x, axis=1, nan_policy=policy)
        np.testing.assert_allclose(np.asarray(stats.sem(x, axis=1, nan_policy=policy)), e, rtol=1e-6)
    e = scipy.stats.sem(SAMPLE, axis=None, ddof=0)
    np.testing.assert_allclose(stats.sem(SAMPLE, axis=None, ddof=0), e, rtol=1e-6)
    assert stats.rankdata(jnp.zeros((0, 2)), axis=0).shape == (0, 2)
    assert np.isnan(stats.mode(jnp.zeros(0)).mode) and stats.mode(jnp.zeros(0)).count == 0
    assert stats.mode(jnp.array([np.nan, 1.0, np.nan])).count == 2
    assert stats.mode(jnp.float32(3)).mode == 3
    for call, error in [
        (lambda: stats.rankdata(x, "best"), ArgumentError),
        (lambda: stats.rankdata(x, nan_policy="omit"), UnsupportedError),
        (lambda: stats.mode(x, nan_policy="all"), ArgumentError),
        (lambda: stats.sem(x, nan_policy="raise"), ArgumentError),
        (lambda: stats.mode(x, axis=2), ArgumentError),
    ]:
        with pytest.raises(error):
            call()


# ---------------------------------------------------------------------------- estimated densities

DATA = RNG.standard_normal((2, 20))


@pytest.mark.parametrize("method", ["scott", "silverman", 0.7, lambda kde: 0.3])
def test_gaussian_kde(method, wide):
    weights = RNG.uniform(size=20)
    for data, w in ((DATA, weights), (DATA[0], None)):
        at = DATA[:, :3] if data.ndim == 2 else DATA[0, :3]
        mine, theirs = stats.gaussian_kde(data, method, w), scipy.stats.gaussian_kde(data, method, w)
        np.testing.assert_allclose(np.asarray(mine(at)), theirs(at), rtol=1e-9)
        np.testing.assert_allclose(np.asarray(mine.logpdf(at)), theirs.logpdf(at), rtol=1e-9)
        np.testing.assert_allclose(mine.integrate_kde(mine), theirs.integrate_kde(theirs), rtol=1e-9)
        d = 1 if data.ndim == 1 else 2
        mean, cov = np.full(d, 0.2), np.eye(d)
        found = mine.integrate_gaussian(mean, cov)
        np.testing.assert_allclose(found, theirs.integrate_gaussian(mean, cov), rtol=1e-9)
    np.testing.assert_allclose(mine.integrate_box_1d(-1.0, 0.5), theirs.integrate_box_1d(-1.0, 0.5), rtol=1e-9)


def test_gaussian_kde_is_a_tree_and_draws():
    kde = stats.gaussian_kde(DATA.astype(np.float32))
    assert tw.jit(lambda k, x: k.pdf(x))(kde, DATA[:, :3].astype(np.float32)).shape == (3,)
    assert kde.resample(tw.random.key(0), (5,)).shape == (2, 5)
    assert kde(DATA[:, 0].astype(np.float32)).shape == (1,)


@pytest.mark.parametrize("call,error", [
    (lambda: stats.gaussian_kde(np.ones(1)), ArgumentError),
    (lambda: stats.gaussian_kde(DATA, "wide"), ArgumentError),
    (lambda: stats.gaussian_kde(DATA * 1j), DtypeError),
    (lambda: stats.gaussian_kde(DATA, weights=np.ones(3)), ShapeError),
    (lambda: stats.gaussian_kde(DATA)(np.ones((3, 4))), ShapeError),
    (lambda: stats.gaussian_kde(DATA).integrate_box_1d(0.0, 1.0), ArgumentError),
    (lambda: stats.gaussian_kde(DATA[0]).integrate_box_1d(np.zeros(2), 1.0), ShapeError),
    (lambda: stats.gaussian_kde(DATA).integrate_kde(stats.gaussian_kde(DATA[0])), ArgumentError),
    (lambda: stats.gaussian_kde(DATA).integrate_gaussian(np.zeros(3), np.eye(3)), ShapeError),
    (lambda: stats.gaussian_kde(DATA).integrate_box([0], [1]), UnsupportedError),
    (lambda: stats.gaussian_kde(DATA).set_bandwidth(2.0), UnsupportedError),
])  # fmt: skip
def test_bad_estimates(call, error):
    with pytest.raises(error):
        call()
