"""Primitives that clients define as classes (`hijax.HiPrim`): every rule under every transformation."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as jnp
from tilewright.as_jax.jax.experimental import hijax
from tilewright.core.support.errors import ArgumentTypeError, UnsupportedError
from tilewright.core.tracing.trace import typeof

X, Y = np.float32(0.7), np.float32(-1.3)
XS = np.array([0.3, -1.2, 2.0], np.float32)


def plain(x, y):
    return jnp.sin(x) * y


class SinTimes(hijax.HiPrim):
    """sin(x) * y with all its rules written by hand; a dict as a parameter's and a tuple as an argument's tree."""

    def __init__(self, x_aval, y_aval):
        self.in_avals = (x_aval, {"y": y_aval})
        self.out_aval = {"out": x_aval}
        self.params = {}
        super().__init__()

    def expand(self, x, tree):
        return {"out": plain(x, tree["y"])}

    def vjp_fwd(self, nzs_in, x, tree):
        assert nzs_in[1].keys() == {"y"}
        return self(x, tree), (x, tree["y"])

    def vjp_bwd_retval(self, res, g):
        x, y = res
        return jnp.cos(x) * g["out"] * y, {"y": jnp.sin(x) * g["out"]}

    def jvp(self, primals, tangents):
        (x, tree), (dx, dtree) = primals, tangents
        dx, dy = hijax.instantiate_zeros(dx), hijax.instantiate_zeros(dtree["y"])
        return self(x, tree), {"out": jnp.cos(x) * dx * tree["y"] + jnp.sin(x) * dy}

    def batch_dim_rule(self, axis_data, in_dims):
        x, tree = in_dims
        return {"out": tree["y"] if x is None else x}


class FromJVP(SinTimes):
    lin, linearized = hijax.linearize_from_jvp
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_lin


class Recomputing(FromJVP):
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp


class FromLin(SinTimes):
    def lin(self, nzs_in, x, tree):
        return self(x, tree), (jnp.cos(x) * tree["y"], jnp.sin(x))

    def linearized(self, res, dx, dtree):
        dx, dy = hijax.instantiate_zeros(dx), hijax.instantiate_zeros(dtree["y"])
        return {"out": res[0] * dx + res[1] * dy}

    jvp = hijax.jvp_from_lin
    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_lin


def function(cls):
    return lambda x, y: cls(typeof(x), typeof(y))(x, {"y": y})["out"]


def same(found, expected):
    for a, b in zip(tw.tree.leaves(found), tw.tree.leaves(expected), strict=True):
        assert np.allclose(a, b, rtol=2e-5, atol=1e-6)


def summed(f):
    def along(x, ys):
        return lax.scan(lambda c, y: (f(c, y), f(y, c)), x, ys)

    return lambda x, ys: along(x, ys)[0] + jnp.sum(along(x, ys)[1])


def chosen(f):
    return lambda x, y: lax.cond(x > 0, lambda: f(x, y), lambda: f(y, x))


TRANSFORMED = {
    "itself": lambda f: f(X, Y),
    "jit": lambda f: tw.jit(f)(X, Y),
    "grad": lambda f: tw.grad(f, (0, 1))(X, Y),
    "grad of one": lambda f: (tw.grad(f)(X, Y), tw.grad(f, 1)(X, Y)),
    "jit of grad": lambda f: tw.jit(tw.grad(tw.jit(f), (0, 1)))(X, Y),
    "vjp": lambda f: tw.vjp(f, X, Y)[1](np.float32(2.0)),
    "jvp": lambda f: tw.jvp(f, (X, Y), (np.float32(1.0), np.float32(0.5))),
    "grad of grad": lambda f: tw.grad(tw.grad(f))(X, Y),
    "hessian": lambda f: tw.hessian(f, (0, 1))(X, Y),
    "vmap": lambda f: tw.vmap(f)(XS, XS[::-1].copy()),
    "vmap of one": lambda f: (tw.vmap(f, (0, None))(XS, Y), tw.vmap(f, (None, 0))(X, XS)),
    "vmap of vmap": lambda f: tw.vmap(tw.vmap(f, (None, 0)), (0, None))(XS, XS),
    "vmap of grad": lambda f: tw.vmap(tw.grad(f, (0, 1)), (0, None))(XS, Y),
    "grad of vmap": lambda f: tw.grad(lambda x, y: jnp.sum(tw.vmap(f, (0, None))(x, y)), (0, 1))(XS, Y),
    "jvp of vmap": lambda f: tw.jvp(tw.vmap(f, (None, 0)), (X, XS), (np.float32(1.0), XS)),
    "scan": lambda f: summed(f)(X, XS),
    "grad of scan": lambda f: tw.grad(summed(f), (0, 1))(X, XS),
    "grad of cond": lambda f: tw.jit(tw.grad(chosen(f), (0, 1)))(X, Y),
    "grad of checkpoint": lambda f: tw.grad(tw.checkpoint(f), (0, 1))(X, Y),
}


@pytest.mark.law
@pytest.mark.parametrize("cls", [SinTimes, FromJVP, Recomputing, FromLin])
@pytest.mark.parametrize("name", TRANSFORMED)
def test_the_rules_of_a_primitive_under(name, cls):
    same(TRANSFORMED[name](function(cls)), TRANSFORMED[name](plain))


LINEARIZED = {
    "linearize": lambda f: tw.linearize(f, X, Y)[1](np.float32(1.0), np.float32(0.5)),
    "of jit": lambda f: tw.linearize(tw.jit(f), X, Y)[1](np.float32(1.0), np.float32(0.5)),
    "of scan": lambda f: tw.linearize(lambda x: summed(f)(x, XS), X)[1](np.float32(1.0)),
    "of cond": lambda f: tw.linearize(chosen(f), X, Y)[1](np.float32(1.0), np.float32(0.5)),
    "of vmap": lambda f: tw.linearize(tw.vmap(f), XS, XS)[1](XS, XS),
}


@pytest.mark.parametrize("cls", [FromJVP, FromLin])
@pytest.mark.parametrize("name", LINEARIZED)
def test_linearize_asks_for_the_rules_of_linearize(name, cls):
    same(LINEARIZED[name](function(cls)), LINEARIZED[name](plain))


def test_the_two_linear_maps_of_a_primitive_are_kept_apart():
    class Differing(FromLin):
        def vjp_fwd(self, nzs_in, x, tree):
            return self(x, tree), ()

        def vjp_bwd_retval(self, res, g):
            return 7 * g["out"], None

    def scanned(f):
        return lambda x, y: lax.scan(lambda c, _: (f(c, y), ()), x, None, length=1)[0]

    for around in (lambda f: f, tw.jit, chosen, scanned, tw.checkpoint):
        f = tw.jit(around(function(Differing)))
        assert float(tw.grad(f)(X, Y)) == 7
        assert np.isclose(tw.linearize(lambda x: f(x, Y), X)[1](np.float32(1)), np.cos(X) * Y)  # noqa: B023
        assert float(tw.grad(f)(X, Y)) == 7


class Scaled(hijax.HiPrim):
    """factor * x; linear."""

    def __init__(self, aval, factor):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"factor": factor}
        super().__init__()

    def expand(self, x):
        return self.factor * x

    def transpose(self, out_ct, accum):
        accum.accum(Scaled(self.out_aval, self.factor)(out_ct))


def test_a_linear_primitive_is_transposed_by_its_own_rule():
    scaled = lambda x: Scaled(typeof(x), 3.0)(x)  # noqa: E731
    assert float(tw.linear_transpose(lambda x: scaled(scaled(x)), X)(np.float32(2.0))[0]) == 18
    assert "Scaled" in str(tw.make_jaxpr(scaled)(X))


def test_expand_sees_values_where_nothing_is_traced():
    class Signed(hijax.HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return x if x > 0 else -2 * x

        def vjp_fwd(self, nzs_in, x):
            return self(x), x, True

        def vjp_bwd(self, x, g, accum):
            assert isinstance(accum, hijax.ValAccum) and accum.aval == typeof(X)
            accum.accum(g if x > 0 else -2 * g)

    f = lambda x: Signed(typeof(x))(x)  # noqa: E731
    assert [float(f(jnp.asarray(v))) for v in (X, Y)] == [X, -2 * Y]
    assert [float(tw.grad(f)(v)) for v in (X, Y)] == [1, -2]


class Split(hijax.HiPrim):
    """x -> (x, x rounded): the second result has no tangent."""

    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), (aval, aval), {}
        super().__init__()

    def expand(self, x):
        return x, jnp.round(x)

    def vjp_fwd(self, nzs_in, x):
        return self(x), (), (True, False)

    def vjp_bwd_retval(self, res, g):
        assert type(g[1]) is hijax.Zero
        return (g[0],)

    def dce(self, used):
        return (True,), used, First(self.in_avals[0]) if used == (True, False) else self


class First(hijax.HiPrim):
    def __init__(self, aval):
        self.in_avals, self.out_aval, self.params = (aval,), (aval,), {}
        super().__init__()

    def expand(self, x):
        return (x,)


def test_results_without_tangents_and_results_that_nothing_uses():
    f = lambda x: Split(typeof(x))(x)  # noqa: E731
    assert float(tw.grad(lambda x: f(x)[0] + 5 * f(x)[1])(X)) == 1
    program = tw.compile(tw.jit(lambda x: f(x)[0]), X, stop="transform")
    assert [eqn.params["_prim"] for eqn in program.eqns] == [First(typeof(X))]


def test_errors_of_primitives_of_clients():
    with pytest.raises(ArgumentTypeError, match="was made for f32"):
        SinTimes(typeof(X), typeof(Y))(XS, {"y": Y})
    f = lambda x: First(typeof(x))(x)[0]  # noqa: E731
    for transformed in (tw.grad(f), lambda x: tw.vmap(f)(XS), lambda x: tw.jvp(f, (x,), (x,))):
        with pytest.raises(UnsupportedError, match="First has no"):
            transformed(X)
    with pytest.raises(ArgumentTypeError, match="write one of them"):
        tw.jvp(function(type("Circle", (FromJVP,), {"jvp": hijax.jvp_from_lin})), (X, Y), (X, Y))
    with pytest.raises(AttributeError, match="did not set `self.in_avals`"):
        hijax.HiPrim()
