"""`tilewright.nn` and `tilewright.scipy` against their formulas in double precision."""

import math

import numpy as np
import pytest

import tilewright as tw
from tests.support.by_numpy import by_numpy
from tilewright import nn, random
from tilewright import numpy as jnp
from tilewright.core.support import errors
from tilewright.scipy import special, stats

X = np.linspace(-4, 4, 12).reshape(3, 4)
MASK = np.array([[True, False, True, True], [True, True, True, False], [False, False, True, True]])


def check(found, expected, tolerance=2e-5):
    np.testing.assert_allclose(np.asarray(found), expected, rtol=tolerance, atol=tolerance)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def phi(x):
    return np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)))(x)


FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "sigmoid": sigmoid,
    "softplus": lambda x: np.log1p(np.exp(x)),
    "soft_sign": lambda x: x / (1 + abs(x)),
    "silu": lambda x: x * sigmoid(x),
    "log_sigmoid": lambda x: np.log(sigmoid(x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "selu": lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
    "gelu": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "glu": lambda x: x[..., :2] * sigmoid(x[..., 2:]),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "hard_tanh": lambda x: np.clip(x, -1, 1),
    "hard_sigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hard_silu": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "squareplus": lambda x: (x + np.sqrt(x**2 + 4)) / 2,
    "sparse_plus": lambda x: np.where(x <= -1, 0, np.where(x >= 1, x, (x + 1) ** 2 / 4)),
    "sparse_sigmoid": lambda x: np.clip((x + 1) / 2, 0, 1),
    "softmax": lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True),
    "log_softmax": lambda x: x - np.log(np.exp(x).sum(-1, keepdims=True)),
    "logsumexp": lambda x: np.log(np.exp(x).sum()),
    "logmeanexp": lambda x: np.log(np.exp(x).mean()),
    "standardize": lambda x: (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5),
    "identity": lambda x: x,
    "tanh": np.tanh,
}


@pytest.mark.law
@pytest.mark.parametrize("name", FORMULAS)
def test_values_and_derivatives(name):
    with tw.config(enable_x64=True):
        function, x = getattr(nn, name), jnp.asarray(X)
        check(function(x), FORMULAS[name](X), 1e-9)
        found, derivative = tw.jvp(function, (x,), (jnp.ones_like(x),))
        difference = (np.asarray(function(x + 1e-6)) - np.asarray(function(x - 1e-6))) / 2e-6
        check(derivative, difference, 1e-6)
    half = function(jnp.asarray(X, jnp.bfloat16))
    assert half.dtype == jnp.bfloat16
    check(half.astype(np.float32), FORMULAS[name](X), 0.05)


def test_gelu_exact():
    check(nn.gelu(X.astype(np.float32), approximate=False), X * phi(X))


def test_softmax_at_the_limits():
    inf = np.float32(np.inf)
    check(nn.softmax(np.array([1000.0, 1000.0], np.float32)), [0.5, 0.5])
    check(nn.softmax(np.array([-inf, 1, 2], np.float32))[0], 0.0)
    check(nn.logsumexp(np.array([-inf, -inf], np.float32)), -inf)
    check(nn.logsumexp(np.array([inf, 1], np.float32)), inf)
    assert np.isfinite(np.asarray(tw.grad(lambda x: nn.logsumexp(x))(jnp.array([-inf, 0.0])))).all()


def test_masks():
    x = X.astype(np.float32)
    power = np.where(MASK, np.exp(X), 0)
    check(nn.softmax(x, where=MASK), power / power.sum(-1, keepdims=True))
    check(nn.logsumexp(x, axis=1, where=MASK), np.log(power.sum(1)))
    check(nn.logmeanexp(x, axis=1, where=MASK), np.log(power.sum(1) / MASK.sum(1)))
    assert np.isneginf(np.asarray(nn.log_softmax(x, where=MASK))[~MASK]).all()
    check(nn.standardize(x, where=MASK)[0], ((X - X[0][MASK[0]].mean()) / np.sqrt(X[0][MASK[0]].var() + 1e-5))[0])


