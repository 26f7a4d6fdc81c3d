"""What tuning gains here: kernels and whole programs, each tuned within a budget from an empty store.

    python -m benchmarks tuning --budget 60 --only attention

For each the time at the defaults, at what was kept, and of the fastest tried, how many configurations were tried, and
how many different programs these were. Then what was kept is timed in turn with twelve tiles drawn at random: whole
numbers, of which those count that the kernel accepts. The ratio is of their geometric mean to what was kept. The GPT's
step takes no tiles: its ratio is of what the search tried to the fastest. The table goes to
`benchmarks/results/tuning.md`.
"""

from __future__ import annotations

import argparse
import functools
import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
DRAWN = 12  # tiles at random


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
        in_specs=[
            tl.BlockSpec((m, k), lambda i, j, s: (i, s), fill=0), tl.BlockSpec((k, n), lambda i, j, s: (s, j), fill=0)
        ],
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

    grid = (tl.cdiv(x.shape[0], m), tl.cdiv(x.shape[1], n))
    after = (grid[0] * m - x.shape[0] + 1, grid[1] * n - x.shape[1] + 1)  # zeros that the last tiles read
    halo = tl.BlockSpec(
        (tl.Element(m + 2, (1, after[0])), tl.Element(n + 2, (1, after[1]))), lambda i, j: (i * m, j * n), fill=0
    )
    return tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype), grid=grid, in_specs=[halo],
                          out_specs=tl.BlockSpec((m, n), lambda i, j: (i, j)))(x)  # fmt: skip


def gpt_step() -> tuple[Any, ...]:
    """A training step of the language model, with its state."""
    params = gpt.initial(tw.random.key(0), 96)
    state = nn.adamw_init(params)
    codes = np.random.default_rng(0).integers(0, 96, (gpt.BATCH, gpt.CONTEXT + 1))
    return gpt.make_step(100), params, state, codes


def attention(q: Any, **tiles: int) -> Any:
    """The gradient of attention within one sequence."""
    return tw.grad(lambda q: nn.fused.dot_product_attention(q, q, q, is_causal=True, **tiles).sum())(q)


def size(draw: np.random.Generator, low: int, high: int) -> int:
    """A size of a tile at random, as likely to be from 10 to 20 as from 100 to 200."""
    return round(2 ** draw.uniform(math.log2(low), math.log2(high)))


@dataclass(frozen=True)
class Case:
    """A function and its arguments; `tiles` draws what tiles it may be given at random, and `tiled` takes them."""

    make: Callable[[], tuple[Any, ...]]
    tiles: Callable[[np.random.Generator], dict[str, Any]] | None = None
    tiled: Callable[..., Any] | None = None


CASES = {
    "matmul 1024": Case(
        lambda: (matmul, normal(1024, 1024), normal(1024, 1024)),
        lambda draw: {"m": size(draw, 16, 1024), "n": size(draw, 16, 1024), "k": size(draw, 16, 1024)}, matmul.fun,
    ),
    "attention 2 x 1024 x 4 x 64, gradient": Case(
        lambda: (attention, normal(2, 1024, 4, 64)),
        lambda draw: {"rows": size(draw, 16, 1024), "columns": size(draw, 16, 1024)}, attention,
    ),
    "layer norm 4096 x 1024": Case(
        lambda: (layer_norm, normal(4096, 1024)), lambda draw: {"rows": size(draw, 1, 4096)}, layer_norm.fun
    ),
    "stencil 1024 x 1024": Case(
        lambda: (stencil, normal(1024, 1024)),
        lambda draw: {"m": size(draw, 8, 1024), "n": size(draw, 8, 1024)}, stencil.fun,
    ),
    "the demo's kernel 1024": Case(
        lambda: (digits.tuned_linear_gelu, *map(tnp.asarray, digits.operands(1024, 1024, 1024, np.float32))),
        lambda draw: {"tile": (size(draw, 16, 1024), size(draw, 16, 1024), 2 ** int(draw.integers(4, 11)))},
        digits.tuned_linear_gelu.fun,
    ),
    "a training step of the GPT": Case(gpt_step),
}  # fmt: skip


def at_random(case: Case, f: Callable[..., Any], args: Sequence[Any]) -> list[float]:
    """How many times as long as `f` each of some tiles takes that are drawn at random, and that the kernel accepts."""
    assert case.tiles is not None and case.tiled is not None
    draw, drawn = np.random.default_rng(0), dict[str, Callable[..., Any]]()
    while len(drawn) < DRAWN:
        tiles = case.tiles(draw)
        tiled = functools.partial(case.tiled, **tiles)
        try:
            tw.eval_shape(tiled, *args)
        except tw.errors.TilewrightError:  # not legal: the kernel's checks refuse these
            continue
        drawn[str(tiles)] = tiled
    found = tw.benchmark(f, *args, against=drawn, rounds=3, name="kept")
    return [found[name].median / found["kept"].median for name in drawn]


def row(name: str, found: Any, seconds: float, drawn: Sequence[float]) -> list[str]:
    """A line of the table. Of a program's functions the ratios are geometric means."""
    reports = found.reports if isinstance(found, ProgramReport) else (found,)
    before = found.before if isinstance(found, ProgramReport) else _default(found)
    after = found.after if isinstance(found, ProgramReport) else found.best.seconds
    off = _mean([_default(r) / _times(r)[0] for r in reports])
    gain = _mean(drawn or [_mean(_times(r)) / _times(r)[0] for r in reports])
    programs = sum(r.programs for r in reports)
    met = "yes" if off <= WANTED_DEFAULT and gain >= WANTED_GAIN else "no"
    return [name, f"{before * 1e3:.2f} ms", f"{after * 1e3:.2f} ms", f"{off:.2f}", f"{gain:.2f}", met,
            f"{sum(len(r.trials) for r in reports)} of {sum(r.space for r in reports)}", str(programs),
            f"{seconds:.0f} s"]  # fmt: skip


def _times(report: Any) -> list[float]:
    return [t.seconds for t in report.trials if t.seconds is not None]


def _default(report: Any) -> float:
    return next(t.seconds for t in report.trials if t.configuration == report.default)


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


HEAD = ["case", "defaults", "kept", "defaults / fastest", "mean of random tiles / kept", "met", "configurations",
        "programs", "took"]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", type=float, default=60.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    rows = [HEAD, ["---"] * len(HEAD)]
    with tempfile.TemporaryDirectory() as folder, tw.config(cache_dir=folder):
        for name, case in CASES.items():
            if options.only in name:
                start = time.perf_counter()
                f, *args = case.make()
                found = tw.tune(f, *args, budget=options.budget)
                took = time.perf_counter() - start
                rows.append(row(name, found, took, at_random(case, f, args) if case.tiles else ()))
                print(found)
    text = "\n".join(f"| {' | '.join(r)} |" for r in rows)
    print(text)
    if not options.only:
        told = ", ".join(f"{k} {v}" for k, v in machine().items())
        run = f"`python -m benchmarks tuning --budget {options.budget:g}`; {told}."
        Path(RESULTS / "tuning.md").write_text(f"# tuning\n\n{run}\n\n{text}\n")


if __name__ == "__main__":
    main()
