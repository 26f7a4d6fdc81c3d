"""Speed of kernels on the CPU: against whole-array expressions, against Pallas's interpreter, and backward passes.

    python -m benchmarks.kernels --rounds 7 --only softmax --baseline-python path/to/python/with/jax

Every kernel is written once, against `Api`. It is measured in one process with each whole-array expression of the
same result, in turn and in an order that changes each round; the ratio is the median over rounds of the kernel's
time to the fastest expression's. The baseline runs the same kernel with `interpret=True` in a process of its own.
Results go to `benchmarks/results/kernels.md`.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .harness import RESULTS, ROOT, Api, duration

BASELINE = 5.0  # how many times faster than Pallas's interpreter each kernel should be, and in geometric mean
BASELINE_MEAN = 10.0
MEMORY = 0.125  # of the whole-array expression's peak, where memory is measured
LOWERING = 0.050


def tpu(api: Api) -> Any:
    """The module with the names that the baseline keeps apart from its portable ones."""
    return importlib.import_module("jax.experimental.pallas.tpu" if api.name == "jax" else "tilewright.lang.tpu")


def call(api: Api, body: Any, shape: Sequence[int], **options: Any) -> Any:
    if api.name == "jax":
        options["interpret"] = True
    return api.lang.pallas_call(body, out_shape=api.ShapeDtypeStruct(tuple(shape), "float32"), **options)


def normal(api: Api, *shapes: Sequence[int]) -> list[Any]:
    rng = np.random.default_rng(0)
    return [api.np.asarray(rng.standard_normal(shape, dtype=np.float32)) for shape in shapes]


# ------------------------------------------------------------------------------------------------- the kernels


def matmul(api: Api, n: int, block: int) -> Any:
    pl, np = api.lang, api.np

    def body(x: Any, y: Any, o: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            o[...] = np.zeros((block, block), "float32")

        o[...] += x[...] @ y[...]

    specs = [
        pl.BlockSpec((block, block), lambda i, j, k: (i, k)),
        pl.BlockSpec((block, block), lambda i, j, k: (k, j)),
    ]
    out = pl.BlockSpec((block, block), lambda i, j, k: (i, j))
    return call(api, body, (n, n), grid=(n // block,) * 3, in_specs=specs, out_specs=out)


def softmax(api: Api, n: int, rows: int) -> Any:
    pl = api.lang

    def body(x: Any, o: Any) -> None:
        o[...] = whole_softmax(api, x[...])

    spec = pl.BlockSpec((rows, n), lambda i: (i, 0))
    return call(api, body, (n, n), grid=n // rows, in_specs=[spec], out_specs=spec)


def whole_softmax(api: Api, x: Any) -> Any:
    e = api.np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layer_norm(api: Api, n: int, rows: int) -> Any:
    pl = api.lang

    def body(x: Any, scale: Any, shift: Any, o: Any) -> None:
        o[...] = whole_layer_norm(api, x[...], scale[...], shift[...])

    spec, shared = pl.BlockSpec((rows, n), lambda i: (i, 0)), pl.BlockSpec((1, n), lambda i: (0, 0))
    return call(api, body, (n, n), grid=n // rows, in_specs=[spec, shared, shared], out_specs=spec)


def whole_layer_norm(api: Api, x: Any, scale: Any, shift: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    return centred / api.np.sqrt((centred * centred).mean(axis=-1, keepdims=True) + 1e-5) * scale + shift


def attention(api: Api, heads: int, n: int, d: int, block: int) -> Any:
    pl, np = api.lang, api.np

    def body(q: Any, k: Any, v: Any, o: Any, top: Any, norm: Any, total: Any) -> None:
        j = pl.program_id(2)

        @pl.when(j == 0)
        def _() -> None:
            top[...] = np.full((block, 1), -1e30, "float32")
            norm[...] = np.zeros((block, 1), "float32")
            total[...] = np.zeros((block, d), "float32")

        scores = q[...] @ k[...].T * d**-0.5
        largest = np.maximum(top[...], scores.max(axis=-1, keepdims=True))
        weights, scale = np.exp(scores - largest), np.exp(top[...] - largest)
        norm[...] = norm[...] * scale + weights.sum(axis=-1, keepdims=True)
        total[...] = total[...] * scale + weights @ v[...]
        top[...] = largest

        @pl.when(j == n // block - 1)
        def _() -> None:
            o[...] = total[...] / norm[...]

    queries = pl.BlockSpec((None, block, d), lambda b, i, j: (b, i, 0))
    keys = pl.BlockSpec((None, block, d), lambda b, i, j: (b, j, 0))
    scratch = [tpu(api).VMEM(s, "float32") for s in ((block, 1), (block, 1), (block, d))]
    return call(api, body, (heads, n, d), grid=(heads, n // block, n // block), in_specs=[queries, keys, keys],
                out_specs=queries, scratch_shapes=scratch)  # fmt: skip


def whole_attention(api: Api, q: Any, k: Any, v: Any) -> Any:
    scores = api.np.einsum("bqd,bkd->bqk", q, k) * q.shape[-1] ** -0.5
    return api.np.einsum("bqk,bkd->bqd", whole_softmax(api, scores), v)


def stencil(api: Api, n: int, block: int) -> Any:
    pl = api.lang

    def body(x: Any, o: Any) -> None:
        o[...] = whole_stencil(api, x[...])

    window = pl.BlockSpec((pl.Element(block + 2), pl.Element(block + 2)), lambda i, j: (i * block, j * block))
    out = pl.BlockSpec((block, block), lambda i, j: (i, j))
    return call(api, body, (n, n), grid=(n // block,) * 2, in_specs=[window], out_specs=out)


def whole_stencil(api: Api, v: Any) -> Any:
    return v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:] - 4 * v[1:-1, 1:-1]


def embedding(api: Api, n: int, width: int) -> Any:
    pl = api.lang

    def body(ids: Any, row: Any, o: Any) -> None:
        o[...] = row[...]

    grid_spec = tpu(api).PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(n,),
        in_specs=[pl.BlockSpec((1, width), lambda i, ids: (ids[i], 0))],
        out_specs=pl.BlockSpec((1, width), lambda i, ids: (i, 0)),
    )
    return call(api, body, (n, width), grid_spec=grid_spec)


def ids_and_table(api: Api, n: int, rows: int, width: int) -> list[Any]:
    return [api.np.asarray(np.random.default_rng(1).integers(0, rows, n, "int32")), *normal(api, (rows, width))]


# --------------------------------------------------------------------------------------------------- the cases


@dataclass(frozen=True)
class Kernel:
    """A kernel, its operands, the whole-array expressions of the same result, and what is wanted of it."""

    name: str
    cells: int
    make: Callable[[Api], list[Any]]
    kernel: Callable[[Api], Any]
    whole: tuple[Callable[..., Any], ...]
    wanted: float
    memory: bool = False  # its peak memory is measured too
    baseline: bool = True
    backward: float | None = None  # how many times its forward its backward may take


KERNELS = [
    Kernel("matmul, k as a grid axis, 1024^3", 512, lambda a: normal(a, (1024, 1024), (1024, 1024)),
           lambda a: matmul(a, 1024, 128), (lambda a, x, y: x @ y,), 1.15, backward=2.3),
    Kernel("row softmax, 4096^2", 64, lambda a: normal(a, (4096, 4096)), lambda a: softmax(a, 4096, 64),
           (whole_softmax, lambda a, x: a.nn.softmax(x)), 1.2),
    Kernel("layer norm, 4096^2", 64, lambda a: normal(a, (4096, 4096), (1, 4096), (1, 4096)),
           lambda a: layer_norm(a, 4096, 64), (whole_layer_norm,), 1.2, backward=3.0),
    Kernel("flash attention, 16 x 1024 x 64", 1024, lambda a: normal(a, *[(16, 1024, 64)] * 3),
           lambda a: attention(a, 16, 1024, 64, 128), (whole_attention,), 1.6),
    Kernel("flash attention, 16 x 8192 x 64", 16384, lambda a: normal(a, *[(16, 8192, 64)] * 3),
           lambda a: attention(a, 16, 8192, 64, 256), (whole_attention,), 1.0, memory=True, baseline=False),
    Kernel("5-point stencil, 4096^2", 256, lambda a: normal(a, (4098, 4098)), lambda a: stencil(a, 4096, 256),
           (whole_stencil,), 1.3),
    Kernel("embedding gather, 8192 of 32768 x 512", 8192, lambda a: ids_and_table(a, 8192, 32768, 512),
           lambda a: embedding(a, 8192, 512), (lambda a, ids, table: table[ids],), 1.3, baseline=False),
    Kernel("embedding gather, 512 of 2048 x 512", 512, lambda a: ids_and_table(a, 512, 2048, 512),
           lambda a: embedding(a, 512, 512), (lambda a, ids, table: table[ids],), 1.3),
]  # fmt: skip


# ------------------------------------------------------------------------------------------------- measurements


def once(api: Api, f: Callable[..., Any], args: Sequence[Any], calls: int) -> float:
    """Median seconds of a call, each waited for."""
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        api.block_until_ready(f(*args))
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def alternating(api: Api, fs: dict[str, Any], args: Sequence[Any], rounds: int) -> dict[str, list[float]]:
    """Seconds of each function in each round, all in this process, the order turned round every time."""
    for f in fs.values():
        api.block_until_ready(f(*args))
    slowest = max(once(api, f, args, 1) for f in fs.values())
    calls = max(1, min(9, int(0.2 / slowest)))
    found: dict[str, list[float]] = {name: [] for name in fs}
    for n in range(rounds):
        for name in sorted(fs, reverse=bool(n % 2)):
            found[name].append(once(api, fs[name], args, calls))
    return found


def against_whole(api: Api, kernel: Kernel, rounds: int) -> dict[str, Any]:
    """The kernel and each whole-array expression; the results must agree."""
    args = kernel.make(api)
    fs = {"kernel": api.jit(kernel.kernel(api))}
    for n, whole in enumerate(kernel.whole):
        fs[f"whole{n}"] = api.jit(lambda *xs, whole=whole: whole(api, *xs))
    expected = np.asarray(fs["whole0"](*args))
    error = float(np.abs(np.asarray(fs["kernel"](*args)) - expected).max() / max(np.abs(expected).max(), 1.0))
    assert error < 1e-4, f"{kernel.name}: off by {error}"
    times = alternating(api, fs, args, rounds)
    return {"kernel": times["kernel"], "whole": [list(t) for name, t in times.items() if name != "kernel"]}


def backward(api: Api, kernel: Kernel, rounds: int) -> dict[str, Any]:
    """The kernel, and its pullback applied to a cotangent (the forward pass that it shares with it included)."""
    args = kernel.make(api)
    f = kernel.kernel(api)
    out = api.block_until_ready(api.jit(f)(*args))
    forward = api.jit(lambda ct, *xs: f(*xs))
    # What the pullback alone costs is what the two together cost, less the forward pass.
    both = api.jit(lambda ct, *xs: api.vjp(f, *xs)[1](ct))
    times = alternating(api, {"forward": forward, "backward": both}, [out, *args], rounds)
    return times


def peak_bytes(api: Api, kernel: Kernel, whole: bool) -> int:
    """How far the process's peak memory rises in one call over what its operands take."""
    args = kernel.make(api)
    api.block_until_ready(args)
    f = api.jit((lambda *xs: kernel.whole[0](api, *xs)) if whole else kernel.kernel(api))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    api.block_until_ready(f(*args))
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024


