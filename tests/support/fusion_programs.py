"""The programs that fusion is tested on: small ones, four that the documentation shows, and random ones."""

import numpy as np
from hypothesis import strategies as st

import tilewright as tw
from tilewright import lax, nn
from tilewright import numpy as tnp

RNG = np.random.default_rng(0)


def normal(*shape, dtype=np.float32):
    return RNG.standard_normal(shape).astype(dtype)


def layer_norm(x, gain, bias):
    centred = x - tnp.mean(x, -1, keepdims=True)
    return centred * lax.rsqrt(tnp.mean(centred * centred, -1, keepdims=True) + 1e-5) * gain + bias


def mlp(w1, b1, w2, b2, x):
    return nn.gelu(x @ w1 + b1) @ w2 + b2


def attention(q, k, v):
    scores = tnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    scores = tnp.where(tnp.tril(tnp.ones(scores.shape[-2:], bool)), scores, -1e30)
    return tnp.einsum("bhqk,bkhd->bqhd", nn.softmax(scores, -1), v)


def cross_entropy(logits, labels):
    picked = tnp.take_along_axis(nn.log_softmax(logits * 2), labels[:, None], -1)
    return -picked[:, 0]


def square_sum(f, *argnums):
    return tw.grad(lambda *xs: tnp.sum(f(*xs) ** 2), argnums or 0)


X, Y = normal(7, 10), normal(7, 10)
W, V = normal(10, 6), normal(6, 9)
LABELS = RNG.integers(0, 10, 7).astype(np.int32)
CASES = {
    "chain": (lambda x, y: tnp.tanh(x * y + 1) - y, (X, Y)),
    "two_outputs": (lambda x, y: (tnp.exp(x) + y, tnp.exp(x) * 2), (X, Y)),
    "broadcasts": (lambda x, r, c: (x + r[None, :]) * c[:, None] + r[:7, None], (X, Y[0], Y[:, 0])),
    "mixed_dtypes": (lambda x, i, b: tnp.where(b, x.astype("bfloat16") * 2, i.astype("bfloat16")),
                     (X, RNG.integers(-9, 9, (7, 10)).astype(np.int32), X > 0)),
    "transposed": (lambda x: tnp.tanh(x.T) * 2 + tnp.sum(x, 0)[:, None], (X,)),
    "with_its_transpose": (lambda x: x + x.T * 2, (normal(6, 6),)),
    "softmax": (lambda x: nn.softmax(x, -1), (X,)),
    "softmax_columns": (lambda x: nn.softmax(x, 0), (X,)),
    "log_softmax": (lambda x: nn.log_softmax(x, -1), (X,)),
    "softmax_grad": (square_sum(lambda x: nn.softmax(x * 2, -1)), (X,)),
    "layer_norm": (layer_norm, (X, normal(10), normal(10))),
    "layer_norm_grad": (square_sum(layer_norm, 0, 1, 2), (X, normal(10), normal(10))),
    "mean_and_variance": (lambda x: (tnp.mean(x, -1), tnp.var(x, -1)), (X,)),
    "columns": (lambda x: (tnp.sum(x * x, 0), tnp.max(x, 0)), (X,)),
    "everything": (lambda x, y: tnp.sum(tnp.exp(x) * y) / 7, (X, Y)),
    "products": (lambda x: tnp.prod(x, -1) + tnp.min(x, -1), (X,)),
    "narrow_sums": (lambda x: tnp.sum(tnp.tanh(x), 0) * 2, (normal(33, 6, dtype="bfloat16"),)),
    "booleans": (lambda x: (tnp.any(x > 1, -1), tnp.all(x > -3, 0)), (X,)),
    "positions": (lambda x: tnp.argmax(x * 2, -1) + tnp.argmin(x, -1), (X,)),
    "running": (lambda x: tnp.cumsum(tnp.exp(x), -1) / 2, (X,)),
    "bias_gelu": (lambda x, w, b: nn.gelu(x @ w + b), (X, W, normal(6))),
    "residual": (lambda x, w, r: r + 0.5 * (x @ w), (X, W, normal(7, 6))),
    "prologue": (lambda x, w: (tnp.tanh(x) * 2) @ w, (X, W)),
    "dequantised": (lambda x, q, s: x @ (q.astype("float32") * s),
                    (X, RNG.integers(-127, 127, (10, 6)).astype(np.int8), normal(6))),
    "narrow_product": (lambda x, w: tnp.tanh(x @ w),
                       (normal(9, 33, dtype="bfloat16"), normal(33, 6, dtype="bfloat16"))),
    "with_itself": (lambda x: tnp.tanh(x @ x.T) + lax.dot_general(x, x, (((1,), (1,)), ((), ()))), (X,)),
    "batched": (lambda x, w: nn.relu(tnp.einsum("bij,bjk->bik", x, w)), (normal(3, 5, 6), normal(3, 6, 4))),
    "of_a_row_sum": (lambda x, w: (x / tnp.sum(x * x, -1, keepdims=True)) @ w, (X, W)),
    "rows_of_a_product": (lambda x, w: nn.softmax(x @ w, -1), (X, W)),
    "product_of_a_product": (lambda x, w, v: nn.relu(x @ w) @ v, (X, W, V)),
    "mlp_grad": (square_sum(mlp, 0, 1, 2, 3, 4), (W, normal(6), V, normal(9), X)),
    "attention": (attention, (normal(2, 6, 2, 4), normal(2, 6, 2, 4), normal(2, 6, 2, 4))),
    "attention_grad": (square_sum(attention, 0, 1, 2), (normal(2, 5, 2, 4), normal(2, 5, 2, 4), normal(2, 5, 2, 4))),
    "cross_entropy": (cross_entropy, (X, LABELS)),
    "cross_entropy_grad": (tw.value_and_grad(lambda x, i: tnp.mean(cross_entropy(x, i))), (X, LABELS)),
    "complex": (lambda x, y: tnp.abs(lax.complex(x, y) * 2), (X, Y)),
}  # fmt: skip


