"""Reverse mode of loops whose number of iterations is computed: against the same loops with static bounds."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.binding import under
from tilewright.core.primitives.control_flow.checkpointed_sweep import reverse_sweep, room_for
from tilewright.core.tracing.numpy_interpreter import NUMPY
from tilewright.test_util import check_grads

X = np.array([0.3, -0.7, 1.1], np.float32)
W = np.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [0.2, 0.7, 0.3]], np.float32)


def _nonlinear(i, c, w):
    return tnp.sin(w @ c) * (1.0 + 0.1 * i)


def _additive(i, c, w):
    return c + w[i % 3] * tnp.cos(w[0])


def _gathering(i, c, w):
    return c * 0.9 + w[i % 3, 1] * c[i % 3]


def _nested(i, c, w):
    return lax.fori_loop(0, i, lambda j, c: tnp.tanh(c + w[j % 3]), c)


def _drawing(i, c, w):
    return tnp.sin(c) * w[0] + tw.random.uniform(tw.random.fold_in(tw.random.key(3), i), (3,))


BODIES = {f.__name__.strip("_"): f for f in (_nonlinear, _additive, _gathering, _nested, _drawing)}


def looped(body, n, x, w, checkpoints=None):
    """The loop with a traced bound."""
    w = tnp.asarray(w)
    return tnp.sum(lax.fori_loop(0, n, lambda i, c: body(i, c, w), x, checkpoints=checkpoints) * tnp.arange(1.0, 4.0))


def whiled(body, n, x, w, checkpoints=None):
    """The same as a `while_loop` over a pytree, with a carry that nothing reads and one that stays."""
    carry = {"i": 0, "x": x, "w": w, "unread": x}

    def step(c):
        return c | {"i": c["i"] + 1, "x": body(c["i"], c["x"], c["w"]), "unread": c["unread"] * 2.0}

    last = lax.while_loop(lambda c: c["i"] < n, step, carry, checkpoints=checkpoints)
    return tnp.sum(last["x"] * tnp.arange(1.0, 4.0))


def unrolled(body, n, x, w):
    x, w = tnp.asarray(x), tnp.asarray(w)
    for i in range(n):
        x = body(i, x, w)
    return tnp.sum(x * tnp.arange(1.0, 4.0))


@functools.cache
def _gradient(make, name, checkpoints):
    f = lambda n, x, w: make(BODIES[name], n, x, w, checkpoints)  # noqa: E731
    return tw.jit(tw.grad(f, (1, 2)))


@pytest.mark.law
@pytest.mark.parametrize("make", [looped, whiled])
@pytest.mark.parametrize("name", BODIES)
@settings(max_examples=4, deadline=None)
@given(n=st.integers(0, 9), checkpoints=st.sampled_from([4, 7, None]))
def test_gradients_are_those_of_the_unrolled_loop(make, name, n, checkpoints):
    found = _gradient(make, name, checkpoints)(n, X, W)
    wanted = tw.grad(functools.partial(unrolled, BODIES[name], n), (0, 1))(X, W)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=1e-5)


@pytest.mark.parametrize("checkpoints", [4, 5, 8, 64])
def test_gradients_of_long_loops(checkpoints):
    body = lambda i, c: tnp.sin(c) * (1.5 + 0.001 * i)  # noqa: E731
    f = tw.jit(tw.grad(lambda x, n: lax.fori_loop(0, n, body, x, checkpoints=checkpoints)))
    for n in (1, 31, 33, 200, 777):
        wanted = tw.grad(lambda x, n=n: lax.fori_loop(0, n, body, x))(np.float32(0.7))
        np.testing.assert_allclose(f(np.float32(0.7), n), wanted, rtol=1e-5)


@pytest.mark.law
@pytest.mark.parametrize("modes", [("fwd", "rev"), ("rev", "fwd"), ("rev", "rev")], ids="-".join)
@pytest.mark.parametrize("name", ["nonlinear", "gathering"])
def test_second_derivatives(name, modes):
    jacobian = {"fwd": tw.jacfwd, "rev": tw.jacrev}
    outer, inner = (jacobian[m] for m in modes)
    found = tw.jit(outer(inner(lambda x, n: looped(BODIES[name], n, x, W, 4))))(X, 6)
    wanted = tw.hessian(lambda x: unrolled(BODIES[name], 6, x, W))(X)
    np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


def test_third_derivatives():
    f = lambda x, n: lax.fori_loop(0, n, lambda i, c: tnp.sin(c) * 1.3, x, checkpoints=4)  # noqa: E731
    found = tw.jit(tw.grad(tw.grad(tw.grad(f))))(np.float32(0.4), 5)
    wanted = tw.grad(tw.grad(tw.grad(lambda x: f(x, 5))))(np.float32(0.4))  # a scan
    np.testing.assert_allclose(found, wanted, rtol=1e-4)


@tw.custom_vjp
def tripled_back(x, w):
    """A product whose rule for reverse mode gives three times its cotangents."""
    return x * w[0]


def _tripled(residuals, ct):
    x, w = residuals
    return 3 * ct * w[0], tnp.zeros_like(w).at[0].set(3 * ct * x)


tripled_back.defvjp(lambda x, w: (x * w[0], (x, w)), _tripled)


def _inner_loop(i, c, w):
    return lax.while_loop(lambda s: s[0] < i, lambda s: (s[0] + 1, tripled_back(s[1], w)), (0, c))[1]


@pytest.mark.parametrize("make", [looped, whiled])
@pytest.mark.parametrize("body", [lambda i, c, w: tnp.sin(tripled_back(c, w)), _inner_loop])
def test_bodies_with_rules_for_reverse_mode_alone(make, body):
    """Their gradients are those of the unrolled loop; forward mode names the rule."""
    x, w = np.float32([0.3, -0.7, 1.1]), np.float32(np.arange(9).reshape(3, 3) / 9 + 0.5)
    wanted = tw.grad(unrolled, (2, 3))(body, 3, x, w)
    f = functools.partial(make, body)
    for transformed in (tw.grad, tw.jacrev, lambda f, of: tw.jit(tw.grad(tw.checkpoint(f), of))):
        for got, ct in zip(transformed(f, (1, 2))(3, x, w), wanted, strict=True):
            np.testing.assert_allclose(got, ct, 1e-5, 1e-5)
    each = tw.vmap(tw.grad(f, 1), (None, 0, None))(3, np.stack([x, x]), w)
    np.testing.assert_allclose(each, np.stack([wanted[0]] * 2), 1e-5, 1e-5)
    of_x = functools.partial(lambda w, x: f(3, x, w), w)
    for forward in (lambda: tw.jvp(of_x, (x,), (x,)), lambda: tw.linearize(of_x, x)[1](x)):
        with pytest.raises(tw.errors.DifferentiationError, match="forward-mode .* `custom_vjp`"):
            forward()


def test_derivatives_agree_with_finite_differences():
    def f(x, w):
        def step(c):
            return tnp.tanh(w @ c[0]) * 1.2, c[1] + 1

        return lax.while_loop(lambda c: c[1] < 5, step, (x, 0), checkpoints=4)[0]

    check_grads(f, (X, W), order=2, modes=("fwd", "rev"), atol=2e-2, rtol=2e-2)


def test_a_loop_that_ends_by_what_it_computes():
    def squared(x):  # scaling and squaring: a power of two that depends on x
        def step(c):
            return c[0] / 2, c[1] + 1

        small, k = lax.while_loop(lambda c: abs(c[0]) > 0.1, step, (x, 0))
        return lax.fori_loop(0, k, lambda _, y: y * y, 1 + small * (1 + small / 2 * (1 + small / 3 * (1 + small / 4))))

    np.testing.assert_allclose(tw.grad(squared)(np.float32(3.0)), np.exp(3.0), rtol=2e-3)
    np.testing.assert_allclose(tw.grad(tw.grad(squared))(np.float32(3.0)), np.exp(3.0), rtol=2e-3)


def test_each_element_of_a_batch_has_its_number_of_iterations():
    n = np.array([0, 3, 1, 16], np.int32)
    x = np.linspace(0.1, 1.2, 12, dtype=np.float32).reshape(4, 3)
    f = lambda x, n: looped(_nonlinear, n, x, W, 4)  # noqa: E731
    rows = zip(x, n, strict=True)
    wanted = np.stack([tw.grad(lambda x, k=k: unrolled(_nonlinear, int(k), x, W))(r) for r, k in rows])
    np.testing.assert_allclose(tw.jit(tw.vmap(tw.grad(f)))(x, n), wanted, rtol=1e-4, atol=1e-6)
    summed = tw.grad(lambda x: tnp.sum(tw.vmap(f)(x, n)))
    np.testing.assert_allclose(tw.jit(summed)(x), wanted, rtol=1e-4, atol=1e-6)
    shared = tw.vmap(tw.grad(lambda w, n: looped(_nonlinear, n, X, w)), (None, 0))(W, n)
    for k, row in zip(n, shared, strict=True):
        alone = tw.grad(lambda w, k=k: unrolled(_nonlinear, int(k), X, w))(W)
        np.testing.assert_allclose(row, alone, rtol=1e-4, atol=1e-6)


def test_gradients_under_other_transformations():
    f = lambda x: looped(_nonlinear, tnp.int32(tnp.abs(x[0]) * 0 + 5), x, W)  # noqa: E731
    wanted = tw.grad(lambda x: unrolled(_nonlinear, 5, x, W))(X)
    scanned = lambda x: lax.scan(lambda c, n: (c + looped(_nonlinear, n, x, W), None), 0.0, np.array([5, 5]))[0]  # noqa: E731
    np.testing.assert_allclose(tw.grad(tw.checkpoint(f))(X), wanted, rtol=1e-4)
    np.testing.assert_allclose(tw.grad(scanned)(X), 2 * np.asarray(wanted), rtol=1e-4)

    @tw.custom_vjp
    def doubled(x):
        return f(x)

    def forward(x):
        value, back = tw.vjp(f, x)
        return value, back

    doubled.defvjp(forward, lambda back, ct: (2.0 * back(ct)[0],))
    np.testing.assert_allclose(tw.grad(doubled)(X), 2 * np.asarray(wanted), rtol=1e-4)
    with tw.disable_jit():
        np.testing.assert_allclose(tw.grad(f)(X), wanted, rtol=1e-4)


def test_transposes_of_loops():
    f = tw.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * (i + 1.0), x))
    (ct,) = tw.linear_transpose(lambda x: f(4, x), X)(X)
    np.testing.assert_allclose(ct, 24.0 * X, rtol=1e-6)


def test_additive_loops_keep_nothing():
    f = lambda x, n: lax.fori_loop(0, n, lambda i, c: c + tnp.sin(x[i]) * x[i], 0.0)  # noqa: E731
    x = np.arange(12, dtype=np.float32)
    np.testing.assert_allclose(tw.grad(f)(x, 9), np.where(x < 9, np.sin(x) + x * np.cos(x), 0), rtol=1e-5)
    text = tw.compile(tw.grad(f), x, 9, stop="transformed")
    assert "f32[32" not in str(text) and str(text).count("while[") <= 2


def test_explain_reports_what_reverse_mode_keeps():
    nonlinear = lambda x, n: lax.fori_loop(0, n, lambda i, c: tnp.sin(c), x, checkpoints=8)  # noqa: E731
    additive = lambda x, n: lax.fori_loop(0, n, lambda i, c: c + x * i, x)  # noqa: E731
    found = tw.explain(tw.grad(nonlinear), np.float32(1), 3)
    assert found.loops[0].checkpoints == 8 and found.loops[0].state_bytes == 8 and "(64 bytes in all)" in str(found)
    assert "keeps no state" in str(tw.explain(tw.grad(additive), np.float32(1), 3))


def test_memory_does_not_grow_with_iterations():
    f = lambda x, n: tnp.sum(lax.fori_loop(0, n, lambda i, c: tnp.sin(c), x, checkpoints=8))  # noqa: E731
    compiled = tw.jit(tw.grad(f)).lower(np.ones(1000, np.float32), 10).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 4000 * (8 + 12)


def test_prints_do_not_forbid_it(capfd):
    def body(i, c):
        tw.debug.print("at {}", i)
        return c * c

    assert float(tw.grad(lambda x, n: lax.fori_loop(0, n, body, x))(2.0, 2)) == 32.0
    tw.effects_barrier()
    assert capfd.readouterr().out.count("at ") == 2


@given(n=st.integers(0, 260), checkpoints=st.integers(4, 20))
@settings(max_examples=30, deadline=None)
def test_schedule_runs_each_iteration_backwards_once(n, checkpoints):
    seen, advances = [], 0

    def loop(going, step, carry):
        while going(carry):
            carry = step(carry)
        return carry

    def advance(state):
        nonlocal advances
        advances += 1
        return (state[0] + np.int32(1),)

    def back(state, cts):
        seen.append(int(state[0]))
        return cts

    room = room_for(checkpoints)
    under(NUMPY, reverse_sweep, loop, lambda s: s[0] < n, advance, back, (np.int32(0),), (), room)
    assert seen == list(range(n))[::-1]
    blocks, free = -(-n // room.tape), max(room.stack - room.online, 1)
    repeats = 1
    while _binomial(free + repeats, free) < max(blocks, 1):
        repeats += 1
    assert advances <= (3 + repeats) * max(n, 1)


def _binomial(n, k):
    return int(np.prod([(n - i) / (i + 1) for i in range(k)]) + 0.5)