def lowering() -> dict[str, float]:
    """Seconds to trace and lower each kernel of the tests' corpus, the second time (the first one imports)."""
    jit, corpus = Api("tilewright").jit, importlib.import_module("tests.support.corpus.runs")
    found = {}
    for name, kernel in corpus.KERNELS.items():
        size = kernel.SIZES[0]
        args = kernel.make(np.random.default_rng(0), *size.dims)
        for _ in range(2):
            one = jit(lambda *xs, kernel=kernel, size=size: kernel.call(*xs, **size.blocks))
            start = time.perf_counter()
            one.lower(*args)
            found[name] = time.perf_counter() - start
    return found


# ------------------------------------------------------------------------------------------------- one process


def child(what: str, library: str, name: str, rounds: int) -> Any:
    if what == "lowering":
        return lowering()
    api = Api(library)
    kernel = next(k for k in KERNELS if k.name == name)
    if what == "whole":
        return against_whole(api, kernel, rounds)
    if what == "backward":
        return backward(api, kernel, rounds)
    if what in ("memory", "memory of whole"):
        return peak_bytes(api, kernel, what == "memory of whole")
    args, f = kernel.make(api), api.jit(kernel.kernel(api))
    api.block_until_ready(f(*args))
    return [once(api, f, args, 1) for _ in range(min(rounds, 3))]


