"""Branches and loops mean what the Python they stand for means, under every transformation."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.equivalence import FORWARD, SOME, TRANSFORMS, agree, draws
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    ControlFlowTypeError,
    ShapeError,
)


def step(w):
    def body(carry, x):
        a, b = carry
        a = tnp.sin(a + x * tnp.cos(w)) * tnp.exp(w)
        return (a, b + tnp.sum(a)), (a * x, b)

    return body


def stacked(ys):
    return tw.tree.map(lambda *column: tnp.stack(column), *ys)


def python_scan(f, init, xs, reverse=False):
    ys, n = [None] * len(xs), len(xs)
    for i in reversed(range(n)) if reverse else range(n):
        init, ys[i] = f(init, xs[i])
    return init, stacked(ys)


@pytest.mark.law
@pytest.mark.parametrize(
    "name, how", [*((n, {}) for n in TRANSFORMS), *((n, {"reverse": True, "unroll": 3}) for n in SOME)]
)
def test_scan_is_a_loop(name, how):
    def scanned(w, c, xs):
        return lax.scan(step(w), (c, 0.5), xs, **how)

    def looped(w, c, xs):
        return python_scan(step(w), (c, 0.5), xs, how.get("reverse", False))

    agree(name, scanned, looped, *draws((3,), (3,), (4, 3)))


@pytest.mark.law
@pytest.mark.parametrize("name", TRANSFORMS)
def test_fori_loop_is_a_loop(name):
    def body(w):
        return lambda i, c: tnp.sin(c) * (w + i)

    def looped(w, c):
        for i in range(1, 5):
            c = body(w)(i, c)
        return c

    agree(name, lambda w, c: lax.fori_loop(1, 5, body(w), c), looped, *draws((3,), (3,)))


def grow(c):
    x, n = c
    return x * 1.5 + 0.1, n + 1


@pytest.mark.law
@pytest.mark.parametrize("name", FORWARD)
def test_while_loop_runs_until_done(name):
    def looped(x):
        for _ in range(7):
            x = x * 1.5 + 0.1
        return x

    def whiled(x):
        return lax.while_loop(lambda c: c[1] < 7, grow, (x, 0))[0]

    agree(name, whiled, looped, *draws((3,)))


def test_vmap_of_while_runs_each_element_as_long_as_it_needs():
    starts = np.array([1.0, 20.0, 300.0], np.float32)

    def run(x):
        return lax.while_loop(lambda c: c[0] < 100.0, grow, (x, 0))

    values, counts = tw.jit(tw.vmap(run))(starts)
    for i, start in enumerate(starts):
        value, count = run(start)
        assert int(counts[i]) == int(count)
        np.testing.assert_allclose(values[i], value, rtol=1e-6)
    assert int(counts[2]) == 0


@pytest.mark.law
@pytest.mark.parametrize("name, taken", [*((n, True) for n in TRANSFORMS), *((n, False) for n in SOME)])
def test_cond_is_the_branch_taken(name, taken):
    def yes(x, w):
        return tnp.sin(x) * w, x

    def no(x, w):
        return tnp.exp(x) + w * w, w

    agree(name, lambda x, w: lax.cond(taken, yes, no, x, w), yes if taken else no, *draws((3,), (3,)))


@pytest.mark.law
@pytest.mark.parametrize("name", TRANSFORMS)
def test_cond_on_data_is_a_selection(name):
    def branched(x, w):
        return lax.cond(tnp.sum(x) > 0, lambda: tnp.sin(x) * w, lambda: x * x + tnp.cos(w))

    def selected(x, w):
        return tnp.where(tnp.sum(x) > 0, tnp.sin(x) * w, x * x + tnp.cos(w))

    agree(name, branched, selected, *draws((3,), (3,)))


def test_switch_clamps_its_index():
    branches = [lambda x: x, lambda x: 2 * x, lambda x: x * x]
    found = [float(lax.switch(i, branches, 3.0)) for i in (-4, 0, 1, 2, 9)]
    assert found == [3.0, 3.0, 6.0, 9.0, 9.0]
    batched = tw.vmap(lambda i, x: lax.switch(i, branches, x), (0, None))(np.array([-1, 1, 5]), 3.0)
    assert batched.tolist() == [3.0, 6.0, 9.0]


def test_only_one_branch_runs():
    seen = []

    def noisy(x):
        tw.debug.callback(lambda v: seen.append(float(v)), x)
        return x

    f = tw.jit(lambda x: lax.cond(x > 0, noisy, lambda x: -x, x))
    f(-1.0).block_until_ready()
    f(2.0).block_until_ready()
    tw.effects_barrier()
    assert seen == [2.0]


@pytest.mark.parametrize("length", [0, 1, 2, 5])
@pytest.mark.parametrize("unroll", [1, 2, True])
def test_scan_lengths(length, unroll):
    xs = np.arange(length, dtype=np.float32)
    total, sums = tw.jit(lambda xs: lax.scan(lambda c, x: (c + x, c + x), 0.0, xs, unroll=unroll))(xs)
    assert float(total) == xs.sum()
    np.testing.assert_array_equal(sums, np.cumsum(xs))


def test_map_in_batches():
    x = np.arange(7, dtype=np.float32)
    for batch_size in (None, 1, 3, 7, 9):
        np.testing.assert_allclose(lax.map(lambda v: v * v, x, batch_size=batch_size), x * x)


@pytest.mark.law
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("reverse", [False, True])
def test_associative_scan_of_affine_maps(n, reverse):
    a, b = draws((n, 2), (n, 2))

    def compose(f, g):
        return f[0] * g[0], g[0] * f[1] + g[1]

    found = lax.associative_scan(compose, (a, b), reverse=reverse)
    rows = list(zip(a, b, strict=True))
    rows = rows[::-1] if reverse else rows
    expected = [rows[0]]
    for row in rows[1:]:
        expected.append(compose(expected[-1], row))
    expected = expected[::-1] if reverse else expected
    for f, e in zip(found, zip(*expected, strict=True), strict=True):
        np.testing.assert_allclose(f, np.stack(e), rtol=1e-5, atol=1e-6)


def test_weak_carry_takes_the_type_of_the_body():
    total, _ = lax.scan(lambda c, x: (c + x, None), 0, np.arange(3, dtype=np.float32))
    assert total.dtype == np.float32 and float(total) == 3.0
    assert lax.while_loop(lambda c: c < 3, lambda c: c + np.float32(1), 0).dtype == np.float32


def test_a_carry_that_only_loses_its_weakness_is_traced_once():
    for loop in (
        lambda body: lax.scan(lambda c, _: (body(c), None), 1.0, None, length=3)[0],
        lambda body: lax.fori_loop(0, 3, lambda _, c: body(c), 1.0),
        lambda body: lax.while_loop(lambda c: c < 3, body, 1.0),
    ):
        seen = []
        result = loop(lambda c, seen=seen: (seen.append(c.weak_type), c + np.float32(1))[1])
        assert seen == [True] and not result.weak_type and result.dtype == np.float32


def test_results_of_branches_are_as_weak_as_the_first():
    weak, strong = tnp.asarray(1), tnp.asarray(np.int32(1))
    for first, second in ((weak, strong), (strong, weak)):
        for f in (lax.cond, tw.jit(lax.cond, static_argnums=(1, 2))):
            assert f(True, lambda x=second: x, lambda x=first: x).weak_type == first.weak_type
        assert lax.switch(1, [lambda x=first: x, lambda x=second: x]).weak_type == first.weak_type


def test_loop_invariant_residuals_are_not_stacked():
    w, c = draws((5,), (5,))

    def loss(w, c):
        return tnp.sum(lax.scan(lambda c, _: (c * tnp.sin(w), None), c, None, length=6)[0])

    text = str(tw.make_jaxpr(tw.grad(loss))(w, c))
    # The carry is stored for each step; sin(w) and cos(w) are not.
    assert text.count("f32[6,5]") <= 4
    np.testing.assert_allclose(tw.grad(loss, 1)(w, c), np.sin(w) ** 6, rtol=1e-4)


def test_transpose_of_a_loop_with_a_counter():
    (x,) = draws((3,))
    f = lambda x: lax.fori_loop(0, 4, lambda i, c: c * (i + 1.0), x)  # noqa: E731
    (ct,) = tw.linear_transpose(f, x)(x)
    np.testing.assert_allclose(ct, 24.0 * x, rtol=1e-6)


def test_traced_bounds_have_both_modes():
    f = tw.jit(lambda n, x: lax.fori_loop(0, n, lambda i, c: c * x, x))
    assert float(f(3, 2.0)) == 16.0
    assert float(tw.jvp(lambda x: f(3, x), (2.0,), (1.0,))[1]) == 32.0
    assert float(tw.grad(lambda x: f(3, x))(2.0)) == 32.0


def test_bounds_that_are_arrays_are_known_while_tracing():
    f = tw.jit(lambda x: lax.fori_loop(0, tnp.asarray(np.int32(3)), lambda i, c: c * x, x))
    assert float(f(2.0)) == 16.0


def test_bounds_of_loops_may_be_floats():
    total = lambda x: lax.fori_loop(x, x + 3.0, lambda i, c: c + i, x)  # noqa: E731
    assert [float(f(1.0)) for f in (total, tw.jit(total), tw.jit(lambda x: tw.jvp(total, (x,), (x,))[1]))] == [7, 7, 4]


HANDED_ON = {
    "cond": lambda x, y: lax.cond(x < 2, lambda x, y: (x * 2, y), lambda x, y: (x * 3, y), x, y)[1],
    "while": lambda x, y: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1]), (x, y))[1],
    "scan": lambda x, y: lax.cond(x < 2, *2 * [lambda y: lax.scan(lambda y, _: (y, x), y, None, length=2)[0]], y),
}


@pytest.mark.parametrize("name", HANDED_ON)
def test_what_branches_and_loops_hand_on_has_no_batch(name):
    assert tw.vmap(HANDED_ON[name], (0, None), None)(np.arange(4), np.float32(3)) == 3


def test_what_a_batch_of_loops_hands_on_is_not_repeated():
    f = lambda n, w: lax.while_loop(lambda c: c[0] < n, lambda c: (c[0] + 1, c[1], c[2] @ c[1]), (0, w, w[0]))[2]  # noqa: E731
    program = tw.make_jaxpr(tw.vmap(f, (0, None)))(np.arange(3), np.ones((5, 5), np.float32))
    assert "f32[3,5,5]" not in str(program)


def test_unused_parts_of_loops_are_dropped():
    def f(x):
        (a, _), ys = lax.scan(lambda c, _: ((c[0] * 2.0, tnp.sin(c[1])), tnp.exp(c[1])), (x, x), None, length=3)
        return a

    text = tw.jit(f).lower(1.0).as_text()
    assert "exponential" not in text and "sine" not in text


def test_disable_jit_runs_in_python():
    seen = []
    with tw.config(disable_jit=True):
        total, _ = lax.scan(lambda c, x: (seen.append(float(c)) or c + x, x), 0.0, np.arange(3.0))
        lax.fori_loop(0, 2, lambda i, c: seen.append(int(i)) or c, 0)
    assert seen == [0.0, 0.0, 1.0, 0, 1] and float(total) == 3.0


@pytest.mark.parametrize(
    "error, text, call",
    [
        (
            ControlFlowTypeError,
            r"carry\['a'\] is f32\[\] on entry and f32\[2\] as returned",
            lambda: lax.scan(
                lambda c, x: ({"a": c["a"] + x, "b": 1}, x), {"a": np.float32(0), "b": 1}, np.ones((3, 2))
            ),
        ),
        (ControlFlowTypeError, "structure", lambda: lax.scan(lambda c, x: ((c, c), x), 0.0, np.ones(3))),
        (
            ControlFlowTypeError,
            r"carry\[0\] is i32\[\] on entry and f32\[\] as returned",
            lambda: lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] * np.float32(2), c[1]), (np.int32(1), 1.0)),
        ),
        (
            ControlFlowTypeError,
            "f32.. in false_fun and i32.. in true_fun",
            lambda: lax.cond(True, lambda x: np.int32(1), lambda x: np.float32(2), 1.0),
        ),
        (ControlFlowTypeError, "branch 1", lambda: lax.switch(0, [lambda x: x, lambda x: (x, x)], 1.0)),
        (ControlFlowTypeError, "condition", lambda: lax.while_loop(lambda c: c, lambda c: c + 1, 0)),
        (ArgumentTypeError, "scalar", lambda: lax.cond(np.ones(2) > 0, lambda x: x, lambda x: x, 1.0)),
        (ArgumentTypeError, "pair", lambda: lax.scan(lambda c, x: c, 0.0, np.ones(3))),
        (ArgumentError, "neither", lambda: lax.scan(lambda c, x: (c, x), 0.0)),
        (ArgumentError, "length", lambda: lax.scan(lambda c, x: (c, x), 0.0, np.ones(3), length=4)),
        (ShapeError, "different sizes", lambda: lax.scan(lambda c, x: (c, x), 0.0, (np.ones(3), np.ones(4)))),
        (ShapeError, "leading axis", lambda: lax.scan(lambda c, x: (c, x), 0.0, np.float32(3))),
        (ArgumentError, "branch", lambda: lax.switch(0, [], 1.0)),
        (ArgumentTypeError, "give them one dtype", lambda: lax.fori_loop(0.0, 3, lambda i, c: c, 1.0)),
    ],
)
def test_errors_name_what_differs(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value) and "test_control_flow.py" in str(caught.value)


def test_random_keys_travel_through_loops_and_branches():
    key = tw.random.key(0)

    def body(w):
        def step(carry, _):
            key, c = carry
            key, sub = tw.random.split(key)
            return (key, lax.cond(c > 0, lambda k: c * w * tw.random.uniform(k), lambda k: c, sub)), key

        return step

    def looped(w):
        carry = (key, 1.0)
        for _ in range(3):
            carry, _ = body(w)(carry, None)
        return carry[1]

    def scanned(w):
        return lax.scan(body(w), (key, 1.0), None, length=3)[0][1]

    np.testing.assert_allclose(tw.jit(tw.grad(scanned))(2.0), tw.grad(looped)(2.0), rtol=1e-5)
    folded = tw.vmap(lambda n: lax.fori_loop(0, n, lambda i, k: tw.random.fold_in(k, i), key))(np.array([0, 1]))
    expected = [tw.random.key_data(key), tw.random.key_data(tw.random.fold_in(key, 0))]
    np.testing.assert_array_equal(tw.random.key_data(folded), np.stack(expected))


def test_a_loop_is_traced_once_for_each_type():
    traced = []

    def body(i, c):
        traced.append(c.dtype)
        return c * 2.0

    for start in (1.0, 2.0, np.float32(1)):
        lax.fori_loop(0, 3, body, start)
    assert len(traced) == 2


@pytest.mark.parametrize("branch", (lambda x: tnp.sqrt(x), lambda x: x / tnp.abs(x)))
def test_derivatives_where_a_batched_branch_is_not_taken_are_zero(branch):
    """A branch may not have a derivative at elements for which the other one is taken."""
    def f(x):
        return lax.cond(x < 1e-3, lambda y: 0.5, branch, x)

    x = np.array([0.0, 4.0, 1.0], np.float32)
    expected = [0.0, *(float(tw.grad(branch)(e)) for e in x[1:])]
    for grad in (tw.vmap(tw.grad(f)), tw.grad(lambda x: tw.vmap(f)(x).sum()), tw.vmap(tw.jacfwd(f))):
        np.testing.assert_allclose(tw.jit(grad)(x), expected, rtol=1e-6)


def test_what_all_branches_of_a_batch_share_has_its_whole_derivative():
    """Also where its first axis is as long as the batch."""
    def f(x, w):
        return lax.cond(x > 0, lambda: (w * x).sum(), lambda: (w * w).sum())

    x, w = np.array([1.0, -1.0, 2.0], np.float32), np.arange(9, dtype=np.float32).reshape(3, 3)
    found = tw.grad(lambda w: tw.vmap(f, (0, None))(x, w).sum())(w)
    np.testing.assert_allclose(found, 1 + 2 + 2 * w)


def test_an_unroll_of_zero_leaves_no_loop():
    def f(x):
        return lax.scan(lambda c, y: (c + y, c), 0.0, x, unroll=0)

    x = tnp.arange(4.0)
    assert float(f(x)[0]) == 6 and "while" not in tw.jit(f).lower(x).as_text()


@pytest.mark.parametrize("hand_on", [lambda x: (x, x * 2), tw.jit(lambda x: (x, x - 1))])
def test_what_all_branches_hand_on_is_not_written_over(hand_on):
    """Elements of the result depend on others of it, and on the operand that it is."""

    def f(x):
        x = x.at[::2].multiply(x[1])
        same, other = lax.cond(x.sum() > 0, hand_on, lambda x: (x, x * 3), x)
        return tnp.log(tnp.maximum(same.at[tnp.argmax(same)].add(same[0] * same[1]), x)) + other

    x = tnp.array([0.5, 0.25, 2.0])
    np.testing.assert_allclose(tw.jit(f)(x), f(x), rtol=1e-6)
