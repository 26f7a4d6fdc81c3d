"""A ring of kernels: a matrix product whose left operand goes round the devices, one part at a time.

Each device has rows of x and columns of w. In each turn its kernel multiplies the rows that it holds just now, and it
passes them on to its neighbour (`lax.ppermute`), so that no device ever holds all of x. The gradient is the same ring
backwards: the kernel's derivative is a kernel again. `python examples/kernel_ring.py` runs on eight virtual devices,
`tilewright launch -n 2 --devices 2 examples/kernel_ring.py` on two processes. It fails unless product and gradient are
NumPy's.
"""

import argparse
import os
import sys

import numpy as np

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.experimental import multihost_utils
from tilewright.sharding import NamedSharding, P

ROWS, INNER, COLUMNS, TILE = 64, 32, 64, 8


def body(x, w, out):
    out[...] = x[...] @ w[...]


def product(x, w):
    """A product in tiles of TILE rows, as a kernel."""
    return tl.kernel_call(
        body, tw.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype), grid=(tl.cdiv(x.shape[0], TILE),),
        in_specs=[tl.BlockSpec((TILE, x.shape[1]), lambda i: (i, 0)), tl.BlockSpec(w.shape, lambda i: (0, 0))],
        out_specs=tl.BlockSpec((TILE, w.shape[1]), lambda i: (i, 0)),
    )(x, w)  # fmt: skip


def ring(x, w):
    """All rows of x times a device's columns of w, from a device's rows of x."""
    count, me, rows = lax.axis_size("ring"), lax.axis_index("ring"), x.shape[0]
    onwards = [(i, (i + 1) % count) for i in range(count)]

    def turn(carry, i):
        x, out = carry
        owner = (me - i) % count  # whose rows these are
        out = lax.dynamic_update_slice_in_dim(out, product(x, w), owner * rows, axis=0)
        return (lax.ppermute(x, "ring", onwards), out), None

    out = lax.pcast(tnp.zeros((count * rows, w.shape[1]), x.dtype), "ring", to="varying")
    return lax.scan(turn, (x, out), tnp.arange(count))[0][1]


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    if "TILEWRIGHT_COORDINATOR" in os.environ:  # of `tilewright launch`
        tw.distributed.initialize()
    else:
        tw.config.update("num_cpu_devices", 8)
    mesh = tw.make_mesh((tw.device_count(),), ("ring",))
    around = tw.jit(tw.shard_map(ring, mesh=mesh, in_specs=(P("ring"), P(None, "ring")), out_specs=P(None, "ring")))
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((ROWS, INNER), (INNER, COLUMNS)))
    xs, ws = tw.device_put(x, NamedSharding(mesh, P("ring"))), tw.device_put(w, NamedSharding(mesh, P(None, "ring")))
    slope = tw.jit(tw.grad(lambda x, w: (around(x, w) ** 2).sum(), (0, 1)))

    def error(found, expected):
        return np.abs(multihost_utils.process_allgather(found, tiled=True) - expected).max() / np.abs(expected).max()

    forward, (dx, dw) = error(around(xs, ws), x @ w), slope(xs, ws)
    backward = max(error(dx, 2 * (x @ w) @ w.T), error(dw, 2 * x.T @ (x @ w)))
    kinds = {c.kind for c in tw.explain(around, xs, ws).communication.collectives}
    print(f"{tw.device_count()} devices in a ring: relative error {forward:.1e}, of the gradient {backward:.1e}; "
          f"collectives: {', '.join(sorted(kinds))}")
    return int(max(forward, backward) > 1e-5 or kinds != {"permute"})


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
