"""Derivatives of the user's own are the ones used, under every transformation."""

import functools

import numpy as np
import pytest

import tilewright as tw
from tests.support.equivalence import TRANSFORMS, agree, draws
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.primitives.custom.custom_derivatives import SymbolicZero, linear_call, zero_from_primal
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    ControlFlowTypeError,
    DifferentiationError,
    ShapeError,
    UnsupportedError,
)

# The rules below are the true derivatives, so that functions with and without them agree; that rules are used
# at all is shown by the tests with rules that are not.


def plain(x, y):
    return tnp.sin(x) * y, x * x


@tw.custom_jvp
def with_jvp(x, y):
    return plain(x, y)


@with_jvp.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    return with_jvp(x, y), (tnp.cos(x) * y * dx + tnp.sin(x) * dy, 2.0 * x * dx)


def make_vjp(forward):
    @tw.custom_vjp
    def with_vjp(x, y):
        return plain(x, y)

    def backward(residuals, ct):
        x, rest = residuals
        return tnp.cos(x) * rest["y"] * ct[0] + 2.0 * x * ct[1], tnp.sin(x) * ct[0]

    with_vjp.defvjp(lambda x, y: (forward(x, y), (x, {"y": y})), backward)
    return with_vjp


@pytest.mark.law
@pytest.mark.parametrize("name", TRANSFORMS)
def test_custom_jvp_agrees(name):
    agree(name, with_jvp, plain, *draws((3,), (3,)))


@pytest.mark.law
@pytest.mark.parametrize("name", [n for n in TRANSFORMS if n not in ("jvp",)])
def test_custom_vjp_agrees(name):
    agree(name, make_vjp(plain), plain, *draws((3,), (3,)))


@pytest.mark.law
@pytest.mark.parametrize("name", ["value", "grad", "jit_grad", "grad_of_grad", "vmap", "vmap_grad", "grad_vmap"])
@pytest.mark.parametrize("custom", [with_jvp, make_vjp(plain)], ids=["jvp", "vjp"])
def test_inside_scan_and_cond(name, custom):
    def loop(f):
        def body(w):
            return lambda c, x: (lax.cond(tnp.sum(x) > 0, lambda: f(c, x)[0], lambda: f(x, w)[1]), f(x, c)[0])

        return lambda w, xs: lax.scan(body(w), w, xs)

    agree(name, loop(custom), loop(plain), *draws((3,), (4, 3)))


@tw.custom_jvp
def tripled(x):
    return x * x


tripled.defjvps(lambda t, out, x: 3.0 * t)


def swapped_vjp():
    f = tw.custom_vjp(lambda x: x * x)
    f.defvjp(lambda x: (x * x, None), lambda _, ct: (3.0 * ct,))
    return f


@pytest.mark.parametrize("f", [tripled, swapped_vjp()], ids=["jvp", "vjp"])
def test_the_rule_is_used(f):
    assert float(tw.grad(f)(5.0)) == 3.0
    assert float(tw.jit(tw.grad(tw.jit(f)))(5.0)) == 3.0
    np.testing.assert_allclose(tw.vmap(tw.grad(f))(np.ones(2)), [3.0, 3.0])
    np.testing.assert_allclose(tw.grad(lambda x: tnp.sum(tw.vmap(f)(x)))(np.ones(2)), [3.0, 3.0])
    np.testing.assert_allclose(tw.grad(lambda x: tnp.sum(tw.jit(tw.vmap(f))(x)))(np.ones(2)), [3.0, 3.0])
    assert float(tw.grad(lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=2)[0])(5.0)) == 9.0
    assert float(tw.grad(tw.checkpoint(f))(5.0)) == 3.0


def test_vmap_sums_the_cotangent_of_a_shared_argument():
    f = tw.custom_vjp(lambda w, x: w * x)
    f.defvjp(lambda w, x: (w * x, (w, x)), lambda r, ct: (10.0 * r[1] * ct, r[0] * ct))
    xs = np.arange(3, dtype=np.float32)
    g = tw.grad(lambda w: tnp.sum(tw.vmap(f, (None, 0))(w, xs)))
    assert float(g(2.0)) == 10.0 * xs.sum()


