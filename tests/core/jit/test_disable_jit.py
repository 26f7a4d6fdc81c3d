"""`disable_jit`: what is computed step by step is what the compiled program computes, in-place changes included."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp


def increased(x):
    """Add in place where the argument allows it."""
    x += 1
    return x


def grown(carry, _=None):
    x, y = carry
    x += 1
    return x, y + x


@tw.custom_jvp
def with_jvp(x):
    return increased(x) * x


with_jvp.defjvp(lambda primals, tangents: (with_jvp(*primals), 2 * primals[0] * tangents[0]))


@tw.custom_vjp
def with_vjp(x):
    return increased(x) * x


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (2 * x * ct,))

with_vmap = tw.custom_batching.custom_vmap(increased)
with_vmap.def_vmap(lambda size, batched, x: (with_vmap(x), batched[0]))
with_remat = tw.custom_remat(increased, lambda _, x: (x, x), lambda kept, x: (x, kept), lambda kept, ct: (ct,))

IN_PLACE = {
    "jit": lambda x: tw.jit(increased)(x) + x,
    "jit-keyword": lambda x: tw.jit(lambda *, y: increased(y))(y=x) + x,
    "jit-static": lambda x: tw.jit(lambda n, y: increased(y) * n, static_argnums=0)(2, x) + x,
    "jit-tree": lambda x: tw.jit(lambda d: [increased(d["y"]), d["z"]])({"y": x, "z": x}),
    "while": lambda x: lax.while_loop(lambda c: c[0].sum() < 50, grown, (x, x)),
    "fori": lambda x: lax.fori_loop(0, 4, lambda i, c: grown(c), (x, x)),
    "fori-counter": lambda x: lax.fori_loop(0, 4, lambda i, c: increased(i) + c * i, x),
    "fori-traced": lambda x: lax.fori_loop(0, tnp.int32(4), lambda i, c: grown(c), (x, x)),
    "scan": lambda x: lax.scan(lambda c, y: (grown(c), increased(y)), (x, x), x),
    "scan-returned": lambda x: lax.scan(lambda c, _: (grown(c), (c[0], c[1])), (x, x), length=3, reverse=True),
    "cond": lambda x: [lax.cond(x[0] > 0, increased, lambda y: y, x), lax.cond(True, lambda y: y, increased, x), x],
    "switch": lambda x: [lax.switch(1, [lambda y: y, increased], x), lax.switch(0, [increased], x), x],
    "map": lambda x: [lax.map(increased, x), x],
    "associative-scan": lambda x: [lax.associative_scan(lambda a, b: increased(a) + b, x), x],
    "grad": lambda x: [tw.grad(lambda y: tnp.sum(tw.jit(increased)(y) ** 2))(x), x],
    "vmap": lambda x: [tw.vmap(increased)(x), x],
    "checkpoint": lambda x: [tw.checkpoint(increased)(x), x],
    "custom-vmap": lambda x: [with_vmap(x), x],
    "custom-remat": lambda x: [with_remat(x), x],
    "custom-jvp": lambda x: [with_jvp(x), tw.jvp(with_jvp, (x,), (x,)), x],
    "custom-vjp": lambda x: [with_vjp(x), tw.vjp(with_vjp, x)[1](x), x],
}


def same(found, expected):
    assert tw.tree.structure(found) == tw.tree.structure(expected)
    for a, b in zip(tw.tree.leaves(found), tw.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
        assert np.asarray(a).dtype == np.asarray(b).dtype


@pytest.mark.parametrize("make", [lambda: np.arange(1, 4, dtype="f"), lambda: np.ones(2)], ids=["f32", "f64"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_arrays_of_the_caller_stay(name, make):
    mine = make()
    expected = tw.tree.map(np.array, IN_PLACE[name](mine))
    np.testing.assert_array_equal(mine, make())
    with tw.disable_jit():
        found = IN_PLACE[name](mine)
    np.testing.assert_array_equal(mine, make())
    same(found, expected)


def through_loops(ref, x):
    def turn(c, y):
        ref[0] += y
        return c * ref[0], ref[...]

    found = lax.scan(turn, 1.0, x)
    lax.fori_loop(0, 2, lambda i, _: ref.set(ref[i] * x[2], i), None)
    n = lax.while_loop(lambda n: ref[1] < 20, lambda n: (ref.addupdate(3.0, 1), n + 1)[1], 0)
    return found, n


def through_branches(ref, x):
    def double():
        ref[...] *= 2
        return ref[0]

    a = lax.cond(x[0] > 0, double, lambda: ref[1])
    b = lax.cond(ref[0] > 100, double, lambda: ref.swap(x[0], 2))
    lax.switch(tnp.int32(1), [lambda: None, lambda: ref.addupdate(x, ...)])
    return a, b


def through_functions(ref, x):
    @tw.jit
    def scaled(r, y):
        r[...] = r[...] * y
        inner = tw.new_ref(y)
        lax.fori_loop(0, 3, lambda i, _: inner.addupdate(r[i]), None)
        return tw.freeze(inner), r[0]

    found = scaled(ref, x[1]), scaled(ref, x[2])
    tw.checkpoint(lambda y: ref.addupdate(tnp.cos(y), 0))(x[1])
    return found, tw.jit(lambda: (ref.swap(x), ref[1]))()


def under_vmap(ref, x):
    def f(y):
        seen = tw.new_ref(y)
        lax.fori_loop(0, 3, lambda i, _: seen.addupdate(ref[i] * y), None)
        n = lax.while_loop(lambda n: seen[...] < 50, lambda n: (seen.addupdate(10.0), n + 1)[1], 0)
        lax.cond(y > 1, lambda: seen.set(seen[...] * y), lambda: None)
        return seen[...], n

    return tw.vmap(f)(x)


def batched_late(ref, x):
    """A loop whose carry is batched after its first iteration: from there on no one truth value is known."""

    def f(y):
        count = tw.new_ref(0.0)

        def turn(c):
            count[...] += ref[0]
            return c + y

        return lax.while_loop(lambda c: c < 4, turn, tnp.float32(0)), count[...]

    return tw.vmap(f)(x)


def under_grad(ref, x):
    def f(y):
        seen = tw.new_ref(tnp.zeros(3))

        def turn(c, v):
            seen[0] = seen[0] * c + v * ref[0]
            lax.cond(c > 2, lambda: seen.set(c * v, 1), lambda: None)
            return c + v, seen[0]

        c, ys = lax.scan(turn, y[0], y)
        tw.jit(lambda r: r.set(r[0] * c, 2))(seen)
        return tnp.sum(seen[...] ** 2) + tnp.sum(ys)

    return tw.value_and_grad(f)(x), tw.jacfwd(f)(x)


PROGRAMS = [through_loops, through_branches, through_functions, under_vmap, batched_late, under_grad]


@pytest.mark.law
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("wrap", [
    lambda f: f, tw.jit, lambda f: lambda ref, x: tw.jit(lambda: f(ref, x))(),
    lambda f: lambda ref, x: lax.cond(x[0] > 0, lambda: f(ref, x), lambda: f(ref, x)),
    lambda f: lambda ref, x: lax.scan(lambda c, _: (c + 1, f(ref, x)), 0, length=2),
    lambda f: lambda ref, x: tw.checkpoint(lambda y: f(ref, y))(x),
], ids=["plain", "jit", "closure", "cond", "scan", "checkpoint"])  # fmt: skip
@pytest.mark.parametrize("numpy", [False, True], ids=["arrays", "numpy"])
def test_refs_as_compiled(program, wrap, numpy):
    def run():
        x = np.array([1.0, 2.0, 3.0], "f")
        ref = tw.new_ref(np.array([1.0, 2.0, 4.0], "f"))
        found = wrap(program)(ref, x if numpy else tnp.asarray(x))
        return found, ref[...]

    expected = run()
    with tw.disable_jit():
        found = run()
    same(found, expected)
