"""Array expressions under `jit`: as they run by default, by XLA alone, and by jax.

Each side is a process of its own on one core, in turns; of a call the median CPU time of several.
"""

from __future__ import annotations

import datetime
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from ..harness import RESULTS, ROOT, Api, duration

ROWS, COLUMNS = 4096, 1024
CALLS, LAYERS, WIDTH, TOKENS, BATCH, HEADS, LETTERS = 9, 4, 256, 256, 8, 4, 4096
SIDES = ("default", "xla", "jax")


def layer_norm(api: Api, x: Any, scale: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    return (x - mean) * api.lax.rsqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * scale


def softmax(api: Api, x: Any, scale: Any) -> Any:
    e = api.np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def cross_entropy(api: Api, x: Any, scale: Any) -> Any:
    labels = api.np.arange(len(x)) % COLUMNS
    return -api.np.take_along_axis(api.nn.log_softmax(x), labels[:, None], -1).mean()


def batch_norm(api: Api, x: Any, scale: Any) -> Any:
    return (x - x.mean(0)) / api.np.sqrt(x.var(0) + 1e-5) * scale


def unit_rows(api: Api, x: Any, scale: Any) -> Any:
    return x / api.np.linalg.norm(x, axis=-1, keepdims=True)


def best(api: Api, x: Any, scale: Any) -> Any:
    return x.argmax(-1), x.max(-1)


def squared_error(api: Api, x: Any, scale: Any) -> Any:
    return ((x * scale - 1) ** 2).mean()


def gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of the sum of squares of a function's result."""
    return lambda api, x, scale: api.grad(lambda *xs: (f(api, *xs) ** 2).sum(), (0, 1))(x, scale)


EXPRESSIONS: dict[str, Callable[..., Any]] = {
    "layer norm": layer_norm, "layer norm, gradients": gradient(layer_norm),
    "softmax": softmax, "softmax, gradient": gradient(softmax),
    "cross entropy": cross_entropy, "cross entropy, gradient": gradient(cross_entropy),
    "batch norm": batch_norm, "batch norm, gradients": gradient(batch_norm),
    "rows of length 1": unit_rows, "argmax and max of rows": best,
    "squared error": squared_error, "squared error, gradients": gradient(squared_error),
    "gelu": lambda api, x, scale: api.nn.gelu(x * scale), "sum": lambda api, x, scale: x.sum(),
}  # fmt: skip

# ---------------------------------------------------------------------------- a training step


def _loss(api: Api, params: Any, codes: Any) -> Any:
    heads = (BATCH, TOKENS, HEADS, WIDTH // HEADS)
    below = api.np.tril(api.np.ones((TOKENS, TOKENS), bool))
    x = params["table"][codes[:, :-1]]
    for p in params["layers"]:
        q, k, v = (a.reshape(heads) for a in api.np.split(layer_norm(api, x, p["norm"]) @ p["qkv"], 3, -1))
        scores = api.np.where(below, api.np.einsum("bqhd,bkhd->bhqk", q, k) / 8, -1e30)
        x = x + api.np.einsum("bhqk,bkhd->bqhd", softmax(api, scores, 1), v).reshape(x.shape) @ p["out"]
        x = x + api.nn.gelu(layer_norm(api, x, p["norm2"]) @ p["up"]) @ p["down"]
    logits = api.nn.log_softmax(layer_norm(api, x, params["norm"]) @ params["head"])
    return -api.np.take_along_axis(logits, codes[:, 1:, None], -1).mean()


def transformer(api: Api) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A step of Adam of a transformer written in array operations, and its arguments."""
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        return api.np.asarray(rng.standard_normal(shape, dtype=np.float32) / shape[0] ** 0.5)

    def layer() -> dict[str, Any]:
        return {"qkv": weights(WIDTH, 3 * WIDTH), "out": weights(WIDTH, WIDTH), "up": weights(WIDTH, 4 * WIDTH),
                "down": weights(4 * WIDTH, WIDTH), "norm": api.np.ones(WIDTH), "norm2": api.np.ones(WIDTH)}  # fmt: skip

    params = {"table": weights(LETTERS, WIDTH), "head": weights(WIDTH, LETTERS), "norm": api.np.ones(WIDTH),
              "layers": [layer() for _ in range(LAYERS)]}  # fmt: skip
    zeros = api.tree.map(api.np.zeros_like, params)
    codes = api.np.asarray(rng.integers(0, LETTERS, (BATCH, TOKENS + 1)).astype(np.int32))

    def step(params: Any, m: Any, v: Any, codes: Any) -> Any:
        value, grads = api.value_and_grad(lambda p: _loss(api, p, codes))(params)
        m = api.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, grads)
        v = api.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, grads)
        return api.tree.map(lambda p, m, v: p - 1e-3 * m / (api.np.sqrt(v) + 1e-8), params, m, v), m, v, value

    return step, (params, zeros, zeros, codes)


# ---------------------------------------------------------------------------- measuring


def measured(side: str, only: str) -> dict[str, float]:
    """Seconds of each expression in this process."""
    api = Api("jax" if side == "jax" else "tilewright")
    if side == "xla":
        api.config.update("cpu_tiles", False)
    rng = np.random.default_rng(0)
    given = tuple(api.np.asarray(rng.standard_normal(s, dtype=np.float32)) for s in ((ROWS, COLUMNS), (COLUMNS,)))
    cases = {name: ((lambda *xs, f=f: f(api, *xs)), given) for name, f in EXPRESSIONS.items()}
    cases["transformer of four layers, training step"] = transformer(api)
    return {name: _seconds(api, f, args) for name, (f, args) in cases.items() if only in name}


def _seconds(api: Api, f: Callable[..., Any], args: Any) -> float:
    call, times = api.jit(f), []
    api.block_until_ready(call(*args))
    for _ in range(CALLS):
        start = time.process_time()
        api.block_until_ready(call(*args))
        times.append(time.process_time() - start)
    return statistics.median(times)


def compare(python: str, rounds: int, only: str) -> dict[str, dict[str, float]]:
    """The median of rounds, by expression and side; the sides of a round run in turns."""
    found: dict[str, dict[str, list[float]]] = {}
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    for number in range(rounds):
        for side in SIDES if number % 2 else SIDES[::-1]:
            command = [python if side == "jax" else sys.executable, "-m", __name__, side, only]
            environment = {**os.environ, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
            done = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
            for name, seconds in json.loads(done.stdout.splitlines()[-1]).items():
                found.setdefault(name, {}).setdefault(side, []).append(seconds)
    return {name: {s: statistics.median(t) for s, t in sides.items()} for name, sides in found.items()}


def table(found: dict[str, dict[str, float]], about: dict[str, str]) -> str:
    """The result file: each side's time, and the ratios of ours to the two others."""
    ratios = {name: (t["default"] / t["xla"], t["default"] / t["jax"]) for name, t in found.items()}
    rows = [(n, *(duration(t[s]) for s in SIDES), *(f"{r:.2f}" for r in ratios[n])) for n, t in found.items()]
    means = [math.exp(statistics.fmean(map(math.log, column))) for column in zip(*ratios.values(), strict=True)]
    rows.append(("**geometric mean**", "", "", "", *(f"{m:.2f}" for m in means)))
    head = ("expression", "by default", "XLA alone", "jax", "to XLA", "to jax")
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ("---", *["--:"] * (len(head) - 1)), *rows))
    date = datetime.date.today()
    known = ", ".join(f"{k} {v}" for k, v in (about | {"date": str(date)}).items())
    return f"# cpu_expressions\n\n`python -m benchmarks cpu --expressions`; {known}.\n\n{text}\n"


def write(python: str, rounds: int, only: str, about: dict[str, str]) -> str:
    """Measure, and write the result file if that is of all expressions; returns its text."""
    text = table(compare(python, rounds, only), about)
    if not only:
        (RESULTS / "cpu_expressions.md").write_text(text)
    return text


if __name__ == "__main__":
    print(json.dumps(measured(*sys.argv[1:])))
