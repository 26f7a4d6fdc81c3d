"""Interpolation, nearest codes and rotations against SciPy."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.cluster.vq
import scipy.interpolate
import scipy.ndimage
import scipy.spatial.transform

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import numpy as jnp
from tilewright import scipy as ours
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError, DtypeError, ShapeError, UnsupportedError
from tilewright.core.tracing.numpy_interpreter import evaluate

RNG = np.random.default_rng(0)
R, S = ours.spatial.transform.Rotation, scipy.spatial.transform.Rotation


@pytest.fixture(autouse=True)
def wide():
    with tw.config(enable_x64=True):
        yield


def close(found, expected, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def slope(f, x, step=1e-5):
    """Central differences of a scalar function of a vector."""
    return np.array([(f(x + d) - f(x - d)) / (2 * step) for d in step * np.eye(len(x))])


@pytest.mark.law
@pytest.mark.parametrize("order", [0, 1])
@pytest.mark.parametrize("mode, theirs", [
    ("constant", "grid-constant"), ("nearest", "nearest"), ("wrap", "grid-wrap"), ("mirror", "mirror"),
    ("reflect", "reflect"),
])  # fmt: skip
def test_map_coordinates(mode, theirs, order):
    f = ours.ndimage.map_coordinates
    for shape, dtype in (((4, 5), "float64"), ((6,), "int32")):
        x = (10 * RNG.standard_normal(shape)).astype(dtype)
        places = RNG.uniform(-9, 12, (len(shape), 2, 20))
        expected = scipy.ndimage.map_coordinates(x, places, order=order, mode=theirs, cval=2)
        found = f(x, list(places), order, mode, 2)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1 if dtype == "int32" else 1e-5)
    if mode in ("mirror", "reflect", "constant"):
        x, at = RNG.standard_normal((4, 1)), np.array([[1.3, -0.6], [-7.4, 2.6]])
        one = lambda at: f(x, list(at), order, mode)  # noqa: E731
        values, slopes = tw.jit(tw.vmap(tw.value_and_grad(one)))(at)
        close(values, f(x, list(at.T), order, mode))
        whole = tw.jit(one)
        close(slopes, [slope(whole, a) for a in at], 1e-6)


GRID = (np.array([0.0, 1, 3, 4]), np.array([5.0, 4, 2, 1, 0]))  # the second decreases


@pytest.mark.parametrize("method", ["linear", "nearest"])
@pytest.mark.parametrize("trailing", [(), (2,)])
def test_regular_grid(method, trailing):
    values, at = RNG.standard_normal((4, 5, *trailing)), RNG.uniform(-1, 6, (3, 7, 2))
    at[0, 0, 0] = np.nan
    for fill in (np.nan, None, 7.0):
        theirs = scipy.interpolate.RegularGridInterpolator(GRID, values, method, bounds_error=False, fill_value=fill)
        interpolate = ours.interpolate.RegularGridInterpolator(GRID, values, method, fill_value=fill)
        close(by_numpy(interpolate, at), theirs(at))
    if method == "linear":
        close(by_numpy(tw.vmap(interpolate), at), theirs(at))
        traced = lambda grid: ours.interpolate.RegularGridInterpolator(grid, values, fill_value=7.0)(at)  # noqa: E731
        close(by_numpy(traced, GRID), theirs(at))  # where whether the points decrease is not known
        one = ours.interpolate.RegularGridInterpolator(GRID[:1], values)
        at = (GRID[0] / 2,)
        close(by_numpy(one, at), scipy.interpolate.RegularGridInterpolator(GRID[:1], values)(at))
    if method == "linear" and not trailing:
        f = tw.jit(lambda at, values: ours.interpolate.RegularGridInterpolator(GRID, values)(at)[0])
        close(tw.grad(f)(np.array([0.5, 2.7]), values), slope(lambda at: f(at, values), np.array([0.5, 2.7])), 1e-6)


def test_trapezoid():
    y, x = RNG.standard_normal((2, 3, 5))
    close(ours.integrate.trapezoid(y, x, axis=0), scipy.integrate.trapezoid(y, x, axis=0))
    close(ours.integrate.trapezoid(y, dx=0.5), scipy.integrate.trapezoid(y, dx=0.5))


@pytest.mark.parametrize("shapes", [((6, 3), (4, 3)), ((6,), (4,)), ((0, 3), (4, 3))])
def test_nearest_codes(shapes):
    obs, codes = (RNG.standard_normal(s) for s in shapes)
    found = ours.cluster.vq.vq(obs, codes)
    if len(obs):
        for f, e in zip(found, scipy.cluster.vq.vq(obs, codes), strict=True):
            close(f, e)
        close(tw.jit(ours.cluster.vq.vq)(obs, codes)[1], found[1])
    assert found[0].shape == found[1].shape == shapes[0][:1]


def check(f, *args, tolerance=1e-9):
    """The same function of our and of SciPy's class; rotations as their quaternions."""
    q = RNG.standard_normal((2, 5, 4))

    def values(out):
        return [x.as_quat(canonical=True) if isinstance(x, (R, S)) else x for x in out]

    found = by_numpy(lambda q: values(f(R, *map(R.from_quat, q), *args)), q)
    for ours_, theirs in zip(found, values(f(S, *map(S.from_quat, q), *args)), strict=True):
        close(ours_, theirs, tolerance)


