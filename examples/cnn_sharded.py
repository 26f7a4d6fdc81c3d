"""Train the network of `cnn.py` on several devices: each has all the weights and a part of every batch.

The step is the same function; only the shardings of its arguments differ, and the compiler inserts one kind of
communication: sums of gradients over the devices. `python examples/cnn_sharded.py` runs on eight virtual devices,
`tilewright launch -n 2 --devices 2 examples/cnn_sharded.py` on two processes. It fails unless every loss agrees with
that of one device, and if any operand of a convolution is gathered.
"""

import argparse
import os
import sys

import numpy as np

import tilewright as tw
from examples import cnn
from examples.digits import load
from tilewright import random
from tilewright.sharding import NamedSharding, P

TOLERANCE = 1e-4


@tw.jit
def step(params, images, labels):
    loss, grads = tw.value_and_grad(cnn.loss)(params, images, labels)
    return tw.tree.map(lambda p, g: p - 0.1 * g, params, grads), loss


def train(steps: int, mesh=None) -> tuple[list[float], set[str]]:
    """The loss of each step, and the kinds of collectives of one, on a mesh or on one device."""
    images, labels, _, _ = load(0)
    rows, everywhere = (None, None) if mesh is None else (NamedSharding(mesh, P("data")), NamedSharding(mesh, P()))
    params = tw.device_put(cnn.initial(random.key(0)), everywhere)
    losses, kinds = [], set()
    for start in range(0, steps * cnn.BATCH, cnn.BATCH):
        batch = [tw.device_put(x[start : start + cnn.BATCH], rows) for x in (images, labels)]
        if mesh is not None and not start:
            kinds = {c.kind for c in tw.explain(step, params, *batch).communication.collectives}
        params, loss = step(params, *batch)
        losses.append(float(loss))
    return losses, kinds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    options = parser.parse_args()
    if "TILEWRIGHT_COORDINATOR" in os.environ:  # of `tilewright launch`
        tw.distributed.initialize()
    else:
        tw.config.update("num_cpu_devices", 8)
    alone, _ = train(options.steps)
    losses, kinds = train(options.steps, tw.make_mesh((tw.device_count(),), ("data",)))
    difference = np.abs(np.subtract(losses, alone)).max()
    print(f"{tw.device_count()} devices: loss {losses[0]:.4f} to {losses[-1]:.4f}, at most {difference:.1e} from that "
          f"of one device; collectives: {', '.join(sorted(kinds))}")
    return int(difference > TOLERANCE or kinds != {"all-reduce"})


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
