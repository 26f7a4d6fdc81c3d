"""Taylor mode against nested forward mode: every rule, and programs made of them."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax, nn
from tilewright import numpy as jnp
from tilewright.core.jet.rules import RULES
from tilewright.core.primitives.elementwise.arithmetic import one_minus_square_p
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError, DifferentiationError, ShapeError
from tilewright.core.tracing.numpy_interpreter import evaluate
from tilewright.experimental.jet import jet

ORDER = 3
X = np.array([0.3, 0.7])
TERMS = [np.array([0.5, -1.0]), np.array([1.2, 0.4]), np.array([-0.7, 0.9])]

# Functions of two numbers between 0 and 1, among them one for each rule of its own.
UNARY = [
    jnp.exp, jnp.exp2, jnp.expm1, jnp.log, jnp.log1p, jnp.sqrt, lax.rsqrt, lax.cbrt, lax.logistic, jnp.sin, jnp.cos,
    jnp.tan, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.sinh, jnp.cosh, jnp.tanh, jnp.arcsinh, jnp.arctanh, lax.erf,
    lax.erfc, lax.erf_inv, lax.lgamma, lax.digamma, lax.bessel_i0e, lax.bessel_i1e, jnp.square, jnp.prod, jnp.cumprod,
    jnp.cumsum, jnp.floor, jnp.sort, nn.softmax, nn.gelu, nn.relu, nn.logsumexp, jnp.flip, lax.cumlogsumexp, lax.cummax,
]  # fmt: skip
FUNCTIONS = {f.__name__: f for f in UNARY} | {
    "acosh": lambda x: jnp.arccosh(1 + x),
    "one_minus_square": lambda x: one_minus_square_p.bind(x),
    "polygamma": lambda x: lax.polygamma(jnp.ones_like(x), x),
    "igamma": lambda x: lax.igamma(jnp.full_like(x, 2.0), x) - lax.igammac(jnp.full_like(x, 0.5), x),
    "powers": lambda x: x**3 - x**-2 + x**2.5 + x**x + 2.0**x,
    "quotients": lambda x: x[0] / x + x / 2 + 1 / x + lax.rem(3 * x, 0.5 + 0 * x),
    "atan2": lambda x: jnp.arctan2(x[0] * x, x[1]),
    "pieces": lambda x: abs(x - 0.5) + jnp.where(x > 0.5, x * x, -x) + jnp.maximum(x, x[::-1]) + jnp.clip(x, 0.1, 0.5),
    "products": lambda x: jnp.outer(x, x) @ x + jnp.dot(np.ones((2, 2)), x * x),
    "convolution": lambda x: jnp.convolve(jnp.sin(x), x * x),
    "moves": lambda x: jnp.concatenate([x[None], jnp.pad(x, 1)[1:-1][None]]).T.reshape(-1)[jnp.array([3, 0])] * x,
    "updates": lambda x: jnp.zeros(3).at[jnp.array([0, 2])].add(x * x).at[1].set(x[0]) + lax.dynamic_slice(x, [1], [1]),
    "fourier": lambda x: abs(jnp.fft.fft(x * x)) + jnp.real(jnp.exp(1j * x)),
    "window": lambda x: lax.reduce_window(x * x, 0.0, lax.add, (2,), (1,), "VALID"),
    "jit": tw.jit(lambda x: tw.checkpoint(jnp.sin)(x) * x[0]),
    "scan": lambda x: lax.scan(lambda c, y: (c * y + jnp.sin(c), c * x), x[0], x),
    "while": lambda x: lax.while_loop(lambda c: c[1] < 3, lambda c: (jnp.sin(c[0]) * x, c[1] + 1), (x[0] * x, 0))[0],
    "cond": lambda x: lax.cond(x[0] > 0, lambda x: (x * x[0], x), lambda x: (x, x * x), x),
    "constant": lambda x: (jnp.ones(2), x),
}


def nested(f):
    """Derivatives along the curve through X with the derivatives TERMS, by forward mode within forward mode."""

    def curve(t):
        x, power, factorial = jnp.asarray(X), 1.0, 1.0
        for k, term in enumerate(TERMS, 1):
            power, factorial = power * t, factorial * k
            x = x + term * power / factorial
        return f(x)

    found = [curve]
    for _ in range(ORDER):
        found.append(lambda t, g=found[-1]: tw.jvp(g, (t,), (1.0,))[1])
    return [g(0.0) for g in found]


@pytest.mark.parametrize("group", range(6))
def test_as_nested_forward_mode(group):
    """A group of functions as one program, which NumPy evaluates."""
    chosen = list(FUNCTIONS.items())[group::6]

    def both():
        return [(jet(f, (jnp.asarray(X),), (TERMS,)), nested(f)) for _, f in chosen]

    with tw.config(enable_x64=True):
        program, shapes = tw.make_jaxpr(both, return_shape=True)()
        results = tw.tree.structure(shapes).unflatten(evaluate(program))
    for (name, _), ((out, series), expected) in zip(chosen, results, strict=True):
        for k, e in enumerate(expected):
            found = out if k == 0 else tw.tree.map(lambda _, terms, k=k: terms[k - 1], out, series)
            for a, b in zip(tw.tree.leaves(found), tw.tree.leaves(e), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8, err_msg=f"{name}, derivative {k}")


def test_every_rule_that_is_not_linear_is_tested():
    used = {p for f in FUNCTIONS.values() for p in tw.core.ir.passes.primitives_of(tw.make_jaxpr(f)(X.astype("f")))}
    missing = {p.name for p, rule in RULES.items() if getattr(rule, "func", rule).__name__ != "_linear"} - {
        p.name for p in used
    }
    # Functions with rules of derivatives of their own are called as they are.
    assert missing <= {"custom_jvp_call", "custom_vjp_call", "conv_general_dilated"}


def test_two_arguments_and_both_scalings():
    x, y = jnp.float32(0.5), jnp.float32(2.0)
    f = lambda x, y: (jnp.sin(x) * y, {"y": y})  # noqa: E731
    (out, _), (terms, other) = jet(f, (x, y), ((1.0, 0.0), (0.0, 3.0)))
    assert float(out) == pytest.approx(2 * np.sin(0.5))
    np.testing.assert_allclose(terms, [2 * np.cos(0.5), -2 * np.sin(0.5) + 3 * np.sin(0.5)], rtol=1e-6)
    assert [float(t) for t in other["y"]] == [0, 3]
    _, (plain, _) = jet(f, (x, y), ((1.0, 0.0), (0.0, 1.5)), factorial_scaled=False)
    np.testing.assert_allclose(plain, [terms[0], terms[1] / 2], rtol=1e-6)
    assert jet(jnp.sin, (x,), ((),))[1] == []
    # A custom derivative is not asked: the function itself is followed.
    g = tw.custom_vjp(lambda x: x * x)
    g.defvjp(lambda x: (g(x), x), lambda x, ct: (ct,))
    assert [float(t) for t in jet(g, (x,), ((1.0, 0.0),))[1]] == [1, 2]


def test_within_other_transformations():
    def second(x):
        return jet(lambda x: jnp.sum(jnp.sin(x) ** 2), (x,), ((jnp.ones_like(x), jnp.zeros_like(x)),))[1][1]

    x = X.astype("f")
    np.testing.assert_allclose(tw.jit(second)(x), np.sum(2 * np.cos(2 * x)), rtol=1e-5)
    np.testing.assert_allclose(tw.grad(second)(x), -4 * np.sin(2 * x), rtol=1e-5)
    np.testing.assert_allclose(tw.vmap(second)(x[:, None]), 2 * np.cos(2 * x), rtol=1e-5)


@pytest.mark.parametrize("error, text, call", [
    (DifferentiationError, "cholesky has no rule", lambda: jet(jnp.linalg.cholesky, (jnp.eye(2),), ([jnp.eye(2)],))),
    (DifferentiationError, "igamma has no rule", lambda: jet(lambda a: lax.igamma(a, 1.0), (1.0,), ([1.0],))),
    (ArgumentError, r"lengths \[1, 2\]", lambda: jet(jnp.add, (1.0, 1.0), ([1.0], [1.0, 2.0]))),
    (ArgumentError, "one series", lambda: jet(jnp.sin, (1.0,), ())),
    (ArgumentTypeError, "argument 0 of jet is a tuple", lambda: jet(jnp.sin, ((1.0,),), ([1.0],))),
    (ArgumentTypeError, "term 1 of argument 0", lambda: jet(jnp.sin, (1.0,), ([(1.0,)],))),
    (ShapeError, "term 1 of argument 0", lambda: jet(jnp.sin, (1.0,), ([np.ones(2)],))),
])  # fmt: skip
def test_errors(error, text, call):
    with pytest.raises(error, match=text) as caught:
        call()
    assert "remedy:" in str(caught.value)
