"""Train the GPT of `gpt.py` on several devices, split in five ways, and hold each against one device.

- data: each device has the whole model and a part of the batch; gradients are summed.
- tensor: a mesh of n/2 x 2; the batch is split along one axis, each layer's heads and inner units along the other.
- fully sharded: each device keeps a part of every weight and of the optimiser's state, and of the batch.
- sequence: each device has a part of every sequence; keys and values go round (`kernels.collective.ring_attention`).
- pipeline: n/4 x 4; each of four devices has one layer, and hands small batches on to the next.

In the first three the step is that of `gpt.py`, unchanged: what differs is how its arguments and results lie, and the
compiler inserts the communication. The last two write theirs in a `shard_map`.
Run by `make gpt-sharded` on eight virtual devices of one process, then on two processes of two devices each, by
`tilewright launch -n 2 --devices 2 examples/gpt_sharded.py`. It fails unless every loss is that of one device to 1e-5.
With `--target tpu:v5e:2x2`, or another, the tensor-parallel step is compiled for devices that need not be here.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import gpt
import numpy as np
from rich.console import Console
from rich.table import Table

import tilewright as tw
from tilewright import lax, nn, random
from tilewright import numpy as tnp
from tilewright.kernels.collective import ring_attention
from tilewright.sharding import AbstractMesh, Mesh, NamedSharding, P

STEPS, TOLERANCE = 8, 1e-5
SMALL = 4  # sequences that are handed on together from stage to stage
console = Console()

# How each weight of a block is split along the axis `model`: columns of the layer before, rows of the layer after.
TENSOR = {"qkv": P(None, "model"), "out": P("model"), "up": P(None, "model"), "down": P("model")}


def replicated(mesh: Mesh, tree):
    return tw.tree.map(lambda x: NamedSharding(mesh, P()), tree)


def tensor(mesh: Mesh | AbstractMesh, tree):
    """The blocks' matrices along `model`, everything else on every device."""
    def spec(path, x):
        name = next((k for k in TENSOR if f"'{k}'" in tw.tree_util.keystr(path)), None)
        return NamedSharding(mesh, TENSOR[name] if name and x.ndim == 2 else P())

    return tw.tree_util.tree_map_with_path(spec, tree)


def fully(mesh: Mesh, tree):
    """Every array in as many parts as there are devices, along its first dimension."""
    return tw.tree.map(lambda x: NamedSharding(mesh, P("data") if x.ndim else P()), tree)


def stages(mesh: Mesh, tree):
    """Each block's weights, which are stacked, on the devices of its stage; everything else on every device."""
    def spec(path, x):
        return NamedSharding(mesh, P("stage") if "'blocks'" in tw.tree_util.keystr(path) else P())

    return tw.tree_util.tree_map_with_path(spec, tree)


def stacked(params):
    """The weights of all blocks along a leading axis."""
    return params | {"blocks": tw.tree.map(lambda *x: tnp.stack(x), *params["blocks"])}


# ------------------------------------------------------------------------------------ losses of programs of each device


def sequence(mesh: Mesh):
    """The loss where each device has a part of every sequence."""
    def attend(q, k, v):
        places = lax.axis_index("seq") * q.shape[1] + tnp.arange(q.shape[1])
        q, k = nn.rotary_embedding(q, places), nn.rotary_embedding(k, places)
        return ring_attention(q, k, v, "seq", is_causal=True)

    def part(params, codes, following):
        found = nn.linear_cross_entropy(gpt.hidden(params, codes, attend), params["head"], following)
        return lax.pmean(found, "seq")

    split = tw.shard_map(part, mesh=mesh, in_specs=(P(), P(None, "seq"), P(None, "seq")), out_specs=P())
    return lambda params, codes: split(params, codes[:, :-1], codes[:, 1:])


def pipeline(mesh: Mesh):
    """The loss where each device has one layer of some stages: as in Huang et al., "GPipe" (2019)."""
    count = mesh.shape["stage"]

    def part(params, codes):
        stage, own = lax.axis_index("stage"), tw.tree.map(lambda x: x[0], params["blocks"])
        small = codes.reshape(-1, SMALL, codes.shape[1])
        turns = len(small) + count - 1
        idle = tnp.zeros((turns - len(small), *small.shape[1:]), small.dtype)

        def turn(handed, codes):
            entering = params["table"][codes[:, :-1]]
            out = gpt.block(own, tnp.where(stage == 0, entering, handed))
            return lax.ppermute(out, "stage", [(i, (i + 1) % count) for i in range(count)]), out

        start = lax.pcast(tnp.zeros((SMALL, codes.shape[1] - 1, gpt.WIDTH)), ("data", "stage"), to="varying")
        _, outs = lax.scan(turn, start, tnp.concatenate([small, idle]))
        final = nn.layer_norm(outs[count - 1 :].reshape(-1, *outs.shape[2:]), params["norm"])
        found = nn.linear_cross_entropy(final, params["head"], codes[:, 1:])
        return lax.pmean(lax.psum(tnp.where(stage == count - 1, found, 0), "stage"), "data")

    whole = {"table": P(), "blocks": P("stage"), "norm": P(), "head": P()}
    return tw.shard_map(part, mesh=mesh, in_specs=(whole, P("data")), out_specs=P())


