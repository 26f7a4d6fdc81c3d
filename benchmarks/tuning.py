"""What tuning gains here: kernels and whole programs, each tuned within a budget from an empty store.

    python -m benchmarks tuning --budget 60 --only attention

For each the time at the defaults, at what was kept, and of the fastest tried, the geometric mean of what was tried, how
many configurations and how many different programs these were. Where all tiles compile to one program nothing can be
gained by choosing: `one program`. The table goes to `benchmarks/results/tuning.md`.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tilewright as tw
from benchmarks.rounds import RESULTS, machine
from examples import digits, gpt
from tilewright import lang as tl
from tilewright import nn
from tilewright import numpy as tnp
from tilewright.tuning import ProgramReport, powers_of_two

WANTED_GAIN, WANTED_DEFAULT = 1.2, 1.2


def normal(*shape: int) -> Any:
    """Numbers of a normal distribution."""
    return tnp.asarray(np.random.default_rng(0).standard_normal(shape).astype(np.float32))


@tw.autotune(space={"m": powers_of_two(32, 1024), "n": powers_of_two(32, 1024), "k": powers_of_two(32, 1024)})
def matmul(x: Any, w: Any, *, m: int = 256, n: int = 256, k: int = 1024) -> Any:
    """`x @ w` in tiles."""

    def body(x: Any, w: Any, out: Any, acc: Any) -> None:
        @tl.when(tl.program_id(2) == 0)
        def _() -> None:
            acc[...] = tnp.zeros_like(acc[...])

        acc[...] += x[...] @ w[...]

        @tl.when(tl.program_id(2) == tl.num_programs(2) - 1)
        def _() -> None:
            out[...] = acc[...]

    (rows, depth), columns = x.shape, w.shape[1]
    return tl.kernel_call(
        body, tw.ShapeDtypeStruct((rows, columns), x.dtype),
        grid=(tl.cdiv(rows, m), tl.cdiv(columns, n), tl.cdiv(depth, k)),
        in_specs=[tl.BlockSpec((m, k), lambda i, j, s: (i, s)), tl.BlockSpec((k, n), lambda i, j, s: (s, j))],
        out_specs=tl.BlockSpec((m, n), lambda i, j, s: (i, j)), scratch_shapes=[tl.VMEM((m, n), x.dtype)],
    )(x, w)  # fmt: skip


@tw.autotune(space={"rows": powers_of_two(1, 4096)})
def layer_norm(x: Any, *, rows: int = 4096) -> Any:
    """Each row less its mean, over its deviation, some rows in a cell."""

    def body(x: Any, out: Any) -> None:
        centred = x[...] - x[...].mean(-1, keepdims=True)
        out[...] = centred / tnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)

    spec = tl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    grid = tl.cdiv(x.shape[0], rows)
    return tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), grid=grid, in_specs=[spec], out_specs=spec)(x)


@tw.autotune(space={"m": powers_of_two(8, 1024), "n": powers_of_two(8, 1024)})
def stencil(x: Any, *, m: int = 1024, n: int = 1024) -> Any:
    """The mean of five neighbours, zeros beyond the edges, in tiles with a halo."""

    def body(x: Any, out: Any) -> None:
        v = x[...]
        out[...] = (v[1:-1, 1:-1] + v[:-2, 1:-1] + v[2:, 1:-1] + v[1:-1, :-2] + v[1:-1, 2:]) / 5

    halo = tl.BlockSpec(
        (tl.Element(m + 2, (1, 1)), tl.Element(n + 2, (1, 1))), lambda i, j: (i * m, j * n), fill=0
    )
    grid = (tl.cdiv(x.shape[0], m), tl.cdiv(x.shape[1], n))
    return tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), grid=grid, in_specs=[halo],
                          out_specs=tl.BlockSpec((m, n), lambda i, j: (i, j)))(x)  # fmt: skip


def gpt_step() -> tuple[Any, ...]:
    """A training step of the language model, with its state."""
    params = gpt.initial(tw.random.key(0), 96)
    state = nn.adamw_init(params)
    codes = np.random.default_rng(0).integers(0, 96, (gpt.BATCH, gpt.CONTEXT + 1))
    return gpt.make_step(100), params, state, codes


CASES: dict[str, Callable[[], tuple[Any, ...]]] = {
    "matmul 1024": lambda: (matmul, normal(1024, 1024), normal(1024, 1024)),
    "attention 2 x 1024 x 4 x 64, gradient": lambda: (
        tw.grad(lambda q: nn.fused.dot_product_attention(q, q, q, is_causal=True).sum()), normal(2, 1024, 4, 64)
    ),
    "layer norm 4096 x 1024": lambda: (layer_norm, normal(4096, 1024)),
    "stencil 1024 x 1024": lambda: (stencil, normal(1024, 1024)),
    "the demo's kernel 1024": lambda: (
        digits.tuned_linear_gelu, *map(tnp.asarray, digits.operands(1024, 1024, 1024, np.float32))
    ),
    "a training step of the GPT": gpt_step,
}  # fmt: skip


def row(name: str, found: Any, seconds: float) -> list[str]:
    """A line of the table. Of a program's functions the ratios are geometric means."""
    reports = found.reports if isinstance(found, ProgramReport) else (found,)
    before = found.before if isinstance(found, ProgramReport) else _default(found)
    after = found.after if isinstance(found, ProgramReport) else found.best.seconds
    off = _mean([_default(r) / _times(r)[0] for r in reports])
    gain = _mean([_mean(_times(r)) / _times(r)[0] for r in reports])
    programs = sum(r.programs for r in reports)
    bounds = off <= WANTED_DEFAULT, gain >= WANTED_GAIN
    met = "one program" if programs == len(reports) else "yes" if all(bounds) else "no"
    return [name, f"{before * 1e3:.2f} ms", f"{after * 1e3:.2f} ms", f"{off:.2f}", f"{gain:.2f}", met,
            f"{sum(len(r.trials) for r in reports)} of {sum(r.space for r in reports)}", str(programs),
            f"{seconds:.0f} s"]  # fmt: skip


def _times(report: Any) -> list[float]:
    return [t.seconds for t in report.trials if t.seconds is not None]


def _default(report: Any) -> float:
    return next(t.seconds for t in report.trials if t.configuration == report.default)


def _mean(values: list[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


HEAD = ["case", "defaults", "kept", "defaults / fastest", "mean of those tried / fastest", "met", "configurations",
        "programs", "took"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rows = [HEAD, ["---"] * len(HEAD)]
    with tempfile.TemporaryDirectory() as folder, tw.config(cache_dir=folder):
        for name, make in CASES.items():
            if options.only in name:
                start = time.perf_counter()
                f, *args = make()
                found = tw.tune(f, *args, budget=options.budget)
                rows.append(row(name, found, time.perf_counter() - start))
                print(found)
    text = "\n".join(f"| {' | '.join(r)} |" for r in rows)
    print(text)
    if not options.only:
        told = ", ".join(f"{k} {v}" for k, v in machine().items())
        run = f"`python -m benchmarks tuning --budget {options.budget:g}`; {told}."
        Path(RESULTS / "tuning.md").write_text(f"# tuning\n\n{run}\n\n{text}\n")


if __name__ == "__main__":
    main()
