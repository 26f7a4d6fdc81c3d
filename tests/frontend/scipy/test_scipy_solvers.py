"""Iterative solvers and optimizers against dense linear algebra and SciPy."""

import functools

import numpy as np
import pytest
import scipy.optimize

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import numpy as jnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    DtypeError,
    ShapeError,
    TreeError,
)
from tilewright.scipy.optimize import OptimizeResults, minimize
from tilewright.scipy.sparse.linalg import bicgstab, cg, gmres

N = 8
SOLVERS = {
    "cg": cg,
    "bicgstab": bicgstab,
    "gmres": gmres,
    "gmres-incremental": functools.partial(gmres, solve_method="incremental"),
    "gmres-restarted": functools.partial(gmres, restart=4),
    "gmres-incremental-restarted": functools.partial(gmres, restart=4, solve_method="incremental"),
}


def system(name, dtype):
    rng = np.random.default_rng(1)
    a = rng.standard_normal((N, N)) + (1j * rng.standard_normal((N, N)) if dtype[0] == "c" else 0)
    a = a @ a.conj().T / N + np.eye(N) if name == "cg" else a / 2 + 3 * np.eye(N)
    return a.astype(dtype), (rng.standard_normal(N) + (1j if dtype[0] == "c" else 0)).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
@pytest.mark.parametrize("name", SOLVERS)
def test_solutions_derivatives_and_batches(name, dtype):
    a, b = system(name, dtype)

    def f(a, b):
        return SOLVERS[name](a, b, tol=1e-6)[0]

    x = by_numpy(f, a, b)
    assert x.dtype == dtype
    if name == "gmres-restarted":
        np.testing.assert_allclose(tw.jit(f)(a, b), x, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(a @ np.asarray(x), b, atol=2e-5)
    if dtype == "float32" and name in ("cg", "gmres"):

        def both(f):
            return tw.vmap(tw.value_and_grad(lambda a, b: jnp.sum(jnp.sin(f(a, b))), (0, 1)), in_axes=(None, 0))

        right = np.stack([b, 2 * b[::-1]])
        found, expected = by_numpy(both(f), a, right), by_numpy(both(jnp.linalg.solve), a, right)
        for p, q in zip(tw.tree.leaves(found), tw.tree.leaves(expected), strict=True):
            np.testing.assert_allclose(p, q, rtol=1e-3, atol=1e-4)


def test_functions_pytrees_preconditioners_and_starts():
    d = np.arange(1.0, 5.0, dtype="float32")
    b = {"x": np.ones(4, "float32"), "y": np.float32(6)}

    def apply(v):
        return {"x": d * v["x"], "y": 3 * v["y"]}

    def inverse(v):
        return {"x": v["x"] / d, "y": v["y"] / 3}

    for solver in (cg, bicgstab, gmres):
        x, _ = by_numpy(lambda b, solver=solver: solver(apply, b, M=inverse, maxiter=2), b)
        np.testing.assert_allclose(x["x"], 1 / d, rtol=1e-5)
        np.testing.assert_allclose(x["y"], 2, rtol=1e-5)
        start = {"x": 1 / d, "y": np.float32(2)}
        same, _ = by_numpy(lambda b, start, solver=solver: solver(apply, b, start, maxiter=1), b, start)
        np.testing.assert_array_equal(same["x"], 1 / d)
    x, info = gmres(np.diag([2, 4]), np.array([2, 4]))  # integers are promoted
    np.testing.assert_allclose(x, [1, 1], rtol=1e-6)
    assert int(info) == 0 and cg(np.eye(2, dtype="f"), np.zeros(2, "f"))[1] is None
    np.testing.assert_array_equal(gmres(np.eye(2, dtype="f"), np.zeros(2, "f"))[0], [0, 0])
    for solver in (cg, bicgstab, gmres):
        x, info = by_numpy(solver, np.full((2, 2), np.nan, "f"), np.ones(2, "f"))
        assert np.isnan(x).all() and (info is None or int(info) == -1)


def test_the_number_of_steps_is_kept():
    a, b = system("cg", "float32")

    def left(**options):
        return np.linalg.norm(b - a @ by_numpy(lambda a, b: cg(a, b, tol=0.0, **options), a, b)[0])

    assert left(maxiter=4) < left(maxiter=1) / 3
    rough = left(atol=0.5)
    assert 0.01 < rough <= 0.5


@pytest.mark.parametrize("error, text, call", [
    (ShapeError, "square", lambda: cg(np.ones((2, 3)), np.ones(2))),
    (ArgumentTypeError, "A is str", lambda: cg("A", np.ones(2))),
    (TreeError, "x0 and b", lambda: bicgstab(np.eye(2), np.ones(2), (np.ones(2),))),
    (ShapeError, "x0 has arrays", lambda: gmres(np.eye(2), np.ones(2), np.ones(3))),
    (ShapeError, r"A\(x\) has arrays", lambda: cg(lambda x: x[:1], np.ones(2))),
    (ArgumentError, "solve_method='fast'", lambda: gmres(np.eye(2), np.ones(2), solve_method="fast")),
    (ArgumentError, "method='powell'", lambda: minimize(jnp.sum, np.ones(2), method="powell")),
    (ArgumentError, "option 'xtol'.*\n.*\n.*maxiter", lambda: minimize(jnp.sum, np.ones(2), method="BFGS",
                                                                       options={"xtol": 1})),
    (ArgumentTypeError, "tuple", lambda: minimize(jnp.sum, np.ones(2), [1], method="BFGS")),
    (ShapeError, "vector", lambda: minimize(jnp.sum, np.ones((2, 2)), method="BFGS")),
    (DtypeError, "complex64", lambda: minimize(jnp.sum, np.ones(2, "complex64"), method="BFGS")),
])  # fmt: skip
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)