# ------------------------------------------------------------------------------------------------------------ training


@dataclass(frozen=True)
class Plan:
    """A mesh, how the weights lie on it and how the batch does; a loss and a form of the weights of its own."""

    shape: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    place: Callable = replicated
    codes: P = P("data")
    objective: Callable | None = None
    form: Callable = lambda params: params


def run(text: gpt.Text, steps: int, plan: Plan) -> tuple[list[float], float]:
    """The loss of each step and the seconds of the later ones, on a mesh or on one device."""
    params = plan.form(gpt.initial(random.key(0), len(text.letters)))
    state = nn.adamw_init(params)
    mesh = tw.make_mesh(plan.shape, plan.names) if plan.shape else None
    objective = plan.objective(mesh) if plan.objective else gpt.loss
    step, rng, losses = gpt.make_step(gpt.STEPS, objective), np.random.default_rng(0), []
    if mesh:
        lying = [plan.place(mesh, t) for t in (params, state)]
        params, state = (tw.device_put(t, s) for t, s in zip((params, state), lying, strict=True))
        step = tw.jit(step.__wrapped__, donate_argnums=(0, 1), out_shardings=(*lying, None))
    start = 0.0
    for i in range(steps):
        codes = gpt.batch(rng, text.train)
        if mesh:
            codes = tw.device_put(codes, NamedSharding(mesh, plan.codes))
        params, state, loss = step(params, state, codes)
        losses.append(float(loss))
        start = time.perf_counter() if i == 0 else start
    return losses, (time.perf_counter() - start) / max(steps - 1, 1)


def ahead(text: gpt.Text, target: str, n: int) -> float:
    """The seconds that the tensor-parallel step takes to compile for `n` devices of a target that need not be here."""
    mesh = AbstractMesh((n // 2, 2), ("data", "model"))
    params = tw.eval_shape(lambda: gpt.initial(random.key(0), len(text.letters)))
    trees = params, tw.eval_shape(nn.adamw_init, params)
    lying = tuple(tensor(mesh, t) for t in trees)

    def struct(x, sharding):
        return tw.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

    args = [tw.tree.map(struct, t, s) for t, s in zip(trees, lying, strict=True)]
    codes = tw.ShapeDtypeStruct((gpt.BATCH, gpt.CONTEXT + 1), "int32", sharding=NamedSharding(mesh, P("data")))
    step = tw.jit(gpt.make_step(gpt.STEPS, gpt.loss).__wrapped__, donate_argnums=(0, 1), out_shardings=(*lying, None))
    start = time.perf_counter()
    tw.compile(step, *args, codes, target=target)
    return time.perf_counter() - start


def plans(n: int) -> dict[str, Plan]:
    """The ways to split over `n` devices."""
    return {
        "one device": Plan(),
        f"data, {n}": Plan((n,), ("data",)),
        f"tensor, {n // 2} x 2": Plan((n // 2, 2), ("data", "model"), tensor),
        f"fully sharded, {n}": Plan((n,), ("data",), fully),
        f"sequence, {n}": Plan((n,), ("seq",), codes=P(), objective=sequence),
        f"pipeline, {n // 4} x 4": Plan((n // 4, 4), ("data", "stage"), stages, objective=pipeline, form=stacked),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--target", help="compile the tensor-parallel step for this target, and do no more")
    parser.add_argument("--devices", type=int, default=4, help="how many devices of the target (default: 4)")
    options = parser.parse_args()
    if options.target:
        seconds = ahead(gpt.Text(), options.target, options.devices)
        console.print(f"the step for {options.devices} devices of {options.target}: compiled in {seconds:.0f} s")
        return 0
    if "TILEWRIGHT_COORDINATOR" in os.environ:  # of `tilewright launch`
        tw.distributed.initialize()
    else:
        tw.config.update("num_cpu_devices", 8)
    text, table = gpt.Text(), Table("plan", "first loss", "last loss", "largest difference", "seconds a step")
    reference, worst = None, 0.0
    for name, plan in plans(tw.device_count()).items():
        losses, seconds = run(text, options.steps, plan)
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
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
