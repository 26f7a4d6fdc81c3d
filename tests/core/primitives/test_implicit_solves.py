"""Implicit solves: derivatives of systems and roots, whatever the solver does."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import ArgumentTypeError, ControlFlowTypeError, DifferentiationError
from tilewright.numpy import linalg

RNG = np.random.default_rng(0)
A = (RNG.standard_normal((4, 4)) + 3 * np.eye(4)).astype("float32")
B = RNG.standard_normal(4).astype("float32")


def loop(matvec, b):
    """Jacobi's iteration: a loop of unknown length, which has no reverse mode of its own."""
    step = 0.15

    def turn(x):
        return x - step * (matvec(x) - b)

    return lax.while_loop(lambda x: tnp.max(abs(matvec(x) - b)) > 1e-6, turn, b * 0)


def solved(a, b):
    """The system in a pytree of two vectors."""
    a = a @ a.T + tnp.eye(4)
    parts = {"x": b[:1], "y": b[1:]}

    def matvec(v):
        found = a @ tnp.concatenate([v["x"], v["y"]])
        return {"x": found[:1], "y": found[1:]}

    def solve(f, right):
        flat = loop(lambda v: tnp.concatenate(list(f({"x": v[:1], "y": v[1:]}).values())) / 4,
                    tnp.concatenate([right["x"], right["y"]]) / 4)  # fmt: skip
        return {"x": flat[:1], "y": flat[1:]}

    found = lax.custom_linear_solve(matvec, parts, solve, solve)
    return tnp.concatenate([found["x"], found["y"]])


def dense(a, b):
    return linalg.solve(a @ a.T + tnp.eye(4), b)


def direct(a, b, **options):
    """A general system by a factorisation outside of the operator."""
    return lax.custom_linear_solve(
        lambda x: a @ x, b, lambda _, b: linalg.solve(a, b), lambda _, b: linalg.solve(a.T, b), **options
    )