def spawn(what: str, library: str, name: str, rounds: int, python: str, cache: str) -> Any:
    """`child` in a process of its own."""
    command = [python, "-m", "benchmarks.kernels", "--child", what, library, name, str(rounds)]
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "TILEWRIGHT_CACHE_DIR": cache, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800)
    if done.returncode != 0:
        raise RuntimeError(f"{name}, {what}, {library}:\n{done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


# -------------------------------------------------------------------------------------------------- the parent


@dataclass
class Report:
    """Rows of the tables, and what went wrong."""

    rows: list[list[str]] = field(default_factory=list)
    speedups: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, case: str, what: str, ours: str, other: str, ratio: float, wanted: float, spread: str = "") -> None:
        met = ratio <= wanted
        if not met:
            self.missed.append(f"{case}, {what}")
        self.rows.append([case, what, ours, other, f"{ratio:.2f}", f"<= {wanted:.3g}", "yes" if met else "no", spread])


def pairs(ours: Sequence[float], others: Sequence[Sequence[float]]) -> tuple[float, float, float, str]:
    """Medians of both sides, the median of the ratios to the fastest of the others, and their spread."""
    best = min(others, key=statistics.median)
    ratios = [a / b for a, b in zip(ours, best)]
    return (statistics.median(ours), statistics.median(best), statistics.median(ratios),
            f"{min(ratios):.2f} to {max(ratios):.2f}")  # fmt: skip


