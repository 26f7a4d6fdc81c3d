"""What deciding how a program lies on a mesh costs, against XLA's compilation of it.

    python -m benchmarks propagation

The training step of the GPT, split over eight virtual devices in the three ways in which the compiler decides (see
`examples/gpt_sharded.py`). Processor time: of the pass `partition`, which asks Shardy, as the difference of compiling
up to it and up to the pass before; of XLA as the difference of compiling whole and up to the text of the module.
Medians of some rounds, without the disk cache. The table goes to `benchmarks/results/propagation.md`.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tilewright as tw
from benchmarks.rounds import RESULTS, machine
from tilewright import nn
from tilewright.sharding import NamedSharding

sys.path.append(str(Path(__file__).resolve().parents[1] / "examples"))  # its programs import each other as scripts
gpt, gpt_sharded = map(importlib.import_module, ("gpt", "gpt_sharded"))

WANTED = 0.15
BEFORE, ASKED, TEXT = "transform", "partition", "print"


def step(plan: Any) -> tuple[Callable[..., Any], Any]:
    """The training step, and the shapes of its arguments with how they lie."""
    text = gpt.Text()
    mesh = tw.make_mesh(plan.shape, plan.names)
    params = tw.eval_shape(lambda: gpt.initial(tw.random.key(0), len(text.letters)))
    trees = params, tw.eval_shape(nn.adamw_init, params)
    lying = tuple(plan.place(mesh, t) for t in trees)

    def struct(x: Any, sharding: Any) -> Any:
        return tw.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

    codes = tw.ShapeDtypeStruct((gpt.BATCH, gpt.CONTEXT + 1), "int32", sharding=NamedSharding(mesh, plan.codes))
    made = gpt.make_step(gpt.STEPS, gpt.loss).__wrapped__
    f = tw.jit(made, donate_argnums=(0, 1), out_shardings=(*lying, None))
    return f, (*(tw.tree.map(struct, t, s) for t, s in zip(trees, lying, strict=True)), codes)


def seconds(f: Callable[..., Any], args: Any, stop: str) -> float:
    """The processor's seconds that compiling up to a pass takes."""
    tw.clear_caches()
    start = time.process_time()
    tw.compile(f, *args, stop=stop)
    return time.process_time() - start


def row(name: str, plan: Any, rounds: int) -> list[str]:
    """A line of the table."""
    f, args = step(plan)
    stops = BEFORE, ASKED, TEXT, "compile"
    times = [[seconds(f, args, stop) for stop in stops] for _ in range(rounds)]
    asked = statistics.median(t[1] - t[0] for t in times)
    xla = statistics.median(t[3] - t[2] for t in times)
    share = asked / xla
    return [name, f"{asked:.2f} s", f"{xla:.2f} s", f"{share:.1%}", "yes" if share <= WANTED else "no"]


HEAD = ["split", "partition", "XLA", "share", f"at most {WANTED:.0%}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    tw.config.update("num_cpu_devices", 8)
    tw.config.update("cache_dir", "")
    asked = {n: p for n, p in gpt_sharded.plans(8).items() if p.shape and p.objective is None}
    lines = [HEAD, ["---"] * len(HEAD), *(row(name, plan, options.rounds) for name, plan in asked.items())]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    print(table)
    told = ", ".join(f"{k} {v}" for k, v in machine().items())
    text = f"# propagation\n\n`python -m benchmarks propagation`; {told}.\n\n{table}\n"
    (RESULTS / "propagation.md").write_text(text)


if __name__ == "__main__":
    main()
