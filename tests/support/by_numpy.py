"""Functions as one program that NumPy evaluates: laws that are not about a compiler need none."""

import numpy as np

import tilewright as tw
from tilewright.core.tracing.numpy_interpreter import evaluate


def in_numpy(f):
    """A function as one Program, traced at its first call, that NumPy evaluates; its arguments stay of one type."""
    traced = []

    def call(*args):
        if not traced:
            traced.append(tw.make_jaxpr(f, return_shape=True)(*args))
        program, shapes = traced[0]
        return tw.tree.structure(shapes).unflatten(evaluate(program, *map(np.asarray, tw.tree.leaves(args))))

    return call


def by_numpy(f, *args):
    """What a function gives for some arguments, its Program evaluated by NumPy."""
    return in_numpy(f)(*args)