def measure(kernel: Kernel, rounds: int, baseline: str | None, cache: str, report: Report) -> None:
    def run(what: str, library: str = "tilewright", python: str = sys.executable) -> Any:
        return spawn(what, library, kernel.name, rounds, python, cache)

    found = run("whole")
    ours, other, ratio, spread = pairs(found["kernel"], found["whole"])
    report.add(kernel.name, "to whole arrays", duration(ours), duration(other), ratio, kernel.wanted, spread)
    if kernel.memory:
        small, large = run("memory"), run("memory of whole")
        report.add(kernel.name, "peak memory", f"{small / 2**20:.0f} MiB", f"{large / 2**20:.0f} MiB",
                   small / max(large, 1), MEMORY)  # fmt: skip
    if kernel.backward is not None:
        times = run("backward")
        ours, other, ratio, spread = pairs(times["backward"], [times["forward"]])
        report.add(kernel.name, "backward to forward", duration(ours), duration(other), ratio, kernel.backward, spread)
    if baseline is not None and kernel.baseline:
        slow = run("interpreted", "jax", baseline)
        mine = statistics.median(found["kernel"])
        theirs = statistics.median(slow)
        report.speedups.append(theirs / mine)
        if kernel.cells >= 64:
            ratio = mine / theirs
            report.add(kernel.name, "to Pallas's interpreter", duration(mine), duration(theirs), ratio, 1 / BASELINE)


def main(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["--child"]:
        what, library, name, rounds = arguments[1:]
        print(json.dumps(child(what, library, name, int(rounds))))
        return 0
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kernels", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", action="append", default=[], help="kernels whose name contains this")
    parser.add_argument("--baseline-python", help="an interpreter that has jax; without one the baseline is left out")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a wanted ratio is missed")
    options = parser.parse_args(arguments)
    report = Report()
    with tempfile.TemporaryDirectory() as cache:
        for kernel in KERNELS:
            if options.only and not any(text in kernel.name for text in options.only):
                continue
            try:
                measure(kernel, options.rounds, options.baseline_python, cache, report)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                report.errors.append(str(error))
        if not options.only:
            times: dict[str, float] = spawn("lowering", "tilewright", "", 1, sys.executable, cache)
            worst = max(times, key=lambda n: times[n])
            report.add("corpus", "trace and lower", duration(times[worst]), duration(LOWERING),
                       times[worst] / LOWERING, 1.0, f"slowest: {worst}")  # fmt: skip
    if report.speedups:
        mean = math.exp(statistics.mean(map(math.log, report.speedups)))
        label = "to Pallas's interpreter, geometric mean"
        report.add("all", label, "", f"{mean:.1f} times", 1 / mean, 1 / BASELINE_MEAN)
    text = table(report.rows)
    print(text, *report.errors, sep="\n")
    if not options.only and not report.errors:
        from .rounds import machine

        about = ", ".join(f"{k} {v}" for k, v in machine().items())
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / "kernels.md").write_text(f"# kernels\n\n`{parser.prog}`; {about}.\n\n{text}\n")
    return 2 if report.errors else 1 if options.check and report.missed else 0


def table(rows: Sequence[Sequence[str]]) -> str:
    headings = ("kernel", "what", "kernel's", "the other's", "ratio", "wanted", "met", "over rounds")
    return "\n".join("| " + " | ".join(row) + " |" for row in [headings, ["---"] * len(headings), *rows])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
