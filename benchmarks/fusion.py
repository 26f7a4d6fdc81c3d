"""Forty array operations at three sizes, and a GPT block's training step, against jax.

    python -m benchmarks.fusion --rounds 5 --only softmax --baseline-python path/to/python/with/jax
    python -m benchmarks.fusion --rounds 5 --noise --baseline-python path/to/python/with/jax

Every operation is written once, against `Api`, and measured as it is called and under `jit`. A process measures all
operations of one library at one size; the processes of the two libraries take turns, their order changing each round.
The ratio of a row is the median over rounds of the pairs' ratios. Results go to `benchmarks/results/fusion.md`. With
`--noise` jax is measured against itself in the same way, to `fusion_noise.md`: what the machine alone makes of a ratio.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from .harness import RESULTS, ROOT, Api, duration

SIZES = {"1e3": 10**3, "1e5": 10**5, "1e7": 10**7}
FORMS = ("called", "jitted")
WANTED, MEAN, STEP = 1.15, 0.75, 0.95
COLUMNS = 100  # of the matrices
SAMPLE, SAMPLES = 4e-3, 7  # seconds of calls that one sample takes at least, and samples

Operation = Callable[[Any, Any, Any, Any, Any], Any]


def _gelu(np: Any, x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _layer_norm(api: Api, m: Any) -> Any:
    centred = m - m.mean(-1, keepdims=True)
    return centred * api.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


# name -> function of the library, vectors x and y, a matrix m of as many elements, and rows i of it
OPERATIONS: dict[str, Operation] = {
    "x + y": lambda api, x, y, m, i: x + y,
    "x * 2 + 1": lambda api, x, y, m, i: x * 2 + 1,
    "x / y": lambda api, x, y, m, i: x / y,
    "x ** 3": lambda api, x, y, m, i: x**3,
    "x % y": lambda api, x, y, m, i: x % y,
    "x > y": lambda api, x, y, m, i: x > y,
    "exp": lambda api, x, y, m, i: api.np.exp(x),
    "log": lambda api, x, y, m, i: api.np.log(y),
    "sqrt": lambda api, x, y, m, i: api.np.sqrt(y),
    "sin": lambda api, x, y, m, i: api.np.sin(x),
    "tanh": lambda api, x, y, m, i: api.np.tanh(x),
    "gelu": lambda api, x, y, m, i: _gelu(api.np, x),
    "maximum": lambda api, x, y, m, i: api.np.maximum(x, y),
    "where": lambda api, x, y, m, i: api.np.where(x > 0, x, y),
    "clip": lambda api, x, y, m, i: api.np.clip(x, -1, 1),
    "astype": lambda api, x, y, m, i: x.astype("int32"),
    "sum": lambda api, x, y, m, i: x.sum(),
    "sum, axis 0": lambda api, x, y, m, i: m.sum(0),
    "sum, axis 1": lambda api, x, y, m, i: m.sum(1),
    "mean": lambda api, x, y, m, i: x.mean(),
    "var, axis 1": lambda api, x, y, m, i: m.var(1),
    "max, axis 1": lambda api, x, y, m, i: m.max(1),
    "argmax, axis 1": lambda api, x, y, m, i: m.argmax(1),
    "any": lambda api, x, y, m, i: (x > 9).any(),
    "norm": lambda api, x, y, m, i: api.np.linalg.norm(x),
    "logsumexp": lambda api, x, y, m, i: api.nn.logsumexp(m, axis=-1),
    "softmax": lambda api, x, y, m, i: api.nn.softmax(m, axis=-1),
    "layer norm": lambda api, x, y, m, i: _layer_norm(api, m),
    "cumsum, axis 1": lambda api, x, y, m, i: m.cumsum(1),
    "sort, axis 1": lambda api, x, y, m, i: api.np.sort(m, axis=1),
    "transpose": lambda api, x, y, m, i: m.T + 0,
    "concatenate": lambda api, x, y, m, i: api.np.concatenate([x, y]),
    "pad": lambda api, x, y, m, i: api.np.pad(m, 1),
    "flip": lambda api, x, y, m, i: api.np.flip(m, 0),
    "roll": lambda api, x, y, m, i: api.np.roll(x, 7),
    "broadcast": lambda api, x, y, m, i: m[0] + m[:, :1],
    "take rows": lambda api, x, y, m, i: m[i],
    "add at rows": lambda api, x, y, m, i: m.at[i].add(1.0),
    "dot": lambda api, x, y, m, i: x @ y,
    "matmul": lambda api, x, y, m, i: m.T @ m,
}


def operands(api: Api, n: int) -> tuple[Any, ...]:
    import numpy as np

    rng, rows = np.random.default_rng(0), n // COLUMNS
    x, y = rng.standard_normal(n, dtype=np.float32), rng.uniform(0.5, 2, n).astype(np.float32)
    m, i = rng.standard_normal((rows, COLUMNS), dtype=np.float32), rng.integers(0, rows, rows).astype(np.int32)
    return tuple(map(api.np.asarray, (x, y, m, i)))


def seconds(f: Callable[[], Any], wait: Callable[[Any], Any]) -> float:
    """Median over samples of the time of a call; a sample is as many calls as take a while, waited for at its end."""
    wait(f())
    start = time.perf_counter()
    wait([f() for _ in range(3)])
    calls = max(1, math.ceil(SAMPLE / ((time.perf_counter() - start) / 3)))
    found = []
    for _ in range(SAMPLES):
        start = time.perf_counter()
        for _ in range(calls):
            result = f()
        wait(result)
        found.append((time.perf_counter() - start) / calls)
    return statistics.median(found)


def operation_times(library: str, size: str, names: Sequence[str]) -> dict[str, float]:
    """Seconds of each operation in each form, under `name, size, form`."""
    api = Api(library)
    given = operands(api, SIZES[size])
    found = {}
    for name in names:
        f = OPERATIONS[name]
        jitted = api.jit(lambda *given, f=f: f(api, *given))
        for form, call in (("called", lambda f=f: f(api, *given)), ("jitted", lambda j=jitted: j(*given))):
            found[f"{name}, {size}, {form}"] = seconds(call, api.block_until_ready)
    return found


# --------------------------------------------------------------------------------------------- the training step

TOKENS, BATCH, WIDTH, HEADS, VOCABULARY = 256, 8, 256, 4, 4096
GPT = "GPT block, training step"


def gpt_step(library: str) -> dict[str, float]:
    """A step of AdamW of one transformer block with its embedding and last layer, on (BATCH, TOKENS) tokens.

    With this package the operations of `nn` that are kernels; with jax the same in its own words.
    """
    import numpy as np

    api, rng = Api(library), np.random.default_rng(0)
    nn, jnp, fused = api.nn, api.np, library == "tilewright"

    def normal(*shape: int) -> Any:
        return jnp.asarray(rng.standard_normal(shape, dtype=np.float32) / shape[0] ** 0.5)

    params = {
        "table": normal(VOCABULARY, WIDTH), "head": normal(WIDTH, VOCABULARY), "qkv": normal(WIDTH, 3 * WIDTH),
        "out": normal(WIDTH, WIDTH), "up": normal(WIDTH, 4 * WIDTH), "down": normal(4 * WIDTH, WIDTH),
        "norms": [jnp.ones(WIDTH) for _ in range(3)],
    }  # fmt: skip
    codes = jnp.asarray(rng.integers(0, VOCABULARY, (BATCH, TOKENS + 1)).astype(np.int32))

    def norm(x: Any, scale: Any) -> Any:
        return nn.layer_norm(x, scale) if fused else _layer_norm(api, x) * scale

    def loss(params: Any, codes: Any) -> Any:
        x = params["table"][codes[:, :-1]]
        first, second, last = params["norms"]
        heads = (BATCH, TOKENS, HEADS, WIDTH // HEADS)
        q, k, v = (part.reshape(heads) for part in jnp.split(norm(x, first) @ params["qkv"], 3, axis=-1))
        x = x + nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape) @ params["out"]
        x = x + nn.gelu(norm(x, second) @ params["up"]) @ params["down"]
        x, labels = norm(x, last), codes[:, 1:]
        if fused:
            return nn.linear_cross_entropy(x, params["head"], labels)
        logits = x @ params["head"]
        return (nn.logsumexp(logits, axis=-1) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]).mean()

    def adamw(params: Any, grads: Any, state: Any) -> Any:
        if fused:
            return nn.adamw(params, grads, state, learning_rate=1e-3)
        t, walk = state["count"] + 1, api.tree.map
        m = walk(lambda m, g: 0.9 * m + 0.1 * g, state["m"], grads)
        v = walk(lambda v, g: 0.999 * v + 0.001 * g * g, state["v"], grads)
        c1, c2 = 1 / (1 - 0.9**t), 1 / (1 - 0.999**t)
        new = walk(lambda p, a, b: p - 1e-3 * (a * c1 / (jnp.sqrt(b * c2) + 1e-8) + 1e-4 * p), params, m, v)
        return new, {"count": t, "m": m, "v": v}

    @api.jit
    def step(params: Any, state: Any, codes: Any) -> Any:
        value, grads = api.value_and_grad(loss)(params, codes)
        return (*adamw(params, grads, state), value)

    zeros = api.tree.map(jnp.zeros_like, params)
    state = {"count": jnp.zeros((), "int32"), "m": zeros, "v": zeros}
    return {GPT: seconds(lambda: step(params, state, codes), api.block_until_ready)}


# ------------------------------------------------------------------------------------------------------ processes


def child(library: str, what: str, names: Sequence[str]) -> dict[str, float]:
    return gpt_step(library) if what == GPT else operation_times(library, what, names)


def spawn(library: str, what: str, names: Sequence[str], cache: str, python: str) -> dict[str, float]:
    """The numbers of `child` in a new process."""
    command = [python, "-m", "benchmarks.fusion", "--child", library, what, *names]
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(f"{library}, {what}:\n{done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


Pairs = dict[str, list[tuple[float, float]]]


def measure(what: str, names: Sequence[str], rounds: int, cache: str, sides: Sequence[tuple[str, str]]) -> Pairs:
    """For each measurement the pairs (the first side's, the second's) of all rounds; sides are library and Python."""
    found: Pairs = {}
    for n in range(rounds):
        turn = (0, 1) if n % 2 else (1, 0)
        times = {k: spawn(sides[k][0], what, names, cache, sides[k][1]) for k in turn}
        for name in times[1]:
            found.setdefault(name, []).append((times[0][name], times[1][name]))
    return found


def row(name: str, pairs: Sequence[tuple[float, float]], wanted: float) -> list[str]:
    ratios = [a / b for a, b in pairs]
    ours, other = (duration(statistics.median(side)) for side in zip(*pairs))
    ratio = statistics.median(ratios)
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return [name, ours, other, f"{ratio:.2f}", f"<= {wanted:g}", "yes" if ratio <= wanted else "no", spread]


def table(rows: Sequence[Sequence[str]], *sides: str) -> str:
    headings = ("case", *sides, "ratio", "wanted", "met", "over rounds")
    return "\n".join("| " + " | ".join(r) + " |" for r in [headings, ["---"] * len(headings), *rows])


def report(found: Pairs) -> list[list[str]]:
    """A row for each measurement, and the geometric mean of the operations' ratios in each form and in all."""
    rows = [row(name, pairs, STEP if name == GPT else WANTED) for name, pairs in found.items()]
    medians = {name: statistics.median(a / b for a, b in pairs) for name, pairs in found.items() if name != GPT}
    for form in (*FORMS, "all"):
        ratios = [ratio for name, ratio in medians.items() if form == "all" or name.endswith(form)]
        if ratios:
            mean = math.exp(statistics.mean(map(math.log, ratios)))
            met = "yes" if mean <= MEAN else "no"
            rows.append([f"geometric mean, {form}", "", "", f"{mean:.2f}", f"<= {MEAN:g}", met, ""])
    return rows


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--child"]:
        library, what, *names = arguments[1:]
        print(json.dumps(child(library, what, names)))
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fusion", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], help="operations whose name contains this")
    parser.add_argument("--size", action="append", choices=SIZES, help="of the operations; all without it")
    parser.add_argument("--baseline-python", default=sys.executable, help="the interpreter that has jax")
    parser.add_argument("--noise", action="store_true", help="jax against itself")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a wanted ratio is missed")
    options = parser.parse_args(arguments)
    names = [n for n in OPERATIONS if not options.only or any(text in n for text in options.only)]
    runs = [(size, names) for size in options.size or SIZES] if names else []
    if not options.size and not options.noise and (not options.only or any(text in GPT for text in options.only)):
        runs.append((GPT, []))
    baseline = ("jax", options.baseline_python)
    sides = (baseline if options.noise else ("tilewright", sys.executable), baseline)
    found: Pairs = {}
    with tempfile.TemporaryDirectory() as cache:
        for what, chosen in runs:
            found |= measure(what, chosen, options.rounds, cache, sides)
    rows = report(found)
    text = table(rows, *(library for library, _ in sides))
    missed = sum(r[5] == "no" for r in rows if r[1])
    text += f"\n\n{missed} of {len(found)} rows are above what was wanted."
    print(text)
    if not options.only and not options.size:
        name = "fusion_noise" if options.noise else "fusion"
        from .rounds import machine

        about = ", ".join(f"{k} {v}" for k, v in machine().items())
        RESULTS.mkdir(exist_ok=True)
        command = parser.prog + " --noise" * options.noise
        head = f"# {name}\n\n`{command}`; {about}; medians of {options.rounds} rounds.\n\n"
        (RESULTS / f"{name}.md").write_text(f"{head}{text}\n")
    return 1 if options.check and any(r[5] == "no" for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
