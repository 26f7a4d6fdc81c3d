"""Refs outside of kernels: in straight code, loops, branches, `jit`, derivatives and batches, against copied arrays."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as jnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeletedArrayError,
    DifferentiationError,
    LeakedTracerError,
    OutOfBoundsError,
    TracerArrayConversionError,
    TreeError,
    UnsupportedError,
)

X = np.array([0.3, 0.5, 0.7], "float32")


def test_accesses():
    ref = tw.new_ref(np.arange(6.0, dtype="f").reshape(2, 3))
    assert (ref.shape, ref.dtype, ref.ndim, ref.size, len(ref)) == ((2, 3), np.float32, 2, 6, 2)
    ref[0, 1] = 10
    ref[1] += np.array([1, 2, 3], "f")
    before = ref[...]
    assert float(tw.ref.swap(ref, (0, -1), 7)) == 2
    tw.ref.addupdate(ref, (slice(None), np.array([0, 0, -1])), np.ones((2, 3), "f"))
    tw.ref.set(ref, (1, jnp.int32(-2)), 0)
    np.testing.assert_array_equal(ref[...], [[2, 10, 8], [6, 0, 9]])
    np.testing.assert_array_equal(before, [[0, 10, 2], [4, 6, 8]])  # what was read stays
    np.testing.assert_array_equal(tw.ref.get(ref, (slice(None), 1)), [10, 0])
    ref.set(1, 0)
    ref.addupdate(2, (0, 0))
    np.testing.assert_array_equal(ref.swap(0)[0], [3, 1, 1])
    np.testing.assert_array_equal(ref.get(), np.zeros((2, 3)))
    assert repr(tw.new_ref(jnp.int32(2))) == "Ref(2, dtype=int32)"
    assert tw.empty_ref(tw.ShapeDtypeStruct((2,), "int32"))[...].tolist() == [0, 0]
    assert isinstance(ref, tw.Ref) and isinstance(ref.aval, tw.ref.AbstractRef)


def test_the_callers_array_stays():
    mine = X.copy()
    ref = tw.new_ref(mine)
    ref[...] += 1
    np.testing.assert_array_equal(mine, X)
    mine[:] = 0
    np.testing.assert_allclose(ref[...], X + 1)


def test_closed_over_by_jit_and_passed_to_it():
    ref, traces = tw.new_ref(jnp.zeros(2)), []

    @tw.jit
    def add(x):
        traces.append(1)
        ref[0] += x
        return ref[...].sum()

    assert [float(add(v)) for v in (1.0, 2.0)] == [1, 3] and len(traces) == 1

    @tw.jit
    def scale(r, x):
        r[...] = r[...] * x
        inner = tw.new_ref(x)
        inner[...] += 1
        return tw.freeze(inner)

    assert float(scale(ref, 3.0)) == 4 and ref[...].tolist() == [9, 0]

    @tw.jit
    def methods(r):
        r.addupdate(1.0, 1)
        r.set(r.get(0) + 1, 0)
        return r.swap(r.get() - 1, ...), tw.ref.get(r, 1)

    found, one = methods(ref)
    assert (found.tolist(), float(one), ref[...].tolist()) == ([10, 1], 0, [9, 0])
    assert float(tw.jit(lambda x: add(x) + 1)(1.0)) == 11 and ref[...].tolist() == [10, 0]
    assert tw.vmap(lambda r, x: r[0] + x, in_axes=(None, 0))(ref, jnp.arange(2.0)).tolist() == [10, 11]
    np.testing.assert_array_equal(tw.grad(lambda x: jnp.sum(ref[...] * x))(jnp.ones(2)), [10, 0])


def program(x):
    """Every way to reach a Ref from within."""
    x = jnp.asarray(x)
    ref, count = tw.new_ref(jnp.zeros_like(x)), tw.new_ref(jnp.int32(0))

    def turn(c, i):
        ref[i] = jnp.sin(x[i]) * c
        count[...] += 1
        lax.cond(i > 0, lambda: ref.addupdate(c, 0), lambda: None)
        return c * 1.5, ref[0]

    c, ys = lax.scan(turn, 1.0, jnp.arange(3))
    lax.fori_loop(0, 2, lambda i, _: ref.set(ref[i] * x[2], i), None)

    @tw.jit
    def inner(y):
        ref[1] = ref[1] * y
        tw.jit(lambda: ref.addupdate(y, 2))()

    inner(x[0])
    tw.checkpoint(lambda y: ref.addupdate(jnp.cos(y), 0))(x[1])
    return jnp.sum(ref[...] ** 2) + jnp.sum(ys) * c + count[...]


def plain(x):
    """The same without Refs."""
    x = jnp.asarray(x)
    c = 1.5 ** jnp.arange(3.0)
    y0 = jnp.sin(x[0]) + jnp.stack([0 * c[0], c[1], c[1] + c[2]])
    ref = (jnp.sin(x) * c).at[0].set(y0[2])
    ref = ref.at[:2].multiply(x[2]).at[1].multiply(x[0]).at[2].add(x[0]).at[0].add(jnp.cos(x[1]))
    return jnp.sum(ref**2) + jnp.sum(y0) * 1.5**3 + 3


@pytest.mark.law
@pytest.mark.parametrize("wrap", [
    lambda f: f, tw.jit, tw.grad, lambda f: tw.jit(tw.grad(f)), lambda f: tw.grad(tw.jit(f)), tw.jacfwd,
    lambda f: lambda x: tw.vmap(tw.value_and_grad(f))(jnp.stack([x, 2 * x])),
    lambda f: tw.jit(lambda x: lax.map(f, jnp.stack([x, 2 * x]))),
], ids=["eager", "jit", "grad", "jit-grad", "grad-jit", "jacfwd", "vmap-grad", "map"])  # fmt: skip
def test_as_without_refs(wrap):
    for f, e in zip(tw.tree.leaves(wrap(program)(X)), tw.tree.leaves(wrap(plain)(X)), strict=True):
        np.testing.assert_allclose(f, e, rtol=1e-5)


def test_a_while_loop_whose_condition_reads():
    ref = tw.new_ref(1.0)
    steps = lax.while_loop(lambda n: ref[...] < 100, lambda n: (ref.set(ref[...] * 3), n + 1)[1], 0)
    assert int(steps) == 5 and float(tw.freeze(ref)) == 243


def test_a_ref_without_derivative():
    def f(x):
        seen = tw.new_ref(0.0, kind="no_grad_no_remat")
        seen[...] = x * x
        return x * seen[...]

    assert float(tw.grad(f)(3.0)) == 9


def used_after(x):
    kept = []
    tw.jit(lambda x: kept.append(tw.new_ref(x)))(x)
    return kept[0][...]


def frozen(x):
    ref = tw.new_ref(x)
    tw.ref.free_ref(ref)
    assert "freed" in repr(ref)
    return ref[...]


OUTER = tw.new_ref(X)


@pytest.mark.parametrize("error, text, call", [
    (ArgumentTypeError, "returned", lambda: tw.jit(lambda: OUTER)()),
    (LeakedTracerError, "outside of the transformed function", lambda: tw.jit(lambda: tw.new_ref(1.0))()),
    (ArgumentTypeError, "returned", lambda: lax.cond(True, lambda: OUTER, lambda: OUTER)),
    (ArgumentTypeError, "carried", lambda: lax.scan(lambda c, x: (c, x), OUTER, X)),
    (ArgumentTypeError, "share", lambda: tw.new_ref(OUTER)),
    (ArgumentError, "twice", lambda: tw.jit(lambda a, b: a[0] + b[0])(OUTER, OUTER)),
    (ArgumentError, "twice", lambda: tw.jit(lambda a: a[0] + OUTER[0])(OUTER)),
    (LeakedTracerError, "differentiated", lambda: tw.grad(lambda x: OUTER.set(x) or x)(1.0)),
    (LeakedTracerError, "batched", lambda: tw.vmap(lambda x: OUTER.set(x) or x)(X)),
    (LeakedTracerError, "outside of the transformed function", lambda: used_after(1.0)),
    (DeletedArrayError, "freeze", lambda: frozen(1.0)),
    (ArgumentError, "freeze", lambda: tw.jit(lambda: tw.freeze(OUTER))()),
    (ArgumentTypeError, "freeze", lambda: tw.jit(tw.freeze)(OUTER)),
    (ArgumentError, "kind='x'", lambda: tw.new_ref(1.0, kind="x")),
    (UnsupportedError, "pinned", lambda: tw.new_ref(1.0, pin=True)),
    (TracerArrayConversionError, "Ref", lambda: np.asarray(OUTER)),
    (TracerArrayConversionError, "Ref", lambda: jnp.sin(OUTER)),
    (OutOfBoundsError, "index 3", lambda: OUTER[3]),
    (ArgumentTypeError, "without axes", lambda: len(tw.new_ref(1.0))),
])  # fmt: skip
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)
    np.testing.assert_array_equal(OUTER[...], X)


def bumped(ref, x):
    ref[...] += x
    return ref[...] * 2


@pytest.mark.parametrize("run", [lambda f: f, tw.jit], ids=["eager", "jit"])
def test_each_row_of_a_mapped_ref_is_a_ref(run):
    ref, x = tw.new_ref(jnp.arange(6.0).reshape(2, 3)), jnp.arange(3.0)
    found = run(tw.vmap(bumped, in_axes=(1, 0)))(ref, x)
    assert ref[...].tolist() == [[0, 2, 4], [3, 5, 7]]
    assert found.tolist() == [[0, 6], [4, 10], [8, 14]]
    nested = run(tw.vmap(tw.vmap(bumped, in_axes=(0, None))))(ref, jnp.ones(2))
    assert ref[...].tolist() == [[1, 3, 5], [4, 6, 8]] and nested.tolist() == [[2, 6, 10], [8, 12, 16]]
    untouched = run(tw.vmap(lambda r: r[0]))(ref)
    assert untouched.tolist() == [1, 4] and ref[...].tolist() == [[1, 3, 5], [4, 6, 8]]


def sine(ref, x):
    before = ref[...] * x
    ref[...] = jnp.sin(ref[...])
    return before + ref[...] ** 2


def as_values(held, x):
    return held * x + jnp.sin(held) ** 2, jnp.sin(held)


@pytest.mark.parametrize("run", [lambda f: f, tw.jit, tw.checkpoint], ids=["plain", "jit", "checkpoint"])
def test_pullbacks_by_refs_are_those_by_what_they_hold(run):
    ref, held = tw.new_ref(X), tw.new_ref(2 * X)
    y, pullback = tw.vjp(run(sine), ref, X)
    (wanted, kept), reference = tw.vjp(as_values, X, X)
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
    np.testing.assert_allclose(ref[...], kept, rtol=1e-6)
    by_ref, by_x = reference((X, 2 * X))
    total = tw.new_ref(X)
    assert pullback.with_refs(held, total)(X) == (tw.ad.GradRef(), tw.ad.GradRef())
    np.testing.assert_allclose(held[...], by_ref, rtol=1e-5)
    np.testing.assert_allclose(total[...], X + by_x, rtol=1e-5)
    given = pullback.with_refs(tw.ad.DontWant(), tw.ad.GradValue())(X)
    assert given[0] == tw.ad.DidntWant()
    np.testing.assert_allclose(given[1], X * X, rtol=1e-6)


def test_sums_of_gradients_in_a_loop_and_auxiliary_results():
    def step(total, x):
        out, pullback, aux = tw.vjp(lambda w: (w * x, w + x), X, has_aux=True)
        pullback.with_refs(total)(jnp.ones_like(out))
        return aux

    @tw.jit
    def whole(xs):
        total = tw.new_ref(jnp.zeros(3))
        aux = lax.map(lambda x: step(total, x), xs)
        return tw.freeze(total), aux

    found, aux = whole(np.stack([X, 2 * X]))
    np.testing.assert_allclose(found, 3 * X, rtol=1e-6)
    np.testing.assert_allclose(aux, [2 * X, 3 * X], rtol=1e-6)
    _, pullback, aux = tw.vjp(lambda r: (r[...] * 2, r[0]), tw.new_ref(X), has_aux=True)
    pullback.with_refs(total := tw.new_ref(jnp.zeros(3)))(X)
    np.testing.assert_allclose([*total[...], aux], [*(2 * X), X[0]], rtol=1e-6)


def test_what_is_not_wanted_is_not_computed():
    _, pullback = tw.vjp(lambda a, b: a @ b, np.ones((4, 4), "f"), X[[0, 1, 2, 0]])
    both = tw.make_jaxpr(pullback)(jnp.ones(4))
    one = tw.make_jaxpr(pullback.with_refs(tw.ad.GradValue(), tw.ad.DontWant()))(jnp.ones(4))
    assert [str(p).count("dot_general") for p in (both, one)] == [2, 1]


def test_targets_that_do_not_fit():
    _, pullback = tw.vjp(lambda r, x: r[...] * x, tw.new_ref(X), X)
    with pytest.raises(DifferentiationError, match="with_refs"):
        pullback(X)
    for targets, error in [
        ((tw.ad.GradValue(),), TreeError), ((tw.ad.GradValue(), X), ArgumentTypeError),
        ((tw.new_ref(jnp.zeros(2)), tw.ad.DontWant()), ArgumentTypeError),
    ]:  # fmt: skip
        with pytest.raises(error):
            pullback.with_refs(*targets)(X)
    with pytest.raises(ArgumentTypeError, match="with_refs"):
        tw.grad(lambda r: r[0])(tw.new_ref(X))
    ref = tw.new_ref(X)
    with pytest.raises(ArgumentError, match="twice"):
        tw.vjp(lambda a, b: a[...] * b[...], ref, ref)


def test_what_is_stored_is_held_as_an_array_of_its_own():
    ref = tw.new_ref(5)
    assert tw.ref.swap(ref, ..., 10) == 5
    assert repr(ref) == "Ref(10, dtype=int32)" and not ref[...].weak_type
    data = np.arange(3, dtype=np.int32)
    ref = tw.new_ref(jnp.zeros(3, np.int32))
    ref[...] = data
    data[0] = 9
    np.testing.assert_array_equal(ref[...], [0, 1, 2])


@pytest.mark.parametrize("kind", [tw.custom_jvp, tw.custom_vjp])
def test_functions_with_derivatives_of_their_own_take_refs(kind):
    """Also twice the same, and of a Ref that is made within `jit` or a loop; derivatives are asked for within."""
    @kind
    def count(a, b, x):
        a[...] += 1.0
        return b[...] * x

    if kind is tw.custom_jvp:
        count.defjvp(lambda p, t: (count(*p), 5.0 * t[2]))
    else:
        count.defvjp(lambda a, b, x: (count(a, b, x), a), lambda a, ct: (None, None, 5.0 * ct))

    def loop(x):
        ref = tw.new_ref(1.0)
        return lax.scan(lambda c, _: (count(ref, ref, c), None), x, None, length=3)[0], ref[...]

    assert [float(v) for v in loop(1.0)] == [float(v) for v in tw.jit(loop)(1.0)] == [24, 4]
    ref = tw.new_ref(0.0)
    assert float(tw.jit(tw.grad(lambda x: count(ref, ref, x)))(2.0)) == 5 and float(ref[...]) == 1
    with pytest.raises(DifferentiationError, match="takes a Ref.*\n.*\n.*differentiate within"):
        tw.grad(lambda x: tw.jit(loop)(x)[0])(1.0)
    with pytest.raises(ArgumentTypeError, match="scan maps over a Ref"):
        lax.scan(lambda c, x: (c, None), 0.0, tw.new_ref(X))
