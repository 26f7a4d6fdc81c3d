"""`scipy.special` against SciPy: values, edges, dtypes, derivatives, complex numbers, and what bad input does."""

import inspect

import numpy as np
import pytest
import scipy.special as theirs

import tilewright as tw
from tilewright import numpy as jnp
from tilewright.core.ir.binding import using
from tilewright.core.support.errors import ArgumentError, DtypeError, NoDerivativeError, ShapeError, UnsupportedError
from tilewright.core.tracing.numpy_interpreter import NUMPY
from tilewright.scipy import special

INF, NAN = np.inf, np.nan
LINE = np.r_[-INF, -1e6, -100, -30, -8:8:33j, 1e-9, -1e-5, 0.7, 1.2, 20.0, 35, 45, 500, 1e6, INF, NAN]
HALF = np.r_[LINE[LINE >= 0], NAN, -1.0]
SMOOTH = np.r_[-6.3, -2.1, -0.4, 0.3, 0.69, 1.21, 2.7, 5.9, 20.5]
ABOVE = np.r_[0.2, 0.55, 0.95, 1.04, 1.6, 2.3, 7.1]


BIG = np.r_[0.1, 1, 2.5, 7.9, 8, 40, 170, 1e4]


def grid(*axes):
    return tuple(np.ravel(a) for a in np.meshgrid(*axes))


def orders(x):
    return grid(np.r_[0.0, 1, 2, 5, 20], x)


# A name, operands at which values are compared, operands at which derivatives are (of the last operands from `first`).
CONFLUENT = [np.r_[-2.5, -2, -0.3, 0.5, 1, 2.2, 5], np.r_[0.5, 1, 2.5, 4]]
GAUSS = [np.r_[-2.5, -2, -0.3, 0.5, 1], np.r_[0.5, 1, 2.5], np.r_[0.7, 1.5, 2, 4.7]]
TABLE = [
    ("erfcx", (LINE,), (SMOOTH[:-1],), 0),
    ("dawsn", (LINE,), (SMOOTH,), 0),
    ("fresnel", (LINE[np.abs(LINE) != 1e6],), (SMOOTH[:-1],), 0),
    ("exp1", (HALF,), (ABOVE,), 0),
    ("expi", (LINE[LINE > -900],), (np.r_[ABOVE, -ABOVE, 45.0],), 0),
    ("expn", orders(HALF), orders(ABOVE), 1),
    ("sici", (LINE,), (SMOOTH,), 0),
    ("spence", (np.r_[HALF[1:], 0.0],), (np.r_[ABOVE, 1.0],), 0),
    ("owens_t", grid(LINE[4:30:3], np.r_[-3, -1, -0.5, 0, 0.2, 1, 1.1, 5, INF]), grid(ABOVE, SMOOTH[1:6]), 0),
    ("hyp1f1", grid(*CONFLUENT, np.r_[-500, -90, -30, 0, 0.3, 20, 85]),
     grid(CONFLUENT[0][2:], CONFLUENT[1], np.r_[-2.0, 0.3, 3, 90]), 0),
    ("hyp2f1", grid(*GAUSS, np.r_[-50, -3, -0.4, 0, 0.3, 0.8, 0.95, 0.999]),
     grid(GAUSS[0][2:], GAUSS[1], GAUSS[2][::3], np.r_[-2, 0.3, 0.7]), 0),
    ("ndtri", (np.r_[0, 1e-300, 1e-20, 1e-6, 0.02:0.98:7j, 1 - 1e-9, 1, -0.1, 1.1, NAN],), (np.r_[1e-3, 0.3, 0.6],), 0),
    ("erfcinv", (np.r_[0, 1e-300, 1e-20, 1e-6, 0.02:1.98:9j, 2, -0.1, 2.1, NAN],), (np.r_[1e-3, 0.3, 1, 1.7],), 0),
    ("betaln", grid(BIG, BIG), grid(np.r_[0.3, 2, 7.9, 30], np.r_[0.7, 9, 1e4]), 0),
    ("beta", grid(BIG, BIG), grid(np.r_[0.3, 2, 9], np.r_[0.7, 9, 20]), 0),
    ("comb", grid(np.r_[0.0, 1, 5, 20, 1e4, 1e6], np.r_[-1.0, 0, 1, 2, 5, 7]), grid(np.r_[9.0, 1e4], np.r_[1, 2.5]), 0),
    ("rel_entr", grid(LINE[::5], LINE[::5]), grid(ABOVE, ABOVE), 0),
    ("kl_div", grid(LINE[3::5], LINE[3::5]), grid(ABOVE, ABOVE), 0),
    ("zeta", grid(np.r_[1.5, 2, 7.3], np.r_[0.2, 1, 4.5]), grid(np.r_[1.5, 2, 7.3], np.r_[0.2, 1, 4.5]), 0),
]  # fmt: skip
ROWS = [pytest.param(*row, id=row[0]) for row in TABLE]