def test_rotations_from_and_as():
    half = np.array([[1.0, 0, 0, 0], [0, -1, 0, 0], [0, 0, -1, 0], [0, 0, 0, -1], [1, 2, 3, -4]])

    def everything(K, r, _):
        out = [r.as_rotvec(degrees=True), K.from_rotvec(r.as_rotvec(degrees=True), degrees=True), r.magnitude()]
        out += [r.as_quat(scalar_first=True), K.from_quat(half), K.from_matrix(K.from_quat(half).as_matrix())]
        for way in ("matrix", "rotvec", "mrp"):
            found = getattr(r, f"as_{way}")()
            out += [found, getattr(K, f"from_{way}")(found), getattr(K, f"from_{way}")(found[0])]
        return out

    check(everything)


def test_rotations_combined():
    v, w = RNG.standard_normal((5, 3)), np.arange(1.0, 6.0)

    def everything(K, r, q):
        out = [r * q, r * q[0], r.inv(), r.mean(), r.mean(w), K.concatenate([r, q]), r[1:3]]
        for inverse in (False, True):
            out += [r.apply(v, inverse=inverse), r[0].apply(v, inverse=inverse)]
        slerp = ours.spatial.transform.Slerp.init if K is R else scipy.spatial.transform.Slerp
        between = slerp(np.arange(5.0), r)
        return [*out, between(np.linspace(0, 4, 9)), between(2.3), K.identity().as_matrix()]

    check(everything)
    r = R.identity(5)
    assert len(r) == 5 and len(r[1:3]) == 2 and r[0].single and not r.single
    drawn = tw.jit(lambda: R.random(tw.random.key(0), 400))()
    close(np.linalg.norm(drawn.quat, axis=-1), np.ones(400), 1e-5)
    assert np.linalg.norm(np.mean(drawn.quat * np.sign(drawn.quat[:, 3:]), 0)[:3]) < 0.1


def test_euler_angles():
    def everything(K, r, _):
        out = []
        for seq in map("".join, [*itertools.product("xyz", repeat=3), *itertools.product("XYZ", repeat=3)]):
            if seq[0] != seq[1] != seq[2]:
                ends = (0.0, np.pi) if seq[0] == seq[2] else (np.pi / 2, -np.pi / 2)
                locked = K.from_euler(seq, np.array([[0.3, end, 0.4] for end in ends]))
                out += [r.as_euler(seq, degrees=True), locked, locked.as_euler(seq)]
        return [*out, K.from_euler("XY", np.ones((2, 2)), degrees=True), K.from_euler("z", np.ones((2, 1)))]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SciPy's, of the lock
        check(everything, tolerance=1e-6)