def test_nondiff_arguments():
    @functools.partial(tw.custom_jvp, nondiff_argnums=(0,), nondiff_argnames=("k",))
    def apply(fun, x, k=2):
        return fun(x) * k

    @apply.defjvp
    def _(fun, k, primals, tangents):
        assert callable(fun) and isinstance(k, int)
        return apply(fun, *primals, k), tangents[0] * (10.0 * k)

    assert float(apply(tnp.sin, 0.0)) == 0.0
    assert float(tw.jit(tw.grad(lambda x: apply(tnp.sin, x, k=3)))(1.0)) == 30.0

    @functools.partial(tw.custom_vjp, nondiff_argnums=(1,))
    def scale(x, n):
        return x * n

    scale.defvjp(lambda x, n: (scale(x, n), None), lambda n, _, ct: (ct * n * 10.0,))
    # A traced value may be passed for an argument that is not differentiated.
    assert float(tw.jit(tw.grad(scale))(1.0, 4.0)) == 40.0
    assert float(tw.grad(tw.jit(scale))(1.0, 4.0)) == 40.0
    with pytest.raises(DifferentiationError, match="nondiff"):
        tw.grad(scale, 1)(1.0, 4.0)


def test_keyword_and_default_arguments():
    @tw.custom_jvp
    def f(x, y=2.0):
        return x * y

    f.defjvps(lambda t, out, x, y: 5.0 * t, None)
    assert float(f(3.0)) == 6.0 and float(f(y=1.0, x=3.0)) == 3.0
    assert float(tw.grad(lambda x: f(y=x, x=x))(1.0)) == 5.0

    g = tw.custom_jvp(lambda x, *, scale=2.0: x * scale)
    g.defjvps(lambda t, out, x: 5.0 * t)
    assert float(g(3.0)) == 6.0 and float(tw.grad(g)(3.0)) == 5.0
    with pytest.raises(ArgumentTypeError, match="'scale'.* by name alone"):
        g(3.0, scale=1.0)


BY_JVP = {
    "jit": tw.jit(plain), "checkpoint": tw.checkpoint(plain),
    "scan": lambda x, y: lax.scan(lambda c, _: (plain(*c), None), (x, y), None, length=2)[0],
    "cond": lambda x, y: lax.cond(y > 0, plain, lambda x, y: (y, x), x, y),
    "where": lambda x, y: (tnp.where(x > 0, x * y, x), y),
}  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("name", BY_JVP)
def test_rules_may_be_made_by_jvp(name):
    f = tw.custom_jvp(BY_JVP[name])
    f.defjvp(lambda primals, tangents: tw.jvp(BY_JVP[name], primals, tangents))
    for way in (lambda f: f, tw.grad, lambda f: tw.linearize(f, 0.5)[1], lambda f: tw.grad(tw.jit(tw.grad(f)))):
        given, want = (way(lambda x, g=g: g(x, 0.3)[0] * g(0.7, x)[0])(0.5) for g in (f, BY_JVP[name]))
        np.testing.assert_allclose(given, want, rtol=1e-5)


def test_symbolic_zeros():
    seen = []

    @tw.custom_jvp
    def f(x, y):
        return x * y

    @functools.partial(f.defjvp, symbolic_zeros=True)
    def _(primals, tangents):
        seen.extend(isinstance(t, SymbolicZero) for t in tangents)
        return f(*primals), tangents[0]

    assert float(tw.grad(f)(1.0, 2.0)) == 1.0 and seen == [False, True]

    g = tw.custom_vjp(lambda x, y: (x, y))
    perturbed = []

    def forward(x, y):
        perturbed.append((x.perturbed, y.perturbed))
        return (x.value, y.value), None

    def backward(_, ct):
        assert isinstance(ct[1], SymbolicZero)
        return ct[0] * 7.0, None

    g.defvjp(forward, backward, symbolic_zeros=True)
    assert float(tw.grad(lambda x: g(x, 1.0)[0])(2.0)) == 7.0 and perturbed == [(True, False)]