def as_list(x):
    return list(x) if isinstance(x, (tuple, list)) else [x]


@pytest.fixture
def numpy_meaning():
    with tw.config(enable_x64=True), using(NUMPY):
        yield


@pytest.mark.law
@pytest.mark.parametrize("name,operands,points,first", ROWS)
def test_as_scipy_and_derivatives_as_differences(name, operands, points, first, numpy_meaning):
    function = getattr(special, name)
    with np.errstate(all="ignore"):
        expected = as_list(getattr(theirs, name)(*operands))
    for f, e in zip(as_list(function(*operands)), expected, strict=True):
        assert f.dtype == np.float64
        np.testing.assert_allclose(np.asarray(f), e, rtol=2e-10, atol=1e-13)
    moving, tangents = points[first:], [np.full_like(p, 0.4) for p in points[first:]]
    f = lambda *xs: as_list(function(*points[:first], *xs))  # noqa: E731
    found = tw.jvp(f, tuple(moving), tuple(tangents))[1]
    h = 1e-6
    above, below = (f(*[x + s * h * t for x, t in zip(moving, tangents, strict=True)]) for s in (1, -1))
    for t, a, b in zip(found, above, below, strict=True):
        slope = (np.asarray(a) - np.asarray(b)) / (2 * h)
        np.testing.assert_allclose(np.asarray(t), slope, rtol=1e-5, atol=1e-7)


@pytest.mark.law
@pytest.mark.parametrize("name,parameters", [
    ("hyp1f1", (-1.0, -2.0)), ("hyp1f1", (-3.0, -3.0)), ("hyp1f1", (1.0, -2.0)), ("hyp1f1", (-3.0, -2.0)),
    ("hyp2f1", (-3.0, -2.0, -2.0)), ("hyp2f1", (-0.3, -2.0, -2.0)), ("hyp2f1", (0.5, -2.0, -4.0)),
    ("hyp2f1", (-3.0, 0.5, -2.0)),
])  # fmt: skip
def test_hypergeometric_polynomials_end_before_a_pole(name, parameters, numpy_meaning):
    x = np.r_[-0.7, 0.3, 0.8]
    function, wanted = getattr(special, name), getattr(theirs, name)(*parameters, x)
    np.testing.assert_allclose(function(*parameters, x), wanted, rtol=1e-12)
    if np.isfinite(wanted).all():  # a polynomial of three degrees at most has these differences
        f, h = lambda x: function(*parameters, x), 1e-3
        slope = lambda x: tw.jvp(f, (x,), (np.ones_like(x),))[1]  # noqa: E731
        np.testing.assert_allclose(slope(x), (f(x + h) - f(x - h)) / (2 * h), rtol=1e-5, atol=1e-5)
        second = tw.jvp(slope, (x,), (np.ones_like(x),))[1]
        np.testing.assert_allclose(second, (slope(x + h) - slope(x - h)) / (2 * h), rtol=1e-5, atol=1e-5)


# What compiles to the same operations as the others is left out: programs take seconds.
ALIKE = ("exp1", "dawsn", "beta", "comb", "kl_div")


