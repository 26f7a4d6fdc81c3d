"""Functions of the float operands of an example alone, and directions for them."""

import numpy as np

from tests.support.corpus.small import Example, rand
from tilewright.core.support import pytree


def floats(example: Example, **options):
    """A function of the float operands alone, those operands, and directions for them."""
    leaves, structure = pytree.flatten(tuple(example.operands))
    places = [i for i, x in enumerate(leaves) if x.dtype == np.float32]
    call = example.call(**options)

    def f(*xs):
        full = list(leaves)
        for i, x in zip(places, xs, strict=True):
            full[i] = x
        return tuple(pytree.leaves(call(*structure.unflatten(full))))

    xs = tuple(leaves[i] for i in places)
    return f, xs, tuple(rand(*x.shape, seed=31 + k) for k, x in enumerate(xs))


def weights(outs):
    return tuple(rand(*o.shape, seed=57 + k) for k, o in enumerate(outs))