def case(name):
    return CASES[name]


# ---------------------------------------------------------------------------- shown in the documentation


def struct(*shape, dtype="float32"):
    return tw.ShapeDtypeStruct(shape, dtype)


def block(p, x):
    """A pre-norm transformer block."""
    batch, length, width = x.shape
    heads = (batch, length, width // 64, 64)
    h = layer_norm(x, p["gain1"], p["bias1"])
    q, k, v = (tnp.reshape(h @ p[name], heads) for name in ("query", "key", "value"))
    x = x + tnp.reshape(attention(q, k, v), x.shape) @ p["out"]
    return x + mlp(p["up"], p["up_bias"], p["down"], p["down_bias"], layer_norm(x, p["gain2"], p["bias2"]))


def loss(p, x, labels):
    logits = block(p, x) @ p["logits"]
    return -tnp.mean(tnp.take_along_axis(nn.log_softmax(logits), labels[..., None], -1))


def parameters(width, hidden, words):
    square, vector = struct(width, width), struct(width)
    return {
        "gain1": vector, "bias1": vector, "gain2": vector, "bias2": vector, "query": square, "key": square,
        "value": square, "out": square, "up": struct(width, hidden), "up_bias": struct(hidden),
        "down": struct(hidden, width), "down_bias": vector, "logits": struct(width, words),
    }  # fmt: skip


def layer_norm_loss(x, gain, bias):
    return tnp.sum(layer_norm(x, gain, bias) ** 2)


SHOWN = {
    "mlp": (mlp, (struct(512, 2048), struct(2048), struct(2048, 512), struct(512), struct(4096, 512))),
    "softmax": (nn.softmax, (struct(4096, 1024),)),
    "layer_norm": (tw.value_and_grad(layer_norm_loss, (0, 1, 2)), (struct(4096, 768), struct(768), struct(768))),
    "transformer_step": (tw.value_and_grad(loss), (
        parameters(512, 2048, 8192), struct(8, 512, 512), struct(8, 512, dtype="int32"))),
}  # fmt: skip


# ---------------------------------------------------------------------------- random programs

SMOOTH = (tnp.tanh, tnp.sin, lambda x: x * 0.5 + 1, lambda x: x * x, tnp.logaddexp)
ROUGH = (tnp.abs, tnp.sign, lambda x: tnp.where(x > 0, x, -x * 0.1), tnp.floor)


def _step(data, values, differentiable):
    """One more value, of shape (rows, columns), (columns, rows), (rows,), (columns,) or ()."""
    x = data.draw(st.sampled_from(values))
    kind = data.draw(st.sampled_from(("map", "pair", "sum", "most", "back", "turn", "product", "keep")))
    if kind == "map":
        f = data.draw(st.sampled_from(SMOOTH[:4] + (() if differentiable else ROUGH)))
        return f(x)
    if kind == "pair":
        same = [v for v in values if v.shape == x.shape or not v.shape]
        y = data.draw(st.sampled_from(same))
        return data.draw(st.sampled_from((lambda a, b: a + b, lambda a, b: a * tnp.tanh(b), lambda a, b: a - b)))(x, y)
    if kind in ("sum", "most") and x.ndim:
        axis = data.draw(st.sampled_from((None, *range(x.ndim))))
        return tnp.mean(x, axis) if kind == "sum" or differentiable else tnp.max(x, axis)
    if kind == "back" and x.ndim:
        axis = data.draw(st.integers(0, x.ndim - 1))
        return x / (1 + tnp.sum(x * x, axis, keepdims=True))
    if kind == "turn" and x.ndim == 2:
        return x.T
    if kind == "product" and x.ndim == 2:
        other = [v for v in values if v.ndim == 2 and v.shape[0] == x.shape[1]]
        if other:
            return tnp.tanh(x @ data.draw(st.sampled_from(other)))
    if kind == "keep" and x.ndim == 1:
        wide = [v for v in values if v.ndim == 2 and x.shape[0] in v.shape]
        if wide:
            y = data.draw(st.sampled_from(wide))
            return y * (x[None, :] if y.shape[1] == x.shape[0] else x[:, None])
    return x + 1


def random_program(data, differentiable=False):
    """A function of three arrays, of values drawn one after the other, with its operands."""
    rows, columns = data.draw(st.sampled_from([(5, 6), (4, 7), (1, 5)]))
    args = (normal(rows, columns), normal(columns, rows), normal(columns))

    def function(*xs):
        values = list(xs)
        for _ in range(data.draw(st.integers(3, 12))):
            values.append(_step(data, values, differentiable))
        count = data.draw(st.integers(1, 3))
        return tuple(values[-count:])

    return function, args
