"""`checkify`: checks as values, under every transformation; jax as the oracle of texts and of which failure counts."""

import inspect
import warnings

import numpy as np
import pytest

import tilewright as tw
from tests.support import laws
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.experimental import checkify as ck

A = tnp.asarray


def positive(x):
    ck.check(tnp.all(x > 0), "{x} is not positive, {}", 5, x=x)
    return 2.0 * x


def line_of(function, text):
    """The number of the line of a function that holds a text."""
    lines, start = inspect.getsourcelines(function)
    return start + next(i for i, line in enumerate(lines) if text in line)


def test_the_error_tells_text_and_line():
    error, out = ck.checkify(positive)(A(-1.0))
    assert error.get() == "-1.0 is not positive, 5 (`check` failed)" and float(out) == -2.0
    with pytest.raises(ck.FailedCheckError) as caught:
        error.throw()
    assert caught.value.source.line == line_of(positive, "ck.check(")
    assert isinstance(caught.value, ck.JaxRuntimeError) and isinstance(caught.value, ValueError)
    error, out = ck.checkify(positive)(A(1.0))
    assert error.get() is None and error.throw() is None and "None" in str(error)


def test_a_check_that_is_no_part_of_the_program():
    """Known values are checked at once; what is compiled names the check and its line."""
    with pytest.raises(ck.FailedCheckError, match="-1.0 is not positive"):
        positive(A(-1.0))
    with pytest.raises(ck.FailedCheckError):
        tw.grad(positive)(A(-1.0))
    with pytest.raises(ck.JaxRuntimeError, match=r"at mapped index 1: -2\.0"):
        tw.vmap(positive)(A([1.0, -2.0]))
    assert float(tw.grad(positive)(A(1.0))) == 2.0
    for staged in (tw.jit(positive), lambda x: lax.scan(lambda c, y: (positive(y), c), x, x[None])):
        with pytest.raises(ck.NotFunctionalizedError, match="checkify") as caught:
            staged(A(1.0))
        assert caught.value.source.line == line_of(positive, "ck.check(")
    debug = tw.jit(lambda x: (ck.debug_check(x > 0, "is {}", x), x)[1])
    assert float(debug(A(-1.0))) == -1.0
    assert ck.checkify(debug)(A(-1.0))[0].get() == "is -1.0 (`check` failed)"


def scanned(x):
    def body(total, y):
        ck.check(y < 3, "y is {}", y)
        return total + y, total

    return lax.scan(body, A(0.0), x)


def looped(x):
    def going(s):
        ck.check(s[0] < 4, "going {}", s[0])
        return s[0] < 6

    def body(s):
        ck.check(s[0] < x, "body {}", s[0])
        return s[0] + 1, s[1] * 2

    return lax.while_loop(going, body, (A(0), A(1.0)))


def branched(x):
    def one(x):
        ck.check(x > 1, "one {}", x)
        return x

    def two(x):
        ck.check(x < -1, "two {}", x)
        return -x

    return lax.cond(x > 0, one, two, x)


def nested(x):
    def body(total, y):
        return total + lax.cond(y > 1, branched, tw.jit(branched), y), None

    return tw.checkpoint(lambda x: lax.scan(body, A(0.0), x)[0])(x)


@tw.custom_jvp
def with_jvp(x):
    ck.check(tnp.all(x > 0), "jvp {}", x)
    return tnp.sum(tnp.log(x))


with_jvp.defjvps(lambda t, out, x: tnp.sum(3.0 * t / x))


@tw.custom_vjp
def with_vjp(x):
    ck.check(tnp.all(x > 0), "vjp {}", x)
    return tnp.sum(tnp.log(x))


with_vjp.defvjp(lambda x: (with_vjp(x), x), lambda x, ct: (3.0 * ct / x,))

