"""A step of gradient descent with momentum, in place: both outputs start as operands, by `input_output_aliases`.

Blocks that no cell visits keep what the operand held: with `skip` the first blocks are left as they are.
"""

import tilewright as tw
from tests.support.corpus.kit import Size, Wrong, floats
from tilewright import lang as tl
from tilewright.core.support.errors import OutOfBoundsError, RaceError

RATE, DECAY = 0.1, 0.9


def momentum_step(w, m, gradient, new_w, new_m):
    new_m[...] = DECAY * new_m[...] + gradient[...]
    new_w[...] -= RATE * new_m[...]


def call(w, m, gradient, *, block=4, skip=1, **changes):
    n = w.shape[0]
    spec = tl.BlockSpec((block,), lambda i: i + skip)
    options = {
        "grid": tl.cdiv(n, block) - skip,
        "in_specs": [spec, spec, spec],
        "out_specs": (spec, spec),
        "input_output_aliases": {0: 0, 1: 1},
    }
    shape = tw.ShapeDtypeStruct((n,), w.dtype)
    return tl.kernel_call(momentum_step, (shape, shape), **options | changes)(w, m, gradient)


def reference(np, w, m, gradient, block=4, skip=1):
    left = skip * block
    new_m = DECAY * m[left:] + gradient[left:]
    new_w = w[left:] - RATE * new_m
    return np.concatenate([w[:left], new_w]), np.concatenate([m[:left], new_m])


def make(rng, n):
    return floats(rng, n), floats(rng, n), floats(rng, n)


SIZES = [Size(12), Size(13), Size(5)]
DIFFERENTIABLE = (0, 1, 2)
SECOND = True


def one_block_too_many(*arrays):
    return call(*arrays, grid=3)


def one_block(*arrays):
    spec, same = tl.BlockSpec((4,), lambda i: i), tl.BlockSpec((4,), lambda i: 0)
    return call(*arrays, in_specs=[spec] * 3, out_specs=(spec, same), dimension_semantics=["parallel"])


WRONG = [
    Wrong(OutOfBoundsError, one_block_too_many,
          ("kernel momentum_step", "operand w", "cell (2,)", "block (3,)", "12 to 15", "has 12")),
    Wrong(RaceError, one_block, ("kernel momentum_step", "(0,) and (1,)", "block (0,)", "output new_m", "axis 0")),
]  # fmt: skip