@pytest.mark.law
@pytest.mark.parametrize("name,operands,points,first", [p for p in ROWS if p.values[0] not in ALIKE])
def test_compiled_in_single_precision(name, operands, points, first):
    narrow = [x.astype(np.float32) for x in points]
    found = tw.jit(tw.vmap(getattr(special, name)))(*narrow)
    expected = getattr(theirs, name)(*[x.astype(np.float64) for x in narrow])
    for f, e in zip(as_list(found), as_list(expected), strict=True):
        assert f.dtype == np.float32 and not f.weak_type
        tolerance = 2e-3 if name == "hyp2f1" else 5e-5  # close to the poles of its parts
        finite = np.abs(e) < 1e38
        np.testing.assert_allclose(np.asarray(f)[finite], e[finite], rtol=tolerance, atol=1e-6)


RNG = np.random.default_rng(0)
PLANE = RNG.uniform(-6, 6, 60) + 1j * RNG.uniform(-6, 6, 60)
POINTS = {
    "wofz": np.r_[PLANE, 1, -2, 1e-3j, 30 + 0.1j],
    "loggamma": np.r_[PLANE, 20 - 30j, -20 + 40j, 100, 0.5, 1e-3j, -3.5 + 1e-3j],
    "gamma": np.r_[PLANE, 0.5, 4, 1e-3j],
}


@pytest.mark.law
@pytest.mark.parametrize("name", POINTS)
def test_complex_numbers(name):
    z = POINTS[name].astype(np.complex64)
    found = getattr(special, name)(z)
    assert found.dtype == np.complex64
    e = getattr(theirs, name)(z.astype(np.complex128))
    np.testing.assert_allclose(np.asarray(found), e, rtol=3e-4, atol=3e-5)


@pytest.mark.law
@pytest.mark.parametrize("name", POINTS)
def test_complex_derivatives(name, numpy_meaning):
    z, function = POINTS[name], getattr(special, name)
    np.testing.assert_allclose(np.asarray(function(z)), getattr(theirs, name)(z), rtol=1e-11, atol=1e-12)
    near, t = z[np.abs(z) < 9], 0.3 - 0.5j
    _, found = tw.jvp(function, (near,), (np.full_like(near, t),))
    slope = (getattr(theirs, name)(near + 1e-6 * t) - getattr(theirs, name)(near - 1e-6 * t)) / 2e-6
    np.testing.assert_allclose(np.asarray(found), slope, rtol=1e-5, atol=1e-6)


def test_derivatives_at_points(numpy_meaning):
    np.testing.assert_allclose(tw.grad(tw.grad(special.spence))(1.0), 0.5, rtol=1e-12)
    si = lambda x: special.sici(x)[0]  # noqa: E731
    np.testing.assert_allclose(tw.grad(tw.grad(si))(2.0), (np.cos(2) - np.sin(2) / 2) / 2, rtol=1e-12)
    assert tw.grad(si)(0.0) == 1
    assert np.isnan(tw.grad(special.zeta)(0.5, 1.0))
    np.testing.assert_allclose(tw.grad(special.hyp1f1, 2)(1.0, 2.0, 0.0), 0.5, rtol=1e-12)


def test_second_derivatives_backwards_through_loops(numpy_meaning):
    slope, a, x, h = tw.grad(special.hyp1f1), 1.5, 0.3, 1e-5
    expected = slope(a + h, 2.5, x) - slope(a - h, 2.5, x), slope(a, 2.5, x + h) - slope(a, 2.5, x - h)
    second = tw.grad(slope, (0, 2))(a, 2.5, x)
    np.testing.assert_allclose(second, np.array(expected) / (2 * h), rtol=1e-5, atol=1e-8)


def test_no_derivative_by_the_order():
    for function, args in ((special.expn, (2.0, 0.5)), (special.polygamma, (1.0, 0.5)), (special.betainc, (1.0,) * 3)):
        for slope in (tw.grad(function), lambda n, *x, f=function: tw.jvp(lambda n: f(n, *x), (n,), (1.0,))):
            with pytest.raises(NoDerivativeError, match="no derivative"):
                slope(*args)


def test_bessel_functions_of_whole_order():
    x = np.array([0.0, 0.5, 3, -7, 12], np.float32)
    found = tw.jit(lambda x: special.bessel_jn(x, v=4))(x)
    np.testing.assert_allclose(np.asarray(found), [theirs.jv(k, x) for k in range(5)], atol=2e-6)
    slope = tw.jacfwd(lambda x: special.bessel_jn(x, v=1)[0])(np.float32(3))
    np.testing.assert_allclose(slope, -theirs.j1(3), rtol=1e-5)