PROGRAMS = [
    (positive, [-1.0], "-1.0 is not positive, 5"), (positive, [1.0], None),
    (scanned, [[0.0, 5.0, 7.0]], "y is 5.0"), (scanned, [[0.0, 1.0]], None),
    (looped, [7], "going 4"), (looped, [2], "body 2"),
    (branched, [2.0], None), (branched, [0.5], "one 0.5"), (branched, [-0.5], "two -0.5"),
    (nested, [[2.0, 0.5, -0.5]], "one 0.5"), (nested, [[2.0, -2.0]], None), (nested, [[2.0, -0.5]], "two -0.5"),
    (with_jvp, [[1.0, -1.0]], "jvp [ 1. -1.]"), (with_vjp, [[1.0, -1.0]], "vjp [ 1. -1.]"),
]  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize(("f", "args", "text"), PROGRAMS)
def test_programs_within(f, args, text):
    """Compiled before and after, and batched before and after, the same failure is found and the value is the same."""
    args = [A(a) for a in args]
    wanted = text and text + " (`check` failed)"
    error, plain = ck.checkify(f)(*args)
    batch = [tnp.stack([a, a]) for a in args]
    assert error.get() == wanted
    for way in (tw.jit(ck.checkify(f)), ck.checkify(tw.jit(f))):
        error, out = way(*args)
        assert error.get() == wanted
        for got, expected in zip(tw.tree.leaves(out), tw.tree.leaves(plain), strict=True):
            np.testing.assert_allclose(got, expected, rtol=1e-6)
    error, _ = tw.jit(tw.vmap(ck.checkify(f)))(*batch)
    assert error.get() == (wanted and f"at mapped index 0: {wanted}\nat mapped index 1: {wanted}")
    if f not in (branched, nested):  # batched, both branches run, and so do their checks
        assert (ck.checkify(tw.vmap(f))(*batch)[0].get() is None) == (wanted is None)


@pytest.mark.parametrize("f", [with_jvp, with_vjp, lambda x: tnp.sum(positive(x)), nested])
def test_derivatives(f):
    """Checked and then differentiated, and the other way round: the failure, and the derivative of the rule."""
    ok, bad = A([2.0, 4.0]), A([2.0, 0.5 if f is nested else -1.0])
    expected = tw.grad(lambda x: f(x))(ok) if f is not nested else A([1.0, 1.0])

    def swapped(x):
        return ck.checkify(f)(x)[::-1]

    for way in (tw.grad(swapped, has_aux=True), tw.jit(tw.grad(swapped, has_aux=True))):
        got, error = way(ok)
        np.testing.assert_allclose(got, expected)
        assert error.get() is None and way(bad)[1].get() is not None
    for way in (ck.checkify(tw.grad(f)), tw.jit(ck.checkify(tw.jit(tw.grad(f))))):
        error, got = way(ok)
        np.testing.assert_allclose(got, expected)
        assert error.get() is None and way(bad)[0].get() is not None
    got, error = tw.vmap(tw.grad(swapped, has_aux=True))(tnp.stack([ok, bad]))
    np.testing.assert_allclose(got[0], expected)
    assert error.get().startswith("at mapped index 1: ")


