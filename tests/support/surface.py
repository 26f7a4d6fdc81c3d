"""The calls of `surface_calls` as functions of their arrays of floats, for laws over the public functions."""

import importlib

import numpy as np
import pytest

import tilewright as tw
from tests.support.calls.surface_calls import CALLS, UNEVEN, Of

SPACES = pytest.mark.parametrize("space", CALLS)


def function(space, name):
    found = importlib.import_module(f"tilewright.{space}")
    for part in name.split("."):
        found = getattr(found, part)
    return found


def is_float(x):
    return isinstance(x, np.ndarray) and x.dtype == np.float32


def of_arrays(space, call):
    """A call as a function of its arrays of floats, and these."""
    name, args, kwargs = call
    args = [a.make(tw.lax) if isinstance(a, Of) else a for a in args]
    places = [i for i, a in enumerate(args) if is_float(a)]

    def f(*arrays):
        full = list(args)
        for i, x in zip(places, arrays, strict=True):
            full[i] = x
        out = tw.tree.leaves(function(space, name)(*full, **kwargs))
        return [x for x in out if hasattr(x, "dtype")]

    return f, [args[i] for i in places]


def calls(space):
    """The calls that take floats, with what they are called in messages; sizes that depend on values are left out."""
    for n, call in enumerate(CALLS[space]):
        f, args = of_arrays(space, call)
        if args and (space, call[0]) not in UNEVEN:
            yield f"{call[0]} #{n}", f, args
