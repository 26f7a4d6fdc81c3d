"""The spine's speed: dispatch, large elementwise arrays, a training step, import, lowering, disk cache, a kernel."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from .harness import Api, Case, Side, per_call, versus

SIDE = 4096
MLP = (784, 1024, 1024, 10)
BATCH = 256
DEPTH, WIDTH = 24, 256
SIZE, BLOCK = 1024, 128

# ------------------------------------------------------------------------------------------------ dispatch


def eager_add(api: Api) -> float:
    a, b = api.np.ones(8), api.np.ones(8)
    return per_call(lambda: a + b, api.block_until_ready, calls=1000)


def jitted_add(count: int) -> Callable[[Api], float]:
    """A jitted sum of `count` small arrays."""

    def measure(api: Api) -> float:
        args = [api.np.ones(8) for _ in range(count)]
        f = api.jit(lambda *args: sum(args[1:], start=args[0]))
        return per_call(lambda: f(*args), api.block_until_ready, calls=1000)

    return measure


# -------------------------------------------------------------------------------------------- large arrays


def softmax(api: Api, x: Any) -> Any:
    e = api.np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(api: Api, x: Any) -> Any:
    return 0.5 * x * (1 + api.np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def layer_norm(api: Api, x: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred * api.lax.rsqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5)


def large(f: Callable[[Api, Any], Any]) -> Callable[[Api], float]:
    """A jitted function of one 4096 x 4096 float32 array, each call waited for."""

    def measure(api: Api) -> float:
        import numpy as np

        x = api.np.asarray(np.random.default_rng(0).standard_normal((SIDE, SIDE), dtype=np.float32))
        jitted = api.jit(lambda x: f(api, x))
        return per_call(lambda: jitted(x), api.block_until_ready, calls=1, samples=25)

    return measure


# ------------------------------------------------------------------------------------------------ training


def training_step(api: Api) -> float:
    """One jitted step of gradient descent of a 784-1024-1024-10 classifier on a batch of 256."""
    import numpy as np

    rng = np.random.default_rng(0)
    params = [
        (api.np.asarray(rng.standard_normal((n, m), dtype=np.float32) * 0.03), api.np.zeros(m))
        for n, m in zip(MLP, MLP[1:])
    ]
    x = api.np.asarray(rng.standard_normal((BATCH, MLP[0]), dtype=np.float32))
    labels = api.np.asarray(rng.integers(0, MLP[-1], BATCH).astype(np.int32))

    def loss(params: Any) -> Any:
        hidden = x
        for w, b in params[:-1]:
            hidden = api.np.maximum(hidden @ w + b, 0)
        w, b = params[-1]
        chosen = api.nn.one_hot(labels, MLP[-1]) * api.nn.log_softmax(hidden @ w + b)
        return -chosen.sum(axis=-1).mean()

    @api.jit
    def step(params: Any) -> Any:
        grads = api.grad(loss)(params)
        return [(w - 0.01 * dw, b - 0.01 * db) for (w, b), (dw, db) in zip(params, grads)]

    return per_call(lambda: step(params), api.block_until_ready, calls=1, samples=40)


# ------------------------------------------------------------------------------ import, lowering, disk cache


def import_seconds(library: str) -> float:
    start = time.perf_counter()
    Api(library)
    return time.perf_counter() - start


def deep_gradient(api: Api) -> tuple[Any, Any]:
    """The jitted gradient of a 24-layer MLP, new each time, and its arguments."""
    import numpy as np

    rng = np.random.default_rng(0)
    params = [
        (rng.standard_normal((WIDTH, WIDTH), dtype=np.float32) * 0.06, np.zeros(WIDTH, np.float32))
        for _ in range(DEPTH)
    ]
    x = rng.standard_normal((32, WIDTH), dtype=np.float32)

    def loss(params: Any, x: Any) -> Any:
        for w, b in params:
            x = api.np.tanh(x @ w + b)
        return (x * x).mean()

    return api.jit(api.grad(loss)), (params, x)


def trace_and_lower(api: Api) -> float:
    def lower() -> None:
        f, args = deep_gradient(api)
        nonlocal spent
        start = time.perf_counter()
        f.lower(*args)  # both sides have their module when it returns
        spent = time.perf_counter() - start

    spent, times = 0.0, []
    for _ in range(12):
        lower()
        times.append(spent)
    return sorted(times[2:])[5]


def first_result(library: str) -> float:
    """Seconds from after the import to the gradient's first result; its random operands are made before."""
    api = Api(library)
    f, args = deep_gradient(api)
    start = time.perf_counter()
    api.block_until_ready(f(*args))
    return time.perf_counter() - start