def close(found, expected, tolerance=1e-4):
    for f, e in zip(tw.tree.leaves(found), tw.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(f, e, rtol=tolerance, atol=tolerance * max(1, abs(np.asarray(e)).max()))


def test_values_and_derivatives_are_those_of_the_system():
    small = A / 4
    t = RNG.standard_normal((4, 4)).astype("float32"), B[::-1].copy()

    def everything(f):
        def loss(a, b):
            return tnp.sum(tnp.sin(f(a, b)))

        return f(small, B), tw.jvp(f, (small, B), t), tw.grad(loss, (0, 1))(small, B)

    close(by_numpy(lambda: everything(solved)), by_numpy(lambda: everything(dense)), 1e-3)
    np.testing.assert_allclose(tw.jit(solved)(small, B), dense(small, B), rtol=1e-3)


def test_second_derivatives_and_batches():
    def loss(f):
        return lambda a, b: tnp.sum(tnp.sin(f(a, b)))

    second = [by_numpy(tw.hessian(loss(f), (0, 1)), A[:2, :2], B[:2]) for f in (direct, linalg.solve)]
    close(*second, 1e-3)
    many, right = np.stack([A, A.T]), np.stack([B, -B])
    for axes in ((0, 0), (None, 0)):
        args = [x if d == 0 else x[0] for x, d in zip((many, right), axes, strict=True)]
        close(*(
            by_numpy(tw.vmap(tw.value_and_grad(loss(f), (0, 1)), in_axes=axes), *args) for f in (direct, linalg.solve)
        ))  # fmt: skip


def test_auxiliary_values_of_a_solve():
    def f(b):
        solve = lambda _, b: (linalg.solve(A, b), {"steps": 3})  # noqa: E731
        back = lambda _, b: (linalg.solve(A.T, b), None)  # noqa: E731
        return lax.custom_linear_solve(lambda x: A @ x, b, solve, back, has_aux=True)

    x, aux = tw.jit(f)(B)
    assert int(aux["steps"]) == 3
    close(x, np.linalg.solve(A, B))
    close(tw.grad(lambda b: tnp.sum(f(b)[0] ** 2))(B), tw.grad(lambda b: tnp.sum(linalg.solve(A, b) ** 2))(B))


def test_symmetric_needs_no_transpose_and_forward_mode_none_at_all():
    spd = A @ A.T
    one = lambda b: lax.custom_linear_solve(lambda x: spd @ x, b, lambda _, b: linalg.solve(spd, b))  # noqa: E731
    close(tw.jvp(one, (B,), (B,))[1], np.linalg.solve(spd, B))
    with pytest.raises(DifferentiationError, match="without `transpose_solve`"):
        tw.grad(lambda b: tnp.sum(one(b)))(B)
    both = lambda b: lax.custom_linear_solve(  # noqa: E731
        lambda x: spd @ x, b, lambda _, b: linalg.solve(spd, b), symmetric=True
    )
    close(tw.grad(lambda b: tnp.sum(both(b)))(B), np.linalg.solve(spd, np.ones(4)), 1e-3)


def root(a, b):
    """x with x + a x^3 = b, elementwise, by Newton's method."""

    def solve(f, x):
        return lax.while_loop(lambda x: tnp.max(abs(f(x))) > 1e-6, lambda x: x - f(x) / (1 + 3 * a * x * x), x)

    def tangent_solve(g, y):
        return y / g(tnp.ones_like(y))  # g is diagonal

    return lax.custom_root(lambda x: x + a * x**3 - b, tnp.zeros_like(b), solve, tangent_solve)


def test_roots_and_their_derivatives():
    a, b = np.float32(0.7), np.array([0.5, 2.0, -1.0], "float32")
    x = root(a, b)
    close(x + a * x**3, b)
    slope = 1 / (1 + 3 * a * x * x)
    close(by_numpy(tw.jacfwd(root, (0, 1)), a, b), (-(x**3) * slope, np.diag(slope)))
    close(tw.jit(tw.jacrev(root, (0, 1)))(a, b), (-(x**3) * slope, np.diag(slope)))
    close(by_numpy(tw.grad(tw.grad(lambda b: root(a, b[None])[0])), b[0]), (-6 * a * x * slope**3)[0])
    many = np.array([0.1, 0.7], "float32")
    close(by_numpy(tw.vmap(root, in_axes=(0, None)), many, b), np.stack([by_numpy(root, v, b) for v in many]))
    close(by_numpy(tw.vmap(tw.grad(lambda a: tnp.sum(root(a, b)))), many)[1], tnp.sum(-(x**3) * slope))


def test_the_solve_of_a_roots_derivative_may_close_over_traced_values():
    def f(a):  # 6 / a
        return lax.custom_root(lambda x: a * x - 6, 1.0, lambda f, x: 6 / a, lambda g, y: y / a)

    assert [float(tw.grad(f)(2.0)), float(tw.grad(tw.grad(f))(2.0))] == [-1.5, 1.5]


def test_a_root_with_auxiliary_values_and_a_pytree():
    def f(c):
        solve = lambda f, x: ({"x": x["x"] * 0 + c / 2}, 5)  # noqa: E731
        return lax.custom_root(lambda x: {"x": 2 * x["x"] - c}, {"x": 0.0}, solve, lambda g, y: {"x": y["x"] / 2}, True)

    x, aux = f(3.0)
    assert float(x["x"]) == 1.5 and int(aux) == 5
    assert float(tw.grad(lambda c: f(c)[0]["x"])(3.0)) == 0.5


@pytest.mark.parametrize("error, text, call", [
    (ControlFlowTypeError, "b.* and what matvec gives", lambda: lax.custom_linear_solve(lambda x: x[:2], B, loop)),
    (ControlFlowTypeError, "solve", lambda: lax.custom_linear_solve(lambda x: x, B, lambda f, b: (b, b))),
    (ArgumentTypeError, "has_aux", lambda: lax.custom_linear_solve(lambda x: x, B, lambda f, b: b, has_aux=True)),
    (ArgumentTypeError, "solve=3", lambda: lax.custom_linear_solve(lambda x: x, B, 3)),
    (ControlFlowTypeError, "f gives", lambda: lax.custom_root(lambda x: (x, x), 1.0, lambda f, x: x, None or loop)),
    (ArgumentTypeError, "f=2", lambda: lax.custom_root(2, 1.0, lambda f, x: x, lambda g, y: y)),
])  # fmt: skip
def test_errors_name_the_function(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)