@pytest.mark.parametrize("transform", [lambda f: f, tw.jit, lambda f: lambda *xs: tw.vmap(f)(*(x[None] for x in xs))])
def test_each_run_of_the_forward_rule_has_residuals_of_its_own(transform):
    """What the rule keeps may differ with what is differentiated, and pullbacks are called in any order."""
    f = tw.custom_vjp(lambda x, y: x * y)

    def forward(x, y):
        kept = {"x": x.value, "y": y.value} if x.perturbed and y.perturbed else [2 if x.perturbed else 3]
        return x.value * y.value, kept

    def backward(kept, ct):
        return (ct * kept["y"], ct * kept["x"]) if isinstance(kept, dict) else (ct * kept[0], ct * kept[0])

    f.defvjp(forward, backward, symbolic_zeros=True)
    g, x, y = transform(f), tnp.float32(5.0), tnp.float32(7.0)
    pullbacks = [tw.vjp(g, x, y)[1], tw.vjp(lambda x: g(x, y), x)[1], tw.vjp(lambda y: g(x, y), y)[1]]
    ct = tnp.ones(g(x, y).shape)
    assert [[float(t) for t in pullback(ct)] for pullback in pullbacks] == [[7.0, 5.0], [2.0], [3.0]]


def test_integer_arguments_and_outputs():
    f = tw.custom_vjp(lambda x, n: (x * n, n))
    f.defvjp(lambda x, n: (f(x, n), n), lambda n, ct: (ct[0] * n, None))
    assert float(tw.grad(lambda x: f(x, 3)[0])(2.0)) == 3.0
    assert float(tw.grad(lambda x: tw.vmap(f, (None, 0))(x, np.arange(3))[0].sum())(2.0)) == 3.0


def test_custom_gradient_and_its_derivative():
    @tw.custom_gradient
    def f(x):
        return tnp.sin(x), lambda ct: ct * x * x

    assert float(tw.grad(f)(3.0)) == 9.0
    assert float(tw.grad(tw.grad(f))(3.0)) == 6.0
    assert float(tw.jit(tw.vmap(tw.grad(f)))(np.array([3.0]))[0]) == 9.0


def test_closure_convert_finds_the_traced_values():
    def f(w):
        converted, values = tw.closure_convert(lambda x: tnp.sin(x) * w, 1.0)
        assert len(values) == 1
        return converted(2.0, *values)

    np.testing.assert_allclose(tw.grad(f)(3.0), np.sin(2.0), rtol=1e-6)
    assert tw.closure_convert(lambda x: 2.0 * x, 1.0)[1] == []


def test_linear_call():
    def f(x):
        return linear_call(lambda r, x: {"y": r * x}, lambda r, ct: 5.0 * r * ct["y"], 2.0, x)["y"]

    assert float(f(3.0)) == 6.0 and float(tw.grad(f)(3.0)) == 10.0
    assert float(tw.linear_transpose(tw.jit(f), 1.0)(1.0)[0]) == 10.0
    np.testing.assert_allclose(tw.grad(lambda x: tnp.sum(tw.vmap(f)(x)))(np.ones(2)), [10.0, 10.0])


def test_linear_call_by_its_residuals():
    """What it gives is linear in its arguments and any function of its residuals: the derivatives by both add up."""

    def f(r, x):
        return linear_call(lambda r, x: tnp.sin(r) * x, lambda r, ct: tnp.sin(r) * ct, r, x)

    for hessian in (tw.hessian(f, (0, 1)), tw.jacrev(tw.grad(f, (0, 1)), (0, 1)), tw.jit(tw.hessian(f, (0, 1)))):
        np.testing.assert_allclose(hessian(0.5, 3.0), [[-3 * np.sin(0.5), np.cos(0.5)], [np.cos(0.5), 0]], rtol=1e-6)
    by_residual = tw.jvp(lambda r: f(r, 3.0), (0.5,), (2.0,))
    np.testing.assert_allclose(by_residual, [3 * np.sin(0.5), 6 * np.cos(0.5)], rtol=1e-6)


def broken(jvp=None, fwd=None, bwd=None):
    if jvp is not None:
        f = tw.custom_jvp(lambda x: x * x)
        f.defjvp(jvp)
    else:
        f = tw.custom_vjp(lambda x: x * x)
        f.defvjp(fwd or (lambda x: (x * x, None)), bwd)
    return lambda: tw.grad(lambda x: tnp.sum(f(x)))(np.ones(2, np.float32))