# -------------------------------------------------------------------------------------------------- kernel


def matmul_kernel(api: Api) -> Callable[[Any, Any], Any]:
    """A gridded matrix product in 128-blocks that accumulates over k in scratch."""
    tl = api.lang

    def body(a: Any, b: Any, out: Any, acc: Any) -> None:
        k = tl.program_id(2)

        @tl.when(k == 0)
        def _() -> None:
            acc[...] = api.np.zeros((BLOCK, BLOCK), "float32")

        acc[...] += a[...] @ b[...]

        @tl.when(k == SIZE // BLOCK - 1)
        def _() -> None:
            out[...] = acc[...]

    if api.name == "jax":
        from jax.experimental.pallas import tpu

        entry, scratch, options = tl.pallas_call, tpu.VMEM, {"interpret": True}
    else:
        entry, scratch, options = tl.kernel_call, tl.VMEM, {}
    return entry(
        body,
        out_shape=api.ShapeDtypeStruct((SIZE, SIZE), "float32"),
        grid=(SIZE // BLOCK,) * 3,
        in_specs=[
            tl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, k)),
            tl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j)),
        ],
        out_specs=tl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (i, j)),
        scratch_shapes=[scratch((BLOCK, BLOCK), "float32")],
        **options,
    )


def product(api: Api, f: Callable[[Any, Any], Any]) -> float:
    import numpy as np

    rng = np.random.default_rng(0)
    a, b = (api.np.asarray(rng.standard_normal((SIZE, SIZE), dtype=np.float32)) for _ in range(2))
    jitted = api.jit(f)
    assert np.abs(np.asarray(jitted(a, b)) - np.asarray(a) @ np.asarray(b)).max() < 1e-2
    return per_call(lambda: jitted(a, b), api.block_until_ready, calls=1)


def kernel_seconds(library: str) -> float:
    api = Api(library)
    return product(api, matmul_kernel(api))


def dot_seconds(library: str) -> float:
    api = Api(library)
    return product(api, lambda a, b: a @ b)


CASES = [
    versus("eager a + b", eager_add, 0.7),
    versus("jitted call, 2 arguments", jitted_add(2), 1.1),
    versus("jitted call, 8 arguments", jitted_add(8), 1.0),
    versus("x + 1, 4096 x 4096", large(lambda api, x: x + 1), 0.4),
    versus("softmax, 4096 x 4096", large(softmax), 0.4),
    versus("gelu, 4096 x 4096", large(gelu), 0.4),
    versus("layer norm, 4096 x 4096", large(layer_norm), 0.4),
    versus("MLP training step", training_step, 1.0),
    Case(
        "import",
        Side("tilewright", import_seconds, prepare=import_seconds),
        Side("jax", import_seconds, prepare=import_seconds),
        0.35,
    ),
    versus("trace and lower, 24-layer MLP gradient", trace_and_lower, 1.2),
    Case(
        "first result of it, warm disk cache against none",
        Side("tilewright", first_result, prepare=first_result),
        Side("jax", first_result),
        0.3,
    ),
    Case(
        "matmul kernel against dot, 1024^3",
        Side("tilewright", kernel_seconds, label="kernel"),
        Side("tilewright", dot_seconds, label="(tilewright, dot)"),
        1.5,
    ),
    Case(
        "matmul kernel against interpreted, 1024^3",
        Side("tilewright", kernel_seconds, label="kernel"),
        Side("jax", kernel_seconds, label="interpreted"),
        0.1,
    ),
]