def _cases(np_, lax_, nn):
    """Functions that fail by themselves, of a namespace like NumPy's."""
    x, i = np_.arange(12.0).reshape(3, 4), np_.asarray
    return [
        (lambda x: np_.sin(x) + 1, (i(np.inf),)),
        (lambda x: np_.sum(np_.log(x)), (i([1.0, -1.0]),)),
        (lambda x: np_.where(x > 0, np_.log(x), 0.0), (i([1.0, -1.0]),)),
        (lambda x: x / (x - x), (i(1.0),)),
        (lambda x, y: x // y, (i(3), i(0))),
        (lambda x, y: x // y, (i(3), i(2))),
        (lambda x, k: x[k], (x, i(5))),
        (lambda x, k: x[k], (x, i(-2))),
        (lambda x, k: x[:, k], (x, i([1, 7]))),
        (lambda x, k: x[k, k], (x, i([1, 3]))),
        (lambda x, k: x.at[k].set(1.0), (x, i(3))),
        (lambda x, k: x.at[0, k].add(1.0), (x, i([3, 2]))),
        (lambda x, k: lax_.dynamic_slice(x, (k, 1), (2, 2)), (x, i(2))),
        (lambda x, k: lax_.dynamic_update_slice(x, x[:2], (k, 0)), (x, i(-1))),
        (lambda x, k: np_.take(x, k, axis=1, mode="clip"), (x, i([0, 9]))),
        (lambda x: lax_.fori_loop(0, 3, lambda k, y: np_.log(y - k), x), (i(1.5),)),
        (lambda x: lax_.scan(lambda c, y: (c / y, c), x, np_.arange(2.0))[0], (i(1.0),)),
        (lambda x: nn.softmax(x), (i([1.0, np.inf]),)),
        (lambda x: x[5, 1:], (x,)),
        (lambda x: x[:, -9], (x,)),
        (lambda x: x[None, 0][1], (x,)),
        (lambda x: x[:1][2], (x,)),
    ]


@pytest.mark.law
@pytest.mark.parametrize("number", range(22))
def test_automatic_checks_are_those_of_jax(number):
    jax = pytest.importorskip("jax")
    from jax.experimental import checkify as oracle

    f, args = _cases(tnp, lax, tw.nn)[number]
    g, theirs = _cases(jax.numpy, jax.lax, jax.nn)[number]
    got = tw.jit(ck.checkify(f, ck.automatic_checks))(*args)[0].get()
    expected = jax.jit(oracle.checkify(g, oracle.automatic_checks))(*theirs)[0].get()
    assert (got is None) == (expected is None), (got, expected)
    if expected is not None and "nan" not in expected:  # operations on the way have other names
        assert got.strip() == expected.strip()
    with laws.numpy_meaning(wide=False):
        assert ck.checkify(f, ck.user_checks)(*args)[0].get() is None


def test_automatic_checks_name_the_line():
    def f(x):
        y = x + 1.0
        z = tnp.log(y)
        return tw.jit(lambda z: z * 2.0)(z)

    error, _ = tw.jit(ck.checkify(f, ck.all_checks))(A(-3.0))
    assert error.get() == "nan generated by primitive: log."
    assert error.get_exception().source.line == line_of(f, "tnp.log")


def test_errors_may_be_checked_again():
    def inner(x):
        error, out = tw.jit(ck.checkify(lambda x: positive(tnp.log(x)), ck.all_checks))(x)
        ck.check_error(error)
        return out

    with pytest.raises(ck.NaNError, match="log"):
        inner(A(-1.0))
    assert ck.checkify(inner)(A(-1.0))[0].get() is None  # NaN is not asked for
    assert "log" in ck.checkify(inner, ck.nan_checks)(A(-1.0))[0].get()
    assert "not positive" in ck.checkify(tw.vmap(inner))(A([3.0, 0.5]))[0].get()
    assert "not positive" in ck.checkify(tw.jit(inner))(A(0.5))[0].get()
    error, _ = ck.checkify(lambda key: ck.check(False, "{}", key))(tw.random.key(3))
    assert error.get() == "[0 3] (`check` failed)"


def test_what_is_dropped_unasked_warns():
    with pytest.warns(ck.UnthrownErrorWarning, match="-1.0 is not positive") as caught:
        ck.checkify(positive)(A(-1.0))
    assert caught[0].lineno == line_of(positive, "ck.check(")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        error = tw.jit(ck.checkify(positive))(A(-1.0))[0]
        assert error.get() and ck.checkify(positive)(A(1.0))
        passed = tw.jit(lambda error: error)(error)
        assert passed.get() == error.get()


def test_mutable_arrays_and_functions_that_batch_themselves():
    ref = tw.new_ref(A(1.0))

    def changes(x):
        ref[...] = x
        return positive(ref[...])

    for way, x in ((ck.checkify(changes), -4.0), (tw.jit(ck.checkify(changes)), -5.0)):
        error, out = way(A(x))
        assert error.get() == f"{x} is not positive, 5 (`check` failed)" and float(out) == 2 * x == 2 * float(ref[...])

    @tw.custom_batching.custom_vmap
    def own(x):
        return tnp.log(x)

    own.def_vmap(lambda size, batched, x: (tnp.log(x) + 1, True))
    error, out = ck.checkify(tw.vmap(own), ck.nan_checks)(A([1.0, -1.0]))
    assert "log" in error.get() and float(out[0]) == 1.0
    hidden = tw.custom_batching.custom_vmap(lambda x: (ck.debug_check(x > 0, "hidden"), tnp.log(x))[1])
    hidden.def_vmap(lambda size, batched, x: (x, True))
    with pytest.raises(tw.errors.UnsupportedError, match="a check within custom_vmap"):
        ck.checkify(hidden)(A(1.0))
    assert ck.checkify(hidden, ck.nan_checks)(A(-1.0))[0].get() == "nan generated by primitive: custom_vmap."


def test_bad_input():
    with pytest.raises(TypeError, match=r"scalar boolean, got bool\[1\]"):
        ck.check(A([True]), "a")
    with pytest.raises(TypeError, match="message"):
        ck.check(True, 3)
    with pytest.raises(TypeError, match="takes an Error"):
        ck.check_error(None)
    with pytest.raises(TypeError, match="takes a function"):
        ck.checkify(3)
    with pytest.raises(ValueError, match="errors of checkify"):
        ck.checkify(positive, [ValueError])


def test_a_check_within_jit_leaks_nothing():
    with tw.checking_leaks():
        error, out = ck.checkify(tw.jit(lambda x: tw.jit(positive)(x) + 1))(A(-1.0))
    assert "-1.0 is not positive" in error.get() and float(out) == -1.0


def test_what_is_not_finite_is_found_within_functions_with_derivatives_of_their_own():
    with tw.config(debug_infs=True), pytest.raises(tw.errors.NonFiniteError, match="within ndtri"):
        tw.scipy.special.ndtri(np.float32([0, 1]))