@pytest.mark.parametrize(
    "error, text, call",
    [
        (DifferentiationError, "no rule", lambda: tw.custom_jvp(lambda x: x)(1.0)),
        (DifferentiationError, "no rule", lambda: tw.custom_vjp(lambda x: x)(1.0)),
        (DifferentiationError, "forward-mode", lambda: tw.jvp(swapped_vjp(), (1.0,), (1.0,))),
        (DifferentiationError, "forward-mode", lambda: tw.jacfwd(tw.jit(swapped_vjp()))(1.0)),
        (ArgumentTypeError, "pair", broken(jvp=lambda p, t: p[0])),
        (ControlFlowTypeError, "make them alike", broken(jvp=lambda p, t: (p[0], (t[0],)))),
        (ShapeError, "tangent", broken(jvp=lambda p, t: (p[0], tnp.sum(t[0])))),
        (ArgumentTypeError, "pair", broken(fwd=lambda x: x, bwd=lambda r, ct: (ct,))),
        (ArgumentTypeError, "tuple", broken(bwd=lambda r, ct: ct)),
        (ArgumentTypeError, "for 1 argument", broken(bwd=lambda r, ct: (ct, ct))),
        (ShapeError, "cotangent", broken(bwd=lambda r, ct: (tnp.sum(ct),))),
        (ControlFlowTypeError, "structure", broken(bwd=lambda r, ct: ((ct, ct),))),
    ],
)
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)


def test_reverse_mode_of_a_jitted_function_that_closes_over_an_array():
    scale = tnp.full(1, 2.0)

    @tw.custom_vjp
    def f(x):
        return x * scale

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (3.0 * ct * scale,))
    x = np.ones(3, np.float32)
    for call in (f, tw.jit(f), tw.jit(tw.jit(f))):
        np.testing.assert_array_equal(tw.vjp(call, x)[1](x)[0], 6.0 * x)


def test_trees_with_none_pass_through_rules():
    @tw.custom_jvp
    def f(tree):
        return {"a": tree["a"] * 2, "b": None, "c": tree["c"]}

    @f.defjvp
    def f_jvp(primals, tangents):
        return f(*primals), {"a": tangents[0]["a"] * 5, "b": None, "c": None}

    @tw.custom_vjp
    def g(tree):
        return tree["a"] * 2

    g.defvjp(lambda tree: (g(tree), None), lambda _, ct: ({"a": ct * 7, "b": None, "c": None},))
    tree = {"a": 3.0, "b": None, "c": 1.0}
    found = tw.grad(lambda tree: f(tree)["a"] + f(tree)["c"])(tree)
    assert found == {"a": 5.0, "b": None, "c": 0.0}
    assert tw.grad(g)(tree) == {"a": 7.0, "b": None, "c": 0.0}


def test_python_numbers_among_residuals_stay_numbers():
    @tw.custom_vjp
    def f(x, twice):
        return x * 2

    def backward(residuals, ct):
        x, twice, power = residuals
        assert twice is True and type(power) is int
        return (ct * x**power * (2 if twice else 1), None)

    f.defvjp(lambda x, twice: (f(x, twice), (x, True, 3)), backward)
    assert float(tw.grad(f)(2.0, True)) == 16.0
    assert float(tw.jit(tw.grad(f))(2.0, True)) == 16.0
    assert float(tw.grad(tw.jit(f))(2.0, True)) == 16.0
    np.testing.assert_allclose(tw.vmap(tw.grad(f), (0, None))(np.float32([1, 2]), True), [2, 16])


def test_a_cotangent_of_none_is_a_zero_that_counts():
    @tw.custom_vjp
    def overwritten(x):  # its "gradient" is a value of its own, whatever comes back
        return x

    overwritten.defvjp(lambda x: (x, None), lambda _, ct: (7.0 + 0.0 * ct,))

    @tw.custom_vjp
    def forgets(x):
        return 2.0 * x

    forgets.defvjp(lambda x: (2.0 * x, None), lambda _, ct: (None,))
    for wrap in (lambda f: f, tw.jit):
        assert float(wrap(tw.grad(lambda x: forgets(overwritten(x)) + x))(1.0)) == 8.0
        assert float(tw.grad(wrap(lambda x: forgets(overwritten(x)) + x))(1.0)) == 8.0
        assert float(wrap(tw.grad(lambda x: (overwritten(x), x)[1]))(1.0)) == 1.0


