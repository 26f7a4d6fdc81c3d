"""`odeint` against SciPy, closed forms and finite differences."""

import functools

import numpy as np
import pytest
import scipy.integrate

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import numpy as jnp
from tilewright.core.support.errors import (
    ArgumentTypeError,
    ControlFlowTypeError,
    DifferentiationError,
    DtypeError,
    NonArrayArgumentError,
    ShapeError,
)
from tilewright.experimental.ode import odeint

TIMES = np.linspace(0.0, 3.0, 7)


@pytest.fixture
def wide():
    with tw.config(enable_x64=True):
        yield


def pendulum(xp, y, t, damping, pull):
    return xp.stack([y[1], -damping * y[1] - pull * xp.sin(y[0]) + 0.1 * t])


def swing(y0, ts, damping, pull):
    """In a pytree, with one argument closed over."""

    def func(y, t, damping, number):
        found = pendulum(jnp, jnp.stack([y["angle"], y["speed"]]), t, damping, pull)
        return {"angle": found[0], "speed": found[1]}

    found = odeint(func, {"angle": y0[0], "speed": y0[1]}, ts, damping, 3)  # an integer is an argument like others
    return jnp.stack([found["angle"], found["speed"]], -1)


def test_values_and_all_derivatives(wide):
    args = np.array([3.0, 0.0]), TIMES, 0.25, 9.8
    f = functools.partial(by_numpy, swing)
    expected = scipy.integrate.solve_ivp(
        lambda t, y: pendulum(np, y, t, 0.25, 9.8), (0, 3), args[0], t_eval=TIMES, rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(f(*args), expected.y.T, atol=2e-6)

    def loss(*args):
        return jnp.sum(jnp.cos(swing(*args)) * np.arange(1.0, 8.0)[:, None])

    found = by_numpy(tw.grad(loss, (0, 1, 2, 3)), *args)
    whole = tw.jit(loss)
    for i, g in enumerate(found):
        steps = 1e-4 * np.eye(np.size(args[i])).reshape(-1, *np.shape(args[i]))
        moved = [[(*args[:i], args[i] + s * d, *args[i + 1 :]) for s in (1, -1)] for d in steps]
        slopes = [(whole(*up) - whole(*down)) / 2e-4 for up, down in moved]
        np.testing.assert_allclose(np.ravel(g), slopes, rtol=1e-4, atol=1e-4)


def test_complex_values_batches_and_second_derivatives(wide):
    ts = np.array([0.0, 1.0, 2.0])

    def end(w, y0):
        return odeint(lambda y, t: 1j * w * y, y0 + 0j, ts)[-1]

    y0 = np.array([1.0, 2.0])
    found = by_numpy(tw.vmap(end, in_axes=(None, 0)), 0.5, y0)
    np.testing.assert_allclose(found, y0 * np.exp(1j), rtol=1e-6)
    real = lambda w: jnp.real(end(w, 1.0))  # noqa: E731
    np.testing.assert_allclose(by_numpy(tw.grad(real), 0.5), -2 * np.sin(1.0), rtol=1e-5)
    grow = lambda w: odeint(lambda y, t: w * y, 1.0, ts[:2])[-1]  # noqa: E731
    np.testing.assert_allclose(by_numpy(tw.grad(tw.grad(grow)), 0.5), np.exp(0.5), rtol=1e-5)
    with pytest.raises(DifferentiationError, match="custom_vjp"):
        tw.jvp(grow, (0.5,), (1.0,))


def test_single_precision_one_time_and_limits():
    found = odeint(lambda y, t: -y, np.float32(1), np.array([0, 1, 2], "f"))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, np.exp([0, -1, -2]), rtol=1e-5)
    np.testing.assert_array_equal(odeint(lambda y, t: -y, np.ones(2, "f"), np.zeros(1, "f")), np.ones((1, 2)))
    few = odeint(lambda y, t: -1000 * y, 1.0, np.array([0, 1], "f"), mxstep=3)
    assert float(few[0]) == 1 and np.isnan(few[1])  # not reached
    np.testing.assert_allclose(odeint(lambda y, t: t, 0.0, np.array([0, 1], "f"), hmax=0.01)[1], 0.5, rtol=1e-5)


@pytest.mark.parametrize("error, text, call", [
    (DtypeError, "times of dtype int32", lambda: odeint(lambda y, t: y, 1.0, np.arange(3))),
    (ShapeError, "times of shape", lambda: odeint(lambda y, t: y, 1.0, np.ones((2, 2), "f"))),
    (DtypeError, "y0 of dtype int32", lambda: odeint(lambda y, t: y, 1, np.ones(2, "f"))),
    (ControlFlowTypeError, "what func gives", lambda: odeint(lambda y, t: (y, y), 1.0, np.ones(2, "f"))),
    (ControlFlowTypeError, "what func gives", lambda: odeint(lambda y, t: y.T, np.ones((2, 3), "f"), np.ones(2, "f"))),
    (NonArrayArgumentError, "str", lambda: odeint(lambda y, t, a: y, 1.0, np.ones(2, "f"), "a")),
    (ArgumentTypeError, "function", lambda: odeint(3, 1.0, np.ones(2, "f"))),
])  # fmt: skip
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)


def test_slopes_in_another_structure_and_numpys_cotangents():
    """A list of two numbers is a slope of a vector."""
    y0, ts, ct = np.array([0.3, 0.1], "f"), np.array([0.0, 0.1], "f"), np.ones((2, 2), "f")

    def pulled(func):
        values, pullback = tw.vjp(lambda y: odeint(func, y, ts, rtol=1e-3), y0)
        return values, pullback(ct)[0]

    found = by_numpy(lambda: pulled(lambda y, t: [y[1], -y[0]]))
    expected = by_numpy(lambda: pulled(lambda y, t: jnp.stack([y[1], -y[0]])))
    np.testing.assert_allclose(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1])
