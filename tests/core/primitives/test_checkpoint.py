"""`checkpoint` changes what is stored, and nothing else."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.equivalence import TRANSFORMS, agree, draws
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.ad_checkpoint import saved_residuals
from tilewright.core.ir.program import subprograms
from tilewright.core.primitives.custom.checkpoint import checkpoint_name
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError

P = tw.checkpoint_policies


def layer(x, m):
    return tnp.sin(checkpoint_name(tnp.dot(tnp.sin(tnp.dot(x, m)), m), "h"))


POLICIES = {
    "none": None,
    "everything": P.everything_saveable,
    "nothing": P.nothing_saveable,
    "dots": P.dots_saveable,
    "dots_no_batch": P.dots_with_no_batch_dims_saveable,
    "names": P.save_only_these_names("h"),
    "anything_but": P.save_anything_except_these_names("h"),
    "any_name_but": P.save_any_names_but_these("x"),
    "both": P.save_from_both_policies(P.dots_saveable, P.save_only_these_names("h")),
}


@pytest.mark.law
@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_and_derivatives_are_the_same(name):
    f = tw.checkpoint(layer, policy=P.dots_saveable)
    g = tw.checkpoint(layer)
    agree(name, lambda x, m: f(g(x, m), m), lambda x, m: layer(layer(x, m), m), *draws((3,), (3, 3)))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("inner", [layer, tw.jit(layer)], ids=["plain", "jitted"])
def test_policies(policy, inner):
    x, m = draws((3,), (3, 3))
    f = tw.checkpoint(inner, policy=POLICIES[policy])
    for found, expected in zip(
        tw.grad(lambda *a: tnp.sum(f(*a)), (0, 1))(x, m),
        tw.grad(lambda *a: tnp.sum(layer(*a)), (0, 1))(x, m),
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def products(program):
    inner = sum(products(p) for e in program.eqns for _, p in subprograms(e))
    return inner + sum(e.primitive.name == "dot_general" for e in program.eqns)


def recomputed(policy):
    """How many products the backward pass computes again."""
    x, m = draws((3,), (3, 3))
    f = tw.checkpoint(layer, policy=policy)
    program = tw.make_jaxpr(tw.grad(lambda x: tnp.sum(f(x, m))))(x)
    (backward,) = [e for e in program.eqns if e.params.get("differentiated")]
    return products(backward.params["program"]) - 2  # the two of the transposed layer


def test_what_is_stored_is_not_recomputed():
    counts = {name: recomputed(policy) for name, policy in POLICIES.items()}
    assert counts["none"] == counts["nothing"] == 2
    assert counts["dots"] == counts["everything"] == 0
    assert counts["names"] == 1


def test_recomputation_is_kept_apart_from_the_forward_pass():
    x, m = draws((3,), (3, 3))

    def text(prevent_cse):
        f = tw.checkpoint(layer, prevent_cse=prevent_cse)
        return tw.jit(tw.grad(lambda x: tnp.sum(f(x, m)))).lower(x).as_text()

    assert "optimization_barrier" in text(True) and "optimization_barrier" not in text(False)


def test_in_a_scan():
    x, m = draws((3,), (3, 3))

    def loss(wrap):
        body = wrap(lambda c, _: (layer(c, m), None))
        return lambda x: tnp.sum(lax.scan(body, x, None, length=4)[0])

    expected = tw.grad(loss(lambda f: f))(x)
    np.testing.assert_allclose(tw.grad(loss(lambda f: tw.checkpoint(f, prevent_cse=False)))(x), expected, rtol=1e-5)


def test_effects_happen_once():
    seen = []

    def f(x):
        tw.debug.callback(lambda v: seen.append(float(v)), x)
        y = tw.io_callback(lambda v: v, tw.ShapeDtypeStruct((), np.float32), tw.stop_gradient(x))
        return tnp.sin(tnp.sin(x)) * y

    g = tw.jit(tw.grad(tw.checkpoint(f)))
    value = float(g(1.0))
    tw.effects_barrier()
    assert seen == [1.0]
    np.testing.assert_allclose(value, np.cos(np.sin(1.0)) * np.cos(1.0), rtol=1e-6)


def test_static_arguments():
    f = tw.checkpoint(lambda x, flag: tnp.sin(x) if flag else x, static_argnums=1)
    assert float(tw.grad(lambda x: f(x, False))(1.0)) == 1.0
    with pytest.raises(ArgumentError, match="policy"):
        tw.checkpoint(layer, policy="dots")


def test_barrier_is_the_identity():
    x = np.arange(3, dtype=np.float32)
    np.testing.assert_array_equal(tw.jit(lax.optimization_barrier)(x), x)
    np.testing.assert_array_equal(tw.vmap(tw.grad(lambda x: lax.optimization_barrier((x, 1.0))[0]))(x), np.ones(3))


# ---------------------------------------------------------------------------- custom_remat


def sine(factor=1.0):
    """Sine that keeps its cosine where the policy names it; `factor` marks derivatives that are by its own rules."""

    def forward(policy, x):
        kept = isinstance(policy, P.SaveOnlyTheseNames) and "cos" in policy.saveable_names
        return tnp.sin(x), (tnp.cos(x) if kept else None)

    def again(cos, x):
        return tnp.sin(x), factor * (tnp.cos(x) if cos is None else cos)

    return tw.custom_remat(tnp.sin, forward, again, lambda cos, ct: (cos * ct,))


@pytest.mark.law
@pytest.mark.parametrize("name", TRANSFORMS)
def test_rules_that_agree_with_the_function_change_no_value(name):
    agree(name, tw.checkpoint(sine()), tnp.sin, *draws((3,)))


HOW = [tw.grad, lambda f: tw.jit(tw.grad(f)), lambda f: tw.grad(lambda x: tw.vmap(f)(tnp.stack([x]))[0])]


@pytest.mark.parametrize("how", HOW)
def test_rules_are_followed_within_checkpoint_only(how):
    inside = tw.checkpoint(tw.jit(sine(3.0)))
    np.testing.assert_allclose(how(inside)(1.0), 3 * np.cos(1.0), rtol=1e-5)
    np.testing.assert_allclose(how(sine(3.0))(1.0), np.cos(1.0), rtol=1e-5)


@pytest.mark.parametrize("names, count", [(["cos"], 2), (["x"], 0)])
def test_what_a_rule_keeps_is_stored(names, count):
    f = tw.checkpoint(lambda x: sine()(sine()(x)), policy=P.save_only_these_names(*names))
    found = [origin for _, origin in saved_residuals(f, 1.0)]
    assert sum("kept by custom_remat" in origin for origin in found) == count


def test_an_argument_that_is_shared_collects_and_one_may_have_none():
    mul = tw.custom_remat(lambda w, x: w * x, lambda _, w, x: (w * x, None), lambda _, w, x: (w * x, x),
                          lambda x, ct: (x * ct, None))  # fmt: skip
    x = tnp.arange(3.0)
    total = lambda w, x: tnp.sum(tw.vmap(tw.checkpoint(mul), (None, 0))(w, x))  # noqa: E731
    by_w, by_x = tw.grad(total, (0, 1))(2.0, x)
    assert by_w == 3.0 and not by_x.any()


def test_a_rule_without_a_pair_is_named():
    wrong = tw.custom_remat(tnp.sin, lambda _, x: tnp.sin(x), None, None)
    with pytest.raises(ArgumentTypeError, match="a rule of custom_remat gave"):
        tw.grad(tw.checkpoint(wrong))(1.0)