def test_logsumexp_with_weights():
    x, weights = X.astype(np.float32), np.array([1.0, -2.0, 0.0, 0.5], np.float32)
    total = (weights * np.exp(X)).sum(1)
    value, sign = nn.logsumexp(x, axis=1, b=weights, return_sign=True)
    check(value, np.log(abs(total)))
    check(sign, np.sign(total))
    assert np.isnan(np.asarray(nn.logsumexp(x, b=-1.0)))


def test_one_hot():
    check(nn.one_hot(jnp.array([1, 3, -1]), 3), [[0, 1, 0], [0, 0, 0], [0, 0, 0]])
    assert nn.one_hot(jnp.array([[1, 2]]), 4, axis=0, dtype=jnp.bfloat16).shape == (4, 1, 2)


def attention(q, k, v, keep=None, bias=0.0, scale=None):
    k, v = (np.repeat(t, q.shape[2] // t.shape[2], 2) for t in (k, v))
    logits = np.einsum("btnh,bsnh->bnts", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale) + bias
    logits = logits if keep is None else np.where(keep, logits, -1e30)
    shares = np.exp(logits - logits.max(-1, keepdims=True))
    return np.einsum("bnts,bsnh->btnh", shares / shares.sum(-1, keepdims=True), v)


ROWS, COLUMNS = np.arange(5)[:, None], np.arange(6)[None]
ATTENTION = {
    "plain": ({}, {}),
    "causal": (dict(is_causal=True), dict(keep=ROWS >= COLUMNS)),
    "mask": (dict(mask=COLUMNS <= ROWS + 1), dict(keep=COLUMNS <= ROWS + 1)),
    "window": (dict(local_window_size=(2, 1)), dict(keep=(COLUMNS >= ROWS - 2) & (COLUMNS <= ROWS + 1))),
    "scale": (dict(scale=0.3), dict(scale=0.3)),
    "lengths": (
        dict(key_value_seq_lengths=np.array([2, 6])),
        dict(keep=COLUMNS[None, None] < np.array([2, 6])[:, None, None, None]),
    ),
}


@pytest.mark.law
@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name):
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=s).astype(np.float32) for s in ((2, 5, 4, 8), (2, 6, 2, 8), (2, 6, 2, 8)))
    ours, formula = ATTENTION[name]
    check(nn.dot_product_attention(q, k, v, **ours), attention(q, k, v, **formula))
    check(tw.jit(lambda *a: nn.dot_product_attention(*a, **ours))(q, k, v), attention(q, k, v, **formula))


def test_attention_without_a_batch():
    q = np.random.default_rng(0).normal(size=(5, 4, 8)).astype(np.float32)
    result, residual = nn.dot_product_attention(q, q, q, return_residual=True)
    check(result, attention(q[None], q[None], q[None])[0])
    assert residual.shape == (5, 4)


def test_attention_of_shapes_that_disagree():
    q, k = jnp.zeros((1, 2, 3, 4)), jnp.zeros((1, 2, 2, 4))
    with pytest.raises(errors.ShapeError, match="K dividing N"):
        nn.dot_product_attention(q, k, k)


MOMENTS = {
    "glorot_normal": 2 / (300 + 200),
    "glorot_uniform": 2 / (300 + 200),
    "he_normal": 2 / 300,
    "he_uniform": 2 / 300,
    "lecun_normal": 1 / 300,
    "lecun_uniform": 1 / 300,
}


@pytest.mark.parametrize("name", MOMENTS)
def test_initializers_have_their_variance(name):
    w = getattr(nn.initializers, name)()(random.key(0), (300, 200))
    check(jnp.var(w), MOMENTS[name], MOMENTS[name] * 0.05)
    assert abs(float(jnp.mean(w))) < 0.01


@pytest.mark.parametrize("make", [
    nn.initializers.constant, nn.initializers.uniform, nn.initializers.orthogonal,
    lambda scale: nn.initializers.variance_scaling(scale**2, "fan_in", "normal", dtype=np.complex64),
])  # fmt: skip
def test_scales_of_initializers_may_be_traced(make):
    values = lambda scale: make(scale)(np.array([0, 7], np.uint32), (3, 2))  # noqa: E731
    one, twice, slope = by_numpy(lambda s: (values(1.0), values(s), tw.jvp(values, (s,), (s,))[1]), 2.0)
    check(twice, 2 * one)
    check(slope, 2 * one)


