"""Fused operations: CPU time on one core and temporaries against the unfused expression here, and time against jax."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .harness import Api, Case, Side, per_call

ROWS, WIDTH, VOCABULARY = 4096, 256, 32768
TOKENS, HEADS, HEAD = 4096, 4, 64
LEAVES, LEAF = 100, (256, 256)
CLASSES, HIDDEN, GROUPS = 8192, 1024, 32
Made = tuple[Callable[..., Any], tuple[Any, ...]]  # a function to jit, and its arguments


def _floats(api: Api, *shape: int, seed: int = 0) -> Any:
    return api.np.asarray(np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) * 0.1)


def linear_cross_entropy(api: Api, fused: bool) -> Made:
    """Value and gradient of the mean loss."""
    labels = api.np.asarray(np.random.default_rng(0).integers(0, VOCABULARY, ROWS).astype(np.int32))

    def plain(x: Any, w: Any, labels: Any) -> Any:
        logits = x @ w
        chosen = api.np.take_along_axis(logits, labels[:, None], -1)[:, 0]
        return (api.nn.logsumexp(logits, -1) - chosen).mean()

    f = api.nn.linear_cross_entropy if fused else plain
    return api.value_and_grad(f, (0, 1)), (_floats(api, ROWS, WIDTH), _floats(api, WIDTH, VOCABULARY, seed=1), labels)


def attention(causal: bool) -> Callable[[Api, bool], Made]:
    """Gradients of query, key and value."""

    def make(api: Api, fused: bool) -> Made:
        given = tuple(_floats(api, 1, TOKENS, HEADS, HEAD, seed=i) for i in range(3))
        implementation = "fused" if fused else "xla"

        def loss(q: Any, k: Any, v: Any) -> Any:
            out = api.nn.dot_product_attention(q, k, v, is_causal=causal, implementation=implementation)
            return (out * out).sum()

        return api.grad(loss, (0, 1, 2)), given

    return make


def adamw(api: Api, fused: bool) -> Made:
    """A step over 100 leaves."""
    params = [_floats(api, *LEAF, seed=i) for i in range(LEAVES)]
    moments = {"count": api.np.zeros((), "int32"), "m": params, "v": [p * p for p in params]}

    def plain(params: Any, grads: Any, state: Any) -> Any:
        t = state["count"] + 1
        c1, c2 = 1 / (1 - 0.9**t), 1 / (1 - 0.999**t)
        m = [0.9 * m + 0.1 * g for m, g in zip(state["m"], grads)]
        v = [0.999 * v + 0.001 * g * g for v, g in zip(state["v"], grads)]
        new = [p - 1e-3 * (a * c1 / (api.np.sqrt(b * c2) + 1e-8) + 1e-4 * p) for p, a, b in zip(params, m, v)]
        return new, {"count": t, "m": m, "v": v}

    def one(params: Any, grads: Any, state: Any) -> Any:
        return api.nn.adamw(params, grads, state, learning_rate=1e-3)

    return (one if fused else plain), (params, params, moments)


def rows_of(*shapes: tuple[int, ...]) -> Callable[[Api], tuple[Any, ...]]:
    return lambda api: tuple(_floats(api, *shape, seed=i) for i, shape in enumerate(shapes))


def gradient(
    given: Callable[[Api], tuple[Any, ...]], ours: Callable[..., Any], plain: Callable[..., Any]
) -> Callable[[Api, bool], Made]:
    """Gradients in every operand of the sum of squares of the results; both sides are functions of Api and operands."""

    def make(api: Api, fused: bool) -> Made:
        args, f = given(api), ours if fused else plain

        def loss(*args: Any) -> Any:
            made = f(api, *args)
            return sum((y * y).sum() for y in (made if isinstance(made, tuple) else (made,)))

        return api.grad(loss, tuple(range(len(args)))), args

    return make


def _normal(api: Api, x: Any, axes: Any) -> Any:
    centred = x - x.mean(axes, keepdims=True)
    return centred * api.lax.rsqrt((centred * centred).mean(axes, keepdims=True) + 1e-5)


def plain_rms_norm(api: Api, x: Any, s: Any, r: Any) -> Any:
    total = x + r
    return total * api.lax.rsqrt((total * total).mean(-1, keepdims=True) + 1e-6) * s, total


def plain_group_norm(api: Api, x: Any, s: Any, b: Any) -> Any:
    split = x.reshape(x.shape[0], -1, GROUPS, x.shape[-1] // GROUPS)
    return _normal(api, split, (1, 3)).reshape(x.shape) * s + b


def plain_rotary(api: Api, x: Any) -> Any:
    half = x.shape[-1] // 2
    angles = api.np.arange(x.shape[1])[:, None] * 10000.0 ** (-api.np.arange(half) / half)
    c, s = api.np.cos(angles)[None, :, None, :], api.np.sin(angles)[None, :, None, :]
    a, b = x[..., :half], x[..., half:]
    return api.np.concatenate([a * c - b * s, b * c + a * s], -1)


def plain_log_softmax(api: Api, x: Any) -> Any:
    return x - api.nn.logsumexp(x, -1, keepdims=True)


def cross_entropy(api: Api, fused: bool) -> Made:
    """Gradient of the mean loss in the logits."""
    labels = api.np.asarray(np.random.default_rng(0).integers(0, CLASSES, ROWS).astype(np.int32))

    def plain(logits: Any, labels: Any) -> Any:
        return api.nn.logsumexp(logits, -1) - api.np.take_along_axis(logits, labels[:, None], -1)[:, 0]

    f = api.nn.cross_entropy if fused else plain
    return api.grad(lambda x, labels: f(x, labels).mean()), (_floats(api, ROWS, CLASSES), labels)


def gated(activation: str, ours: str) -> Callable[[Api, bool], Made]:
    def plain(api: Api, x: Any, gate: Any, up: Any, down: Any) -> Any:
        return (getattr(api.nn, activation)(x @ gate) * (x @ up)) @ down

    given = rows_of((ROWS, WIDTH), (WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
    return gradient(given, lambda api, *a: getattr(api.nn, ours)(*a), plain)


# Gradients of operations on rows: operands, the fused operation, the same in whole arrays.
MATRIX, VECTOR = (ROWS, 1024), (1024,)
GRADIENTS = {
    "softmax": gradient(
        rows_of(MATRIX), lambda api, x: api.nn.fused.softmax(x),
        lambda api, x: (lambda e: e / e.sum(-1, keepdims=True))(api.np.exp(x - x.max(-1, keepdims=True)))),
    "log-softmax": gradient(rows_of(MATRIX), lambda api, x: api.nn.fused.log_softmax(x), plain_log_softmax),
    "cross entropy": cross_entropy,
    "RMS norm with residual": gradient(
        rows_of(MATRIX, VECTOR, MATRIX), lambda api, x, s, r: api.nn.rms_norm(x, s, residual=r), plain_rms_norm),
    "layer norm with residual": gradient(
        rows_of(MATRIX, VECTOR, VECTOR, MATRIX), lambda api, x, s, b, r: api.nn.layer_norm(x, s, b, residual=r),
        lambda api, x, s, b, r: (_normal(api, x + r, -1) * s + b, x + r)),
    "group norm": gradient(
        rows_of((16, 256, 1024), VECTOR, VECTOR),
        lambda api, x, s, b: api.nn.group_norm(x, s, b, groups=GROUPS), plain_group_norm),
    "rotary embedding": gradient(
        rows_of((1, TOKENS, 16, HEAD)), lambda api, x: api.nn.rotary_embedding(x), plain_rotary),
    "SwiGLU": gated("silu", "swiglu"),
    "GeGLU": gated("gelu", "geglu"),
}  # fmt: skip


def seconds(make: Callable[[Api, bool], Made], fused: bool) -> Callable[[str], float]:
    def measure(library: str) -> float:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
        api = Api(library)
        f, args = make(api, fused)
        jitted = api.jit(f)
        return per_call(lambda: jitted(*args), api.block_until_ready, 1, samples=7, clock=time.process_time)

    return measure


def temporaries(make: Callable[[Api, bool], Made], fused: bool) -> Callable[[str], float]:
    """Bytes beyond inputs and results."""

    def measure(library: str) -> float:
        api = Api(library)
        f, args = make(api, fused)
        return float(api.jit(f).lower(*args).compile().memory_analysis().temp_size_in_bytes)

    return measure


def cases(name: str, make: Callable[[Api, bool], Made], time: float, memory: float | None) -> list[Case]:
    def against(measure: Any, library: str, what: str, wanted: float, unit: str = "seconds") -> Case:
        label = "" if library == "jax" else "(unfused)"
        sides = Side("tilewright", measure(make, True)), Side(library, measure(make, False), label=label)
        return Case(f"{name}, {what}", *sides, wanted, unit)

    found = [against(seconds, "tilewright", "time", time), against(seconds, "jax", "time against jax", time)]
    if memory is not None:
        found.append(against(temporaries, "tilewright", "temporaries", memory, "bytes"))
    return found


CASES = [
    *cases("linear and cross entropy", linear_cross_entropy, 0.8, 0.25),
    *cases("causal attention, 4096 tokens", attention(True), 0.9, 0.25),
    *cases("attention, 4096 tokens", attention(False), 0.9, 0.25),
    *cases("AdamW, 100 leaves", adamw, 0.8, None),
    *(case for name, make in GRADIENTS.items() for case in cases(f"{name}, gradient", make, 1.0, None)),
]