LBFGS = "l-bfgs-experimental-do-not-rely-on-this"


def rosenbrock(xp, x):
    return xp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def himmelblau(xp, x):
    return (x[0] ** 2 + x[1] - 11) ** 2 + (x[0] + x[1] ** 2 - 7) ** 2


def eggholder(xp, x):
    u, v = x
    return -(v + 47) * xp.sin(xp.sqrt(xp.abs(u / 2 + v + 47))) - u * xp.sin(xp.sqrt(xp.abs(u - (v + 47))))


@pytest.mark.parametrize("method", ["BFGS", LBFGS])
@pytest.mark.parametrize("f, start", [
    (rosenbrock, [0.0, 0, 0, 0, 0]), (himmelblau, [1.0, 1]), (eggholder, [100.0, 100]),
])  # fmt: skip
def test_minima_are_those_of_scipy(f, start, method):
    expected = scipy.optimize.minimize(functools.partial(f, np), start, method="BFGS", tol=1e-8)
    for x64 in (True, False) if f is rosenbrock else (False,):
        with tw.config(enable_x64=x64):
            x0 = np.array(start, "float64" if x64 else "float32")
            # In float32 the last steps hang on how a processor's sums are rounded: as compiled, which users run.
            run = by_numpy if x64 or f is not rosenbrock else lambda call, x0: call(x0)
            found = run(lambda x0: minimize(functools.partial(f, jnp), x0, method=method), x0)
        assert isinstance(found, OptimizeResults)
        np.testing.assert_allclose(found.x, expected.x, rtol=1e-4, atol=1e-4)
        assert bool(found.success) or int(found.status) == 4
        assert (found.hess_inv is None) == (method == LBFGS) and int(found.nfev) < 80


def test_minimize_with_arguments_under_jit_and_vmap_and_differentiated():
    def nearest(start, target):
        def f(x, target, weight):
            return jnp.sum(weight * (x - target) ** 2)

        return minimize(f, start, (target, np.array([1.0, 3.0], "f")), method="bfgs", options={"gtol": 1e-4}).x

    starts, targets = np.array([[0, 0], [5, -5], [1, 1]], "f"), np.array([[1, 2], [3, 4], [1, 1]], "f")
    found = tw.jit(tw.vmap(nearest))(starts, targets)
    np.testing.assert_allclose(found, targets, atol=1e-4)
    np.testing.assert_allclose(by_numpy(tw.jacfwd(nearest, 1), starts[0], targets[0]), np.eye(2), atol=1e-3)
    np.testing.assert_allclose(tw.jacrev(nearest, 1)(starts[0], targets[0]), np.eye(2), atol=1e-3)


def test_counts_of_minimize_are_integers_without_a_dtype_of_their_own():
    found = minimize(lambda x: jnp.sum((x - 1) ** 2), jnp.zeros(2), method="BFGS")
    counts = found.status, found.nfev, found.njev, found.nit
    assert all(x.weak_type and x.dtype == jnp.asarray(0).dtype for x in counts)


def test_limits_of_minimize():
    def run(x0, f=None, **options):
        return by_numpy(lambda x0: minimize(f or functools.partial(rosenbrock, jnp), x0, **options), x0)

    zeros = np.zeros(3, "f")
    short = run(zeros, method="BFGS", options={"maxiter": 2})
    assert (int(short.status), int(short.nit), bool(short.success)) == (1, 2, False)
    few = run(zeros, method=LBFGS, options={"maxfun": 5})
    assert int(few.status) == 2 and 5 <= int(few.nfev) < 25
    assert int(run(zeros, method="BFGS", tol=1e9).nit) == 0
    # No step goes down from where nothing is a number.
    assert int(run(np.ones(2, "f"), lambda x: jnp.sum(x) * np.nan, method="BFGS").status) != 0


@pytest.mark.parametrize("method", ["BFGS", "l-bfgs-experimental-do-not-rely-on-this"])
def test_minima_of_half_precision_are_those_of_float32_rounded(method):
    def f(x):
        return jnp.sum((x - 1.5) ** 4 + x * x)

    found, wide = (minimize(f, jnp.asarray([0.3, -1.0, 2.0], d), method=method) for d in ("float16", "float32"))
    assert found.x.dtype == found.fun.dtype == np.float16 and found.success == wide.success
    np.testing.assert_allclose(found.x, wide.x, rtol=2e-3)


def test_minima_of_complex_vectors():
    """By L-BFGS; the gradient is that of JAX, the conjugate of the direction of ascent."""
    wanted, method = np.array([1 + 2j, -3j], np.complex64), "l-bfgs-experimental-do-not-rely-on-this"

    def loss(z):
        return jnp.sum(jnp.abs(z - wanted) ** 2 * np.array([1, 3], np.float32))

    found = minimize(loss, jnp.zeros(2, jnp.complex64), method=method)
    np.testing.assert_allclose(found.x, wanted, atol=1e-3)
    np.testing.assert_allclose(found.jac, tw.grad(loss)(found.x), atol=1e-5)