def test_zero_tangents_of_trees():
    zeros = zero_from_primal({"a": 2.0, "b": [np.float32([1, 2])]})
    assert float(zeros["a"]) == 0 and zeros["b"][0].tolist() == [0, 0]
    (symbolic,) = zero_from_primal((1.0,), symbolic_zeros=True)
    assert type(symbolic) is SymbolicZero


# ---------------------------------------------------------------------------- what backward rules tell


def telling(name="ct"):
    @tw.custom_gradient(with_logs=True)
    def f(x):
        return x * x, lambda ct: (ct * 2 * x, {name: {"given": ct}})

    return f


def test_what_a_backward_rule_tells_is_dropped_or_given():
    for f in (telling(), tw.jit(telling())):
        _, pullback = tw.vjp(f, 3.0)
        assert pullback(2.0) == (12.0,) and tw.grad(f)(3.0) == 6.0
        for given in (pullback.with_logs(2.0), tw.jit(lambda p: p(2.0))(pullback.with_logs)):
            assert given == ((12.0,), {"ct": {"given": 2.0}})


def test_what_a_batched_rule_tells_is_batched():
    _, pullback = tw.vjp(tw.vmap(telling()), np.arange(3, dtype=np.float32))
    (ct,), told = pullback.with_logs(np.ones(3, np.float32))
    np.testing.assert_array_equal(ct, [0, 2, 4])
    np.testing.assert_array_equal(told["ct"]["given"], np.ones(3))


def test_a_rule_may_tell_nothing_and_must_tell_it_so():
    f = tw.custom_vjp(lambda x: x)
    f.defvjp_with_logs(lambda x: (x, None), lambda _, ct: ((ct,), None))
    assert tw.vjp(f, 1.0)[1].with_logs(1.0) == ((1.0,), {})
    for wrong, message in ((lambda _, ct: ct, "return a pair"), (lambda _, ct: ((ct,), [1]), "give a dictionary")):
        f.defvjp_with_logs(lambda x: (x, None), wrong)
        with pytest.raises(ArgumentTypeError, match=message):
            tw.vjp(f, 1.0)[1].with_logs(1.0)


def test_entries_of_one_name_and_of_loops_are_refused():
    a, b = telling(), telling()
    with pytest.raises(ArgumentError, match="log 'ct'"):
        tw.vjp(lambda x: a(b(x)), 2.0)[1].with_logs(1.0)
    looped = lambda x: tw.lax.scan(lambda c, _: (a(c), None), x, None, length=2)[0]  # noqa: E731
    assert tw.grad(looped)(2.0) == 32.0
    with pytest.raises(tw.errors.UnsupportedError, match="pass logs on"):
        tw.vjp(looped, 2.0)[1].with_logs(1.0)


def test_a_backward_rule_may_compute_in_a_wider_float():
    @tw.custom_vjp
    def f(x):
        return x * 2

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct.astype("float32") * 2,))
    for grad in (tw.grad(f), tw.jit(tw.grad(tw.checkpoint(f)))):
        got = grad(tnp.bfloat16(1))
        assert got.dtype == tnp.bfloat16 and float(got) == 2


def test_rules_give_what_the_function_gives():
    """Within a program, where the function's own output is known."""
    def within(f):
        return lambda x: lax.scan(lambda c, _: (f(c), None), x, None, length=1)[0]

    f, g = tw.custom_jvp(lambda x: x), tw.custom_vjp(lambda x: x)
    for out in (lambda x: (x, x), lambda x: tnp.zeros(3), lambda x: x.astype("float16")):
        f.defjvp(lambda p, t, out=out: (out(p[0]), out(t[0])))
        with pytest.raises(ControlFlowTypeError, match="the jvp rule of <lambda> gives the output .*, the function "):
            tw.jvp(within(f), (tnp.ones(()),), (tnp.ones(()),))
        g.defvjp(lambda x, out=out: (out(x), None), lambda _, ct: (ct,))
        with pytest.raises(ControlFlowTypeError, match="the forward rule of <lambda> gives the output"):
            tw.grad(within(g))(tnp.ones(()))


