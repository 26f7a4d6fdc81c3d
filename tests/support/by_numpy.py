"""Functions as one program that NumPy evaluates: laws that are not about a compiler need none."""

import numpy as np

import tilewright as tw
from tilewright.core.evaluate import evaluate


def by_numpy(f, *args):
    """What a function gives for some arguments, its Program evaluated by NumPy."""
    program, shapes = tw.make_jaxpr(f, return_shape=True)(*args)
    return tw.tree.structure(shapes).unflatten(evaluate(program, *map(np.asarray, tw.tree.leaves(args))))