def test_variance_scaling_of_vectors_needs_to_know_the_inputs():
    with pytest.raises(tw.errors.ArgumentError, match="in_axis"):
        nn.initializers.variance_scaling(1.0, "fan_avg", "normal")(random.key(0), (3,))
    draw = lambda ins, outs: nn.initializers.variance_scaling(1.0, "fan_in", "normal", ins, outs)  # noqa: E731
    unit = random.normal(random.key(0), (4,))
    check(draw([0], [])(random.key(0), (4,)), unit / 2)  # four inputs
    check(draw([], [0])(random.key(0), (4,)), unit)  # one


def test_orthogonal_initializers():
    for shape in ((5, 3), (3, 5)):
        w = np.asarray(nn.initializers.orthogonal()(random.key(1), shape))
        product = w.T @ w if shape[0] > shape[1] else w @ w.T
        check(product, np.eye(3), 1e-5)
    delta = np.asarray(nn.initializers.delta_orthogonal()(random.key(1), (3, 3, 2, 4)))
    check(delta[1, 1] @ delta[1, 1].T, np.eye(2), 1e-5)
    assert not delta[0].any()
    even = np.asarray(nn.initializers.delta_orthogonal()(random.key(1), (4, 2, 2)))
    assert [i for i in range(4) if even[i].any()] == [1]


def test_initializer_of_a_vector_is_refused():
    with pytest.raises(errors.ArgumentError, match="two dimensions"):
        nn.initializers.he_normal()(random.key(0), (3,))


def vector(function, *arrays):
    return np.vectorize(function)(*arrays)


P, U = np.linspace(0.1, 4, 7), np.linspace(0.02, 0.98, 7)
SPECIAL = {
    "erf": ((X,), math.erf),
    "erfc": ((X,), math.erfc),
    "gammaln": ((P,), math.lgamma),
    "gamma": ((P,), math.gamma),
    "factorial": ((P,), lambda x: math.gamma(x + 1)),
    "expit": ((X,), sigmoid),
    "logit": ((U,), lambda u: math.log(u / (1 - u))),
    "entr": ((P,), lambda x: -x * math.log(x)),
    "xlogy": ((P, P[::-1]), lambda x, y: x * math.log(y)),
    "xlog1py": ((P, P[::-1]), lambda x, y: x * math.log1p(y)),
    "rel_entr": ((P, P[::-1]), lambda x, y: x * math.log(x / y)),
    "kl_div": ((P, P[::-1]), lambda x, y: x * math.log(x / y) - x + y),
    "betaln": ((P, P[::-1]), lambda a, b: math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)),
    "poch": ((P, P[::-1]), lambda z, m: math.gamma(z + m) / math.gamma(z)),
    "boxcox": ((P, P[::-1]), lambda x, p: (x**p - 1) / p),
    "ndtr": ((X,), phi),
    "log_ndtr": ((X,), lambda x: math.log(phi(x))),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special(name):
    arguments, formula = SPECIAL[name]
    with tw.config(enable_x64=True):
        check(getattr(special, name)(*map(jnp.asarray, arguments)), vector(formula, *arguments), 1e-9)


def test_special_at_the_limits():
    check(special.xlogy(0.0, 0.0), 0)
    check(special.entr(jnp.array([0.0, -1.0])), [0, -np.inf])
    check(special.ndtri(special.ndtr(jnp.array([-1.0, 0.5]))), [-1, 0.5])
    check(special.bernoulli(4), [1, -0.5, 1 / 6, 0, -1 / 30])
    # Far below zero the derivative tends to -x.
    check(tw.grad(special.log_ndtr)(-50.0), 50.02, 1e-4)


def test_normal_distribution():
    x = jnp.asarray(U)
    check(stats.norm.logpdf(x, 0.2, 0.5), -0.5 * ((U - 0.2) / 0.5) ** 2 - math.log(0.5 * math.sqrt(2 * math.pi)))
    check(stats.norm.pdf(x), np.exp(-0.5 * U**2) / math.sqrt(2 * math.pi))
    check(stats.norm.cdf(x, 0.2, 0.5), phi((U - 0.2) / 0.5))
    check(stats.norm.cdf(stats.norm.ppf(x)), U)
    check(stats.norm.sf(stats.norm.isf(x)), U)
    check(np.exp(stats.norm.logsf(x)), 1 - phi(U))