def test_partial_functions_have_rules_of_what_is_left_to_give():
    f = functools.partial(lambda x, y, a: x + y * a, a=0.5)
    g, h = tw.custom_jvp(f), tw.custom_vjp(f)
    g.defjvp(lambda p, t: tw.jvp(f, p, t))
    h.defvjp(lambda x, y: (f(x, y), None), lambda _, ct: (ct, ct * 0.5))
    for one in (g, h):
        assert [float(d) for d in tw.grad(one, (0, 1))(1.0, 2.0)] == [1, 0.5]


def test_a_converted_function_takes_the_values_that_it_closed_over():
    _, pullback = tw.vjp(lambda x, z: z * x, 2.0, 3.0)
    pure, values = tw.closure_convert(pullback, 2.0)
    assert [float(ct) for ct in pure(2.0, *values)] == [6, 4]
    with pytest.raises(ArgumentTypeError, match="values that it closed over"):
        pure(2.0, values, 1.0)


def _named(kind, rule):
    """A function of one argument whose derivative names the axis 'i': that of `x` times `rule()`."""
    def f(x):
        return tnp.sin(x)

    made = kind(f)
    if kind is tw.custom_jvp:
        made.defjvp(lambda p, t: (f(p[0]), t[0] * rule(p[0])))
    else:
        made.defvjp(lambda x: (f(x), rule(x)), lambda r, ct: (lax.psum(ct * r, "i") / 3,))
    return made


@pytest.mark.parametrize("kind", [tw.custom_jvp, tw.custom_vjp])
@pytest.mark.parametrize("inner", [lambda f: f, tw.jit])
def test_rules_name_an_axis_along_which_the_argument_is_shared(kind, inner):
    xs, f = np.float32([0, 1, 2]), inner(_named(kind, lambda x: lax.psum(x, "i")))
    batch = tw.vmap(lambda x, y: x * f(y), (0, None), axis_name="i")
    # The sum over three members of y = 2 is 6, and x sums up to 3.
    assert float(tw.grad(lambda y: batch(xs, y).sum())(2.0)) == 18
    if kind is tw.custom_jvp:
        np.testing.assert_array_equal(tw.jvp(lambda y: batch(xs, y), (2.0,), (1.0,))[1], 6 * xs)
    still = tw.vmap(f, None, None, axis_name="i", axis_size=3)  # nothing is mapped, and nothing becomes so
    assert float(tw.grad(still)(2.0)) == 6
    apart = _named(kind, lambda x: lax.axis_index("i").astype("f"))
    if kind is tw.custom_jvp:
        with pytest.raises(UnsupportedError, match="differs along the axis 'i'"):
            tw.grad(lambda y: tw.vmap(lambda x: x * apart(y), axis_name="i")(xs).sum())(2.0)


def test_what_a_rule_applies_to_tangents_is_transposed_as_a_function():
    """Forward mode follows the rule of a function that another rule applies to a tangent; its transpose has none."""
    @tw.custom_jvp
    def scaled(t, c):
        return c * t

    scaled.defjvp(lambda p, t: (scaled(*p), p[1] * t[0] + 100.0 * t[1] * p[0]))
    f = tw.custom_jvp(tnp.sin)
    f.defjvp(lambda p, t: (f(*p), scaled(t[0], tnp.cos(p[0]))))

    def slope(x):
        return tw.jvp(f, (x,), (1.0,))[1]

    found = [tw.jvp(slope, (0.5,), (1.0,))[1], tw.grad(slope)(0.5), tw.grad(tw.grad(f))(0.5)]
    np.testing.assert_allclose(np.stack(found), np.float32([-100, -100, -1]) * np.sin(np.float32(0.5)), rtol=1e-6)


@pytest.mark.parametrize("kind", [tw.custom_jvp, tw.custom_vjp])
def test_what_a_function_reduces_over_an_axis_is_not_mapped(kind):
    def f(x):
        return lax.psum(x, "i")

    made = kind(f)
    if kind is tw.custom_jvp:
        made.defjvp(lambda p, t: (f(p[0]), f(t[0])))
    else:
        made.defvjp(lambda x: (f(x), None), lambda _, ct: (lax.psum(ct, "i"),))
    batch = tw.vmap(lambda _, y: made(y), (0, None), None, axis_name="i")
    assert float(batch(np.zeros(4, np.float32), 2.0)) == 8
    assert float(tw.grad(lambda y: batch(np.zeros(4, np.float32), y))(2.0)) == 4
