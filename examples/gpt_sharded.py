"""Train the GPT of `gpt.py` on several devices, split in three ways, and hold each against one device.

- data: each device has the whole model and a part of the batch; gradients are summed.
- tensor: a mesh of n/2 x 2; the batch is split along one axis, each layer's heads and inner units along the other.
- fully sharded: each device keeps a part of every weight and of the optimiser's state, and of the batch.

The step is that of `gpt.py`, unchanged: what differs is how its arguments and results lie. The compiler inserts the
communication.
Run by `make gpt-sharded` on eight virtual devices of one process, then on two processes of two devices each, by
`tilewright launch -n 2 --devices 2 examples/gpt_sharded.py`. It fails unless every loss is that of one device to 1e-5.
"""

import argparse
import os
import sys
import time

import gpt
import numpy as np
from rich.console import Console
from rich.table import Table

import tilewright as tw
from tilewright import nn, random
from tilewright.sharding import Mesh, NamedSharding, P

STEPS, TOLERANCE = 8, 1e-5
console = Console()

# How each weight of a block is split along the axis `model`: columns of the layer before, rows of the layer after.
TENSOR = {"qkv": P(None, "model"), "out": P("model"), "up": P(None, "model"), "down": P("model")}


def replicated(mesh: Mesh, tree):
    return tw.tree.map(lambda x: NamedSharding(mesh, P()), tree)


def tensor(mesh: Mesh, tree):
    """The blocks' matrices along `model`, everything else on every device."""
    def spec(path, x):
        name = next((k for k in TENSOR if f"'{k}'" in tw.tree_util.keystr(path)), None)
        return NamedSharding(mesh, TENSOR[name] if name and x.ndim == 2 else P())

    return tw.tree_util.tree_map_with_path(spec, tree)


def fully(mesh: Mesh, tree):
    """Every array in as many parts as there are devices, along its first dimension."""
    return tw.tree.map(lambda x: NamedSharding(mesh, P("data") if x.ndim else P()), tree)


def run(text: gpt.Text, steps: int, shape=(), names=(), place=replicated) -> tuple[list[float], float]:
    """The loss of each step and the seconds of the later ones, on a mesh or on one device."""
    params = gpt.initial(random.key(0), len(text.letters))
    state = nn.adamw_init(params)
    mesh = tw.make_mesh(shape, names) if shape else None
    step, rng, losses = gpt.make_step(gpt.STEPS), np.random.default_rng(0), []
    if mesh:
        lying = [place(mesh, t) for t in (params, state)]
        params, state = (tw.device_put(t, s) for t, s in zip((params, state), lying, strict=True))
        step = tw.jit(step.__wrapped__, donate_argnums=(0, 1), out_shardings=(*lying, None))
    start = 0.0
    for i in range(steps):
        codes = gpt.batch(rng, text.train)
        if mesh:
            codes = tw.device_put(codes, NamedSharding(mesh, P("data")))
        params, state, loss = step(params, state, codes)
        losses.append(float(loss))
        start = time.perf_counter() if i == 0 else start
    return losses, (time.perf_counter() - start) / max(steps - 1, 1)


def plans(n: int) -> dict[str, tuple]:
    """The ways to split over `n` devices: shape and names of the mesh, and how the weights lie."""
    return {
        "one device": (),
        f"data, {n}": ((n,), ("data",), replicated),
        f"tensor, {n // 2} x 2": ((n // 2, 2), ("data", "model"), tensor),
        f"fully sharded, {n}": ((n,), ("data",), fully),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    options = parser.parse_args()
    if "TILEWRIGHT_COORDINATOR" in os.environ:  # of `tilewright launch`
        tw.distributed.initialize()
    else:
        tw.config.update("num_cpu_devices", 8)
    text, table = gpt.Text(), Table("plan", "first loss", "last loss", "largest difference", "seconds a step")
    reference, worst = None, 0.0
    for name, plan in plans(tw.device_count()).items():
        losses, seconds = run(text, options.steps, *plan)
        reference = losses if reference is None else reference
        apart = max(abs(a - b) for a, b in zip(losses, reference, strict=True))
        worst = max(worst, apart)
        table.add_row(name, f"{losses[0]:.6f}", f"{losses[-1]:.6f}", f"{apart:.1e}", f"{seconds:.2f}")
    if tw.process_index() == 0:
        console.print(table)
    if worst > TOLERANCE:
        console.print(f"losses differ by {worst:.1e}, more than {TOLERANCE:.0e}", style="red")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
