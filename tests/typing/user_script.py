"""What type checkers know of a user's script: `test_user_script.py` checks that it has no errors in strict mode."""

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright import random


@tw.jit
def predict(w: tw.Array, x: tw.Array) -> tw.Array:
    return tnp.tanh(x @ w).sum(axis=-1)


def loss(w: tw.Array, x: tw.Array, y: tw.Array) -> tw.Array:
    return ((predict(w, x) - y) ** 2).mean()


@tw.custom_vjp
def clipped(x: tw.Array) -> tw.Array:
    return tnp.clip(x, -1.0, 1.0)


def forward(x: tw.Array) -> tuple[tw.Array, tw.Array]:
    return clipped(x), x


def backward(x: tw.Array, ct: tw.Array) -> tuple[tw.Array]:
    return (tnp.where(abs(x) < 1, ct, 0.0),)


clipped.defvjp(forward, backward)


def body(x: tw.Ref, out: tw.Ref) -> None:
    out[...] = 2 * x[...]


@tw.autotune(space={"rows": [2, 4]})
def double(x: tw.Array, *, rows: int = 2) -> tw.Array:
    block = tl.BlockSpec((rows,), lambda i: (i,))
    out: tw.Array = tl.kernel_call(body, x, grid=tl.cdiv(x.size, rows), in_specs=block, out_specs=block)(x)
    return out


def main() -> tuple[tw.Array, ...]:
    w, x = random.normal(random.key(0), (4,)), tnp.ones((8, 4), dtype=tnp.float32)
    slope: tw.Array = tw.grad(loss)(w, x, tnp.zeros(8))
    value, _ = tw.value_and_grad(loss)(w.at[0].set(0.5) - 0.1 * slope, x, tnp.zeros(8))
    print(predict.lower(w, x).as_text(), double.defaults(), tw.explain(double, w), x.shape, x.dtype)
    return value, tw.vmap(clipped)(x), double(w)
