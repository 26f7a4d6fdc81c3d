"""Collectives over an axis named `i` of size 4, with their operands and what NumPy says of the whole."""

import numpy as np

from tests.support.equivalence import draws
from tilewright import lax
from tilewright import numpy as tnp

(X,) = draws((4, 3))
(S,) = draws((4, 4, 3))
(Q,) = draws((2, 4, 3))
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


def same(x, n=4):
    return np.broadcast_to(x, (n, *np.shape(x)))


SIZES = np.int32([[1, 0, 2, 1], [0, 3, 0, 1], [1, 1, 1, 1], [0, 0, 2, 0]])  # rows that one sends to another


def before(x, axis=-1):
    return np.cumsum(x, axis) - x


def ragged(x):
    """Rows of x (5, 3) go to members of the axis in order; what arrives is stacked on 7 rows of ones."""
    starts, sizes, places, received = (
        tnp.asarray(v)[lax.axis_index("i")] for v in (before(SIZES), SIZES, before(SIZES, 0), SIZES.T)
    )
    return lax.ragged_all_to_all(x, tnp.ones((7, 3)), starts, sizes, places, received, axis_name="i")


def exchanged(operands, outputs, starts, sizes, places):
    """What slices (sender, receiver) of rows make of the outputs."""
    outputs = np.array(outputs)
    for sender, receiver in np.ndindex(sizes.shape[:2]):
        at = sender, receiver
        n, start, place = sizes[at], starts[at], places[at]
        outputs[receiver, place : place + n] = operands[sender, start : start + n]
    return outputs


CASES = {
    "psum": (lambda x: lax.psum(x, "i"), X, lambda x: same(x.sum(0))),
    "pmean": (lambda x: lax.pmean(x, "i"), X, lambda x: same(x.mean(0))),
    "pmax": (lambda x: lax.pmax(x, "i"), X, lambda x: same(x.max(0))),
    "pmin": (lambda x: lax.pmin(x, "i"), X, lambda x: same(x.min(0))),
    "gather": (lambda x: lax.all_gather(x, "i"), X, same),
    "gather_last": (lambda x: lax.all_gather(x, "i", axis=-1), X, lambda x: same(x.T)),
    "gather_tiled": (lambda x: lax.all_gather(x, "i", tiled=True), X, lambda x: same(x.reshape(-1))),
    "scatter": (lambda x: lax.psum_scatter(x, "i"), S, lambda x: x.sum(0)),
    "scatter_tiled": (lambda x: lax.psum_scatter(x, "i", tiled=True), S, lambda x: x.sum(0).reshape(4, 1, 3)),
    "exchange": (lambda x: lax.all_to_all(x, "i", 0, 0), S, lambda x: x.swapaxes(0, 1)),
    "exchange_to": (lambda x: lax.all_to_all(x, "i", 0, 1), S, lambda x: x.transpose(1, 2, 0)),
    "exchange_tiled": (
        lambda x: lax.all_to_all(x, "i", 0, 1, tiled=True),
        S,
        lambda x: x.swapaxes(0, 1).reshape(4, 1, 12),
    ),
    "permute": (lambda x: lax.ppermute(x, "i", RING), X, lambda x: np.roll(x, 1, 0)),
    "permute_part": (lambda x: lax.ppermute(x, "i", [(0, 2)]), X, lambda x: np.where([[0], [0], [1], [0]], x[0], 0)),
    "shuffle": (lambda x: lax.pshuffle(x, "i", [2, 0, 1, 3]), X, lambda x: x[[2, 0, 1, 3]]),
    "swap": (lambda x: lax.pswapaxes(x, "i", 0), S, lambda x: x.swapaxes(0, 1)),
    "broadcast": (lambda x: lax.pbroadcast(x, "i", 2), X, lambda x: same(x[2])),
    "index": (lambda x: x * lax.axis_index("i"), X, lambda x: x * np.arange(4)[:, None]),
    "size": (lambda x: x * lax.axis_size("i") + lax.psum(1, "i"), X, lambda x: x * 4 + 4),
    "ragged": (
        ragged, draws((4, 5, 3))[0],
        lambda x: exchanged(x, np.ones((4, 7, 3), np.float32), before(SIZES), SIZES, before(SIZES, 0)),
    ),
}  # fmt: skip
