"""Types of values that clients define (`hijax.HiType`) under every transformation, against arrays."""

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import tilewright as tw
from tests.support.scaled_type import (
    F32,
    XS,
    Both,
    Leading,
    Scaled,
    ScaledTy,
    X,
    decode,
    encode,
    registered,
    rounded,
    same,
)
from tilewright import lax
from tilewright import numpy as jnp
from tilewright.as_jax.jax.experimental import hijax
from tilewright.core.support.errors import DifferentiationError, OpaqueValueError, UnsupportedError
from tilewright.core.tracing.trace import typeof


@dataclass(frozen=True)
class Pair:
    elements: tuple


@dataclass(frozen=True)
class Each(hijax.MappingSpec):
    dims: tuple


@dataclass(frozen=True)
class PairTy(hijax.HiType):
    """A tuple of values of any types; its tangents are of such a type too."""

    types: tuple

    def lo_ty(self):
        return [lo for t in self.types for lo in t.lo_ty()]

    def lower_val(self, pair):
        return [lo for t, x in zip(self.types, pair.elements, strict=True) for lo in t.lower_val(x)]

    def raise_val(self, *los):
        rest = iter(los)
        return Pair(tuple(t.raise_val(*itertools.islice(rest, len(t.lo_ty()))) for t in self.types))

    def to_tangent_aval(self):
        return PairTy(tuple(t.to_tangent_aval() for t in self.types))

    def vspace_zero(self):
        return pair(*(jnp.zeros(t.shape, t.dtype) for t in self.types))

    def vspace_add(self, x, y):
        return pair(*(element(x, i) + element(y, i) for i in range(len(self.types))))

    def dec_rank(self, size, spec):
        return PairTy(tuple(t.dec_rank(size, d) for t, d in zip(self.types, spec.dims, strict=True)))

    def inc_rank(self, size, spec):
        return PairTy(tuple(t.inc_rank(size, d) for t, d in zip(self.types, spec.dims, strict=True)))


class MakePair(hijax.HiPrim):
    def __init__(self, *avals):
        self.in_avals, self.out_aval, self.params = avals, PairTy(avals), {}
        super().__init__()

    def expand(self, *elements):
        return Pair(elements)

    def vjp_fwd(self, nzs_in, *elements):
        return self(*elements), len(elements)

    def vjp_bwd_retval(self, n, g):
        return tuple(element(g, i) for i in range(n))

    def batch(self, axis, args, dims):
        return pair(*args), Each(tuple(dims))


class Element(hijax.HiPrim):
    def __init__(self, aval, at):
        self.in_avals, self.out_aval, self.params = (aval,), aval.types[at], {"at": at}
        super().__init__()

    def expand(self, given):
        return given.elements[self.at]

    def vjp_fwd(self, nzs_in, given):
        return self(given), ()

    def vjp_bwd_retval(self, res, g):
        types = self.in_avals[0].to_tangent_aval().types
        return (pair(*(g if i == self.at else jnp.zeros(t.shape, t.dtype) for i, t in enumerate(types))),)

    def batch(self, axis, args, dims):
        return element(args[0], self.at), dims[0].dims[self.at]


def pair(*elements):
    return MakePair(*map(typeof, elements))(*elements)


def element(x, at):
    return Element(typeof(x), at)(x)


class Bare:
    pass


@dataclass(frozen=True)
class BareTy(hijax.HiType):
    pass


@pytest.fixture(autouse=True)
def known():
    types = {Pair: lambda x: PairTy(tuple(map(typeof, x.elements))), Bare: lambda x: BareTy()}
    with registered(types):
        yield


def test_values_go_in_and_out_of_jit():
    q = encode(X)
    same(q, rounded(X))
    same(tw.jit(encode)(X), rounded(X))
    assert np.allclose(tw.jit(decode)(q), rounded(X))
    assert np.allclose(tw.jit(lambda x: decode(tw.jit(encode)(x)))(X), rounded(X))
    tree = tw.jit(lambda d: {"same": d["q"], "twice": [2 * d["x"]]})({"q": q, "x": X})
    same(tree["same"], rounded(X))
    assert np.allclose(tree["twice"][0], 2 * X)
    same(tw.jit(lambda: q)(), rounded(X))  # a constant
    assert np.allclose(tw.jit(lambda: decode(q))(), rounded(X))
    same(tw.jit(lambda a, b: Both(typeof(a), typeof(b))(a, b))(q, q), rounded(2 * rounded(X)))
    assert str(typeof(q)) == "q8[2,3]" or typeof(q).show() == "q8[2,3]"
    assert "q8[2,3]" in str(tw.make_jaxpr(lambda x: decode(encode(x)))(X))
    assert tw.eval_shape(encode, X) == ScaledTy((2, 3))


def test_methods_and_properties_of_a_type_are_those_of_traced_values():
    f = tw.jit(lambda q: (q.plus(1.0), q.rows * jnp.ones(()), q + 1.0))
    q, rows, added = f(encode(X))
    same(q, rounded(rounded(X) + 1))
    same(added, rounded(rounded(X) + 1))
    assert rows == 2


