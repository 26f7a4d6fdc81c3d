"""Batching rules of the user's own."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentTypeError,
    BatchAxisError,
    DifferentiationError,
    UnboundAxisError,
    UnsupportedError,
)
from tilewright.custom_batching import custom_vmap, sequential_vmap

X, Y = np.arange(3, dtype="float32"), np.arange(2, 5, dtype="float32")


def marked(seen):
    """x sin(y), whose rule notes how it is called and doubles what it gives."""

    @custom_vmap
    def f(x, y=2.0):
        return {"out": x * tnp.sin(y), "y": y}

    @f.def_vmap
    def rule(axis_size, in_batched, x, y):
        seen.append((axis_size, in_batched))
        out = f(x, y)
        return {"out": 2 * out["out"], "y": y}, {"out": any(in_batched), "y": in_batched[1]}

    return f


def test_the_rule_runs_under_vmap_only():
    seen = []
    f = marked(seen)
    assert float(f(2.0)["out"]) == pytest.approx(2 * np.sin(2)) and f(2.0, y=3.0)["y"] == 3.0
    assert float(tw.jit(f)(2.0, 3.0)["out"]) == pytest.approx(2 * np.sin(3)) and not seen
    for call in (tw.vmap(f), tw.jit(tw.vmap(f)), tw.vmap(tw.jit(f))):
        np.testing.assert_allclose(call(X, Y)["out"], 2 * X * np.sin(Y), rtol=1e-6)
    assert seen == [(3, [True, True])] * 3
    out = tw.vmap(f, in_axes=(0, None), out_axes={"out": 0, "y": None})(X, Y[0])
    np.testing.assert_allclose(out["out"], 2 * X * np.sin(Y[0]), rtol=1e-6)
    assert seen[-1] == (3, [True, False]) and out["y"].shape == ()
    twice = tw.vmap(tw.vmap(f))(X[None] * Y[:, None], Y[None] * np.ones((3, 1), "f"))["out"]
    np.testing.assert_allclose(twice, 4 * X * Y[:, None] * np.sin(Y), rtol=1e-6)


def test_forward_mode_differentiates_function_and_rule():
    f = lambda x, y: marked([])(x, y)["out"]  # noqa: E731
    tangent = tw.jvp(f, (X[2], Y[2]), (X[1], Y[1]))[1]
    expected = X[1] * np.sin(Y[2]) + X[2] * np.cos(Y[2]) * Y[1]
    np.testing.assert_allclose(tangent, expected, rtol=1e-6)
    np.testing.assert_allclose(tw.linearize(f, X[2], Y[2])[1](X[1], Y[1]), expected, rtol=1e-6)
    by_y = tw.vmap(lambda x, y, t: tw.jvp(lambda y: f(x, y), (y,), (t,)), in_axes=(None, None, 0))
    out, tangent = by_y(X[2], Y[2], X)  # only the tangent is batched
    np.testing.assert_allclose(out, 2 * X[2] * np.sin(Y[2]) * np.ones(3), rtol=1e-6)
    np.testing.assert_allclose(tangent, 2 * X[2] * np.cos(Y[2]) * X, rtol=1e-6)
    by_x = tw.jit(tw.vmap(tw.jacfwd(f), in_axes=(0, None)))(X, Y[1])
    np.testing.assert_allclose(by_x, 4 * np.sin(Y[1]) * np.ones(3), rtol=1e-6)  # batched twice
    with pytest.raises(DifferentiationError, match="custom_vmap.*\n.*\n.*custom_vjp"):
        tw.grad(f)(2.0, 3.0)


def test_reverse_mode_by_a_custom_vjp_around_it():
    inner = marked([])

    @tw.custom_vjp
    def f(x, y):
        return inner(x, y)["out"]

    f.defvjp(lambda x, y: (f(x, y), (x, y)), lambda res, ct: (tnp.sin(res[1]) * ct, None))
    np.testing.assert_allclose(tw.vmap(tw.grad(f))(X, Y), np.sin(Y), rtol=1e-6)


def test_sequential():
    sizes = []

    @sequential_vmap
    def f(tree, y):
        sizes.append(tnp.shape(tree["x"]))
        return {"z": tree["x"] * y, "n": tree["n"]}

    many = {"x": np.ones((3, 2), "f") * X[:, None], "n": np.int32(4)}
    found = tw.vmap(f, in_axes=({"x": 0, "n": None}, None))(many, Y[:2])
    np.testing.assert_array_equal(found["z"], many["x"] * Y[:2])
    np.testing.assert_array_equal(found["n"], [4, 4, 4])
    assert set(sizes) == {(2,)}
    text = str(tw.make_jaxpr(tw.vmap(sequential_vmap(tnp.sin)))(X))
    assert "scan" in text
    tangent = tw.vmap(lambda x: tw.jvp(sequential_vmap(tnp.sin), (x,), (1.0,))[1])(X)
    np.testing.assert_allclose(tangent, np.cos(X), rtol=1e-6)


@pytest.mark.parametrize("name", [None, "i"])
def test_a_rule_is_outside_of_the_axis_that_it_is_given_whole(name):
    f = custom_vmap(lambda x: lax.psum(x, "i"))
    f.def_vmap(lambda axis_size, in_batched, x: (tw.vmap(f.fun, axis_name=name)(x), True))
    if name is None:
        with pytest.raises(UnboundAxisError):
            tw.vmap(f, axis_name="i")(X)
    else:
        np.testing.assert_array_equal(tw.vmap(f, axis_name="i")(X), np.full(3, X.sum()))


def test_errors():
    with pytest.raises(UnsupportedError, match="def_vmap"):
        custom_vmap(lambda x: x)(1.0)

    def ruled(rule, fun=lambda x: x):
        f = custom_vmap(fun)
        f.def_vmap(rule)
        return tw.vmap(f)(X)

    with pytest.raises(ArgumentTypeError, match="returned"):
        ruled(lambda n, b, x: x + 1)
    with pytest.raises(BatchAxisError, match="flags"):
        ruled(lambda n, b, x: (x, (True,)))
    with pytest.raises(BatchAxisError, match="an output"):
        ruled(lambda n, b, x: ((x, x), (True, True)))
    with pytest.raises(BatchAxisError, match="batch axis first"):
        ruled(lambda n, b, x: (x[:2], True))

    def closing(x):
        f = custom_vmap(lambda y: x * y)
        f.def_vmap(lambda n, b, y: (y, True))
        return f(2.0)

    with pytest.raises(UnsupportedError, match="batched value"):
        tw.vmap(closing)(X)
    with pytest.raises(DifferentiationError, match="closes over"):
        tw.jvp(closing, (1.0,), (1.0,))