def test_derivatives_of_rotations():
    def turned(v, back=True):
        r = R.from_rotvec(v)
        r = R.from_matrix((r * R.from_euler("zyx", v)).as_matrix())
        return jnp.sum(jnp.sin(r.as_rotvec()) + r.as_mrp() + r.as_euler("xyz")) + r.magnitude()

    program = tw.make_jaxpr(turned)(np.zeros(3))
    v = np.array([0.3, -0.5, 0.7])
    close(by_numpy(tw.grad(turned), v), slope(lambda v: evaluate(program, v)[0], v), 1e-6)
    one = lambda v: (R.from_rotvec(v), tw.grad(lambda v: jnp.sum(R.from_rotvec(v).as_rotvec()))(v))  # noqa: E731
    turns, slopes = by_numpy(tw.vmap(one), np.stack([v, 0 * v]))
    close(turns.quat[0], S.from_rotvec(v).as_quat())
    close(slopes, np.ones((2, 3)))


@pytest.mark.parametrize("error, text, call", [
    (ArgumentError, "1 coordinates", lambda: ours.ndimage.map_coordinates(np.ones((2, 2)), [np.ones(1)], 1)),
    (UnsupportedError, "mode='up'", lambda: ours.ndimage.map_coordinates(np.ones(2), [np.ones(1)], 1, "up")),
    (UnsupportedError, "order=3", lambda: ours.ndimage.map_coordinates(np.ones(2), [np.ones(1)], 3)),
    (ArgumentError, "shape .0,", lambda: ours.ndimage.map_coordinates(np.ones(0), [np.ones(1)], 1)),
    (ArgumentError, "method='cubic'", lambda: ours.interpolate.RegularGridInterpolator(GRID, np.ones((4, 5)), "cubic")),
    (UnsupportedError, "bounds_error", lambda: ours.interpolate.RegularGridInterpolator(GRID, np.ones((4, 5)),
                                                                                        bounds_error=True)),
    (ShapeError, "along axis 0", lambda: ours.interpolate.RegularGridInterpolator(GRID, np.ones((5, 5)))),
    (ArgumentError, "2 arrays of points", lambda: ours.interpolate.RegularGridInterpolator(GRID, np.ones(4))),
    (ArgumentError, "ordered", lambda: ours.interpolate.RegularGridInterpolator((np.zeros(3),), np.ones(3))),
    (DtypeError, "fill_value", lambda: ours.interpolate.RegularGridInterpolator(GRID, np.ones((4, 5)), fill_value=1j)),
    (ShapeError, "2 axes", lambda: ours.interpolate.RegularGridInterpolator(GRID, np.ones((4, 5)))(np.ones((2, 3)))),
    (ShapeError, "vq", lambda: ours.cluster.vq.vq(np.ones((2, 3)), np.ones((2, 2)))),
    (ShapeError, "vq", lambda: ours.cluster.vq.vq(np.ones((2, 3)), np.ones((0, 3)))),
    (ArgumentError, "'abc'", lambda: R.from_euler("abc", np.ones(3))),
    (ArgumentError, "'xXy'", lambda: R.identity().as_euler("xXy")),
    (ArgumentError, "twice", lambda: R.from_euler("xxy", np.ones(3))),
    (ShapeError, "Euler", lambda: R.from_euler("xy", np.ones(3))),
    (ShapeError, "quaternions", lambda: R.from_quat(np.ones(3))),
    (ArgumentTypeError, "single", lambda: R.identity()[0]),
    (ArgumentTypeError, "single", lambda: len(R.identity())),
    (ShapeError, "weights", lambda: R.identity(2).mean(np.ones(3))),
    (ArgumentError, "one rotation", lambda: ours.spatial.transform.Slerp.init(np.ones(1), R.identity())),
    (ArgumentTypeError, "int", lambda: ours.spatial.transform.Slerp.init(np.ones(1), 3)),
    (ShapeError, "times", lambda: ours.spatial.transform.Slerp.init(np.ones(3), R.identity(2))),
])  # fmt: skip
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)