def test_tangents_are_of_the_type_that_the_client_says():
    q = encode(X)
    loss = lambda q: jnp.sum(decode(q) ** 2)  # noqa: E731
    for f in (loss, tw.jit(loss), tw.checkpoint(loss)):
        assert np.allclose(tw.grad(f)(q), 2 * rounded(X), rtol=1e-5)
    straight = lambda x: loss(encode(x))  # noqa: E731
    assert np.allclose(tw.jit(tw.grad(straight))(X), 2 * rounded(X), rtol=1e-5)
    value, slope = tw.jvp(straight, (X,), (X,))
    assert np.allclose(slope, np.sum(2 * rounded(X) * X), rtol=1e-5)
    out, pullback = tw.vjp(encode, X)
    same(out, rounded(X))
    assert np.allclose(pullback(X)[0], X)
    with pytest.raises(DifferentiationError, match="cotangent"):
        tw.vjp(decode, q)[1](q)


def test_tangents_of_a_type_of_their_own_are_added_by_it():
    def f(x, p):
        q = pair(x, element(p, 1) * 2.0)
        both = element(q, 0) * element(q, 1)
        return both * element(p, 0) * element(p, 0)

    p = pair(np.float32(3.0), np.float32(5.0))
    dx, dp = tw.grad(f, (0, 1))(np.float32(2.0), p)
    assert np.allclose(dx, 90) and np.allclose(dp.elements, (120, 36))
    dx, dp = tw.jit(tw.grad(f, (0, 1)))(np.float32(2.0), p)
    assert np.allclose(dx, 90) and np.allclose(dp.elements, (120, 36))


def test_vmap_maps_values_as_their_specs_say():
    qs = tw.vmap(encode, out_axes=Leading())(XS)
    same(qs, rounded(XS))
    same(tw.vmap(encode, in_axes=1, out_axes=Leading())(np.moveaxis(XS, 0, 1)), rounded(XS))
    for f in (decode, tw.jit(decode)):
        assert np.allclose(tw.vmap(f, in_axes=Leading(), axis_size=4)(qs), rounded(XS))
    assert np.allclose(tw.vmap(tw.grad(lambda x: jnp.sum(decode(encode(x)) ** 2)))(XS), 2 * rounded(XS), rtol=1e-5)
    p = pair(np.arange(3.0, dtype=F32), np.float32(5.0))
    swapped = tw.vmap(lambda t: pair(element(t, 1), element(t, 0)), in_axes=Each((0, None)), out_axes=Each((None, 0)),
                      axis_size=3)(p)  # fmt: skip
    assert [np.shape(x) for x in swapped.elements] == [(), (3,)]


def test_loops_and_branches_take_values():
    qs = encode(XS)
    total, ys = lax.scan(lambda c, q: (c + decode(q), decode(q)), jnp.zeros((2, 3)), qs, length=4)
    assert np.allclose(total, rounded(XS).sum(0), atol=1e-5) and np.allclose(ys, rounded(XS))

    def step(carry, x):
        return encode(decode(carry) + x), encode(2 * x)

    carry, ys = lax.scan(step, encode(X), XS)
    again = rounded(X)
    for x in XS:
        again = rounded(again + x)
    same(carry, again)
    same(ys, rounded(2 * XS))
    carry, ys = tw.jit(lambda q, xs: lax.scan(step, q, xs))(encode(X), XS)
    same(carry, again)
    doubled = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, encode(2 * decode(c[1]))), (0, encode(X)))[1]
    same(doubled, rounded(8 * X))
    branch = lambda p, q: lax.cond(p, lambda: q, lambda: encode(2 * decode(q)))  # noqa: E731
    same(branch(True, encode(X)), rounded(X))
    same(tw.jit(branch)(False, encode(X)), rounded(2 * X))


def test_derivatives_of_loops_over_values():
    def total(x, qs):
        carry, ys = lax.scan(lambda c, q: (encode(decode(c) + decode(q)), decode(c) * decode(q)), encode(x), qs)
        return jnp.sum(decode(carry)) + jnp.sum(ys)

    qs = encode(XS)
    with pytest.raises(ValueError, match="length"):
        total(X, qs)

    def sized(x, qs):
        carry, _ = lax.scan(lambda c, q: (encode(decode(c) + 2 * decode(q)), ()), encode(x), qs, length=4)
        return jnp.sum(decode(carry))

    for grad in (tw.grad(sized, (0, 1)), tw.jit(tw.grad(sized, (0, 1)))):
        dx, dq = grad(X, qs)
        assert np.allclose(dx, 1) and np.allclose(dq, 2) and dq.shape == XS.shape
    chosen = lambda p, q: jnp.sum(lax.cond(p, lambda: decode(q), lambda: 3 * decode(q)))  # noqa: E731
    assert np.allclose(tw.jit(tw.grad(chosen, 1))(False, encode(X)), 3)


def test_what_a_value_of_a_clients_type_is_not_taken_for():
    q = encode(X)
    with pytest.raises(AttributeError, match="no attribute 'values'"):
        tw.jit(lambda q: q.values)(q)
    with pytest.raises(OpaqueValueError, match="was made of traced arrays"):
        tw.jit(lambda x: Scaled(x, x[..., 0]))(X)
    with pytest.raises(TypeError, match="q8"):
        tw.jit(lambda q: q * 2)(q)
    with pytest.raises(TypeError, match="q8"):
        tw.jit(lambda q: jnp.sin(q))(q)
    with pytest.raises(OpaqueValueError, match="mapped by"):
        tw.vmap(lambda x: q, out_axes=Leading())(XS)
    with pytest.raises(UnsupportedError, match="dec_rank"):
        tw.vmap(lambda p: p, in_axes=Leading(), out_axes=Leading(), axis_size=2)(Bare())