def test_legendre_functions():
    z = RNG.uniform(-1, 1, 7).astype(np.float32)
    values, slopes = special.lpmn(6, 6, z)
    for order in range(7):
        for degree in range(7):
            e, d = theirs.assoc_legendre_p(degree, order, z.astype(float), diff_n=1)
            v, t = np.asarray(values)[order, degree], np.asarray(slopes)[order, degree]
            np.testing.assert_allclose(v, e, rtol=2e-4, atol=2e-4)
            np.testing.assert_allclose(t, d, rtol=2e-3, atol=2e-3)
    assert np.isfinite(np.asarray(special.lpmn(2, 2, jnp.array([1.0, -1.0]))[1][[0, 2]])).all()


def test_spherical_harmonics():
    n, m = np.array([0, 1, 2, 3, 5, 5]), np.array([0, -1, 2, -3, 4, -5])
    theta, phi = RNG.uniform(0, np.pi, (2, 6)).astype(np.float32), RNG.uniform(0, 6, 6).astype(np.float32)
    e = theirs.sph_harm_y(n, m, theta.astype(float), phi.astype(float))
    found = tw.jit(lambda *a: special.sph_harm_y(*a, n_max=5))(n, m, theta, phi)
    assert found.dtype == np.complex64
    np.testing.assert_allclose(np.asarray(found), e, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(special.sph_harm_y(n, m, theta, phi)), e, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("call,error", [
    (lambda: special.bessel_jn(1.0, v=-1), ArgumentError),
    (lambda: special.bessel_jn(1.0, v=60), ArgumentError),
    (lambda: special.bessel_jn(1j, v=1), DtypeError),
    (lambda: special.lpmn(2, 3, jnp.ones(2)), UnsupportedError),
    (lambda: special.lpmn(2, 2, jnp.ones((2, 2))), ShapeError),
    (lambda: special.lpmn_values(2, 2, jnp.arange(3), True), DtypeError),
    (lambda: special.sph_harm_y(1, 1, 0.5, 0.5, diff_n=1), UnsupportedError),
    (lambda: special.sph_harm_y(-1, 0, 0.5, 0.5), ArgumentError),
    (lambda: special.erfcx([1.0]), TypeError),
    (lambda: special.spence(1j), TypeError),
    (lambda: special.hyp1f1(1.0, 2.0, 1j), TypeError),
])  # fmt: skip
def test_bad_input(call, error):
    with pytest.raises(error):
        call()


def test_narrow_floats_and_whole_numbers():
    for name in ("erfcx", "dawsn", "exp1", "expi", "spence"):
        assert getattr(special, name)(jnp.bfloat16(1)).dtype == jnp.bfloat16
        assert getattr(special, name)(jnp.arange(1, 3)).dtype == np.float32
        assert getattr(special, name)(jnp.zeros((0, 2))).shape == (0, 2)


def test_names_and_signatures_are_those_of_jax():
    jax = pytest.importorskip("jax")
    names = {n for n in dir(jax.scipy.special) if n[0] != "_"}
    assert names - {"erfcinv"} - set(dir(special)) == set()  # but for names of jax 0.12
    functions = "wofz erfcx dawsn fresnel exp1 expi expn sici spence owens_t hyp1f1 hyp2f1 sph_harm_y bessel_jn"
    for name in functions.split():
        a, b = (inspect.signature(getattr(m, name)).parameters.values() for m in (special, jax.scipy.special))
        assert [(p.name, p.default, p.kind) for p in a] == [(p.name, p.default, p.kind) for p in b], name


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_ways_to_choose_in_half_precision_are_rounded_once(dtype):
    k = jnp.array([0.5, 1.5, 2.25, 3.5], dtype)
    near = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(np.float64(special.comb(6.0, k)), theirs.comb(6.0, np.float64(k)), near)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_quantiles_in_half_precision_are_rounded_once(dtype):
    p = jnp.array([0.001, 0.1, 0.25, 0.5, 0.75, 0.9], dtype)
    near = float(jnp.finfo(dtype).eps)
    np.testing.assert_allclose(np.float64(special.ndtri(p)), theirs.ndtri(np.float64(p)), near)
