"""Kernels as their authors write them: compiled and interpreted as in plain operations, derived and batched."""

import functools

import numpy as np
import pytest

import tilewright as tw
from tests.support.authors import EVERY
from tests.support.corpus.runs import close
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core import tree

each = pytest.mark.parametrize("case", EVERY, ids=lambda c: c.name)


@each
def test_compiled_and_interpreted(case):
    arrays = case.operands()
    expected = case.plain(np, *arrays)
    close(tw.jit(case.call)(*arrays), expected, case.tolerance)
    close(case.call(*arrays, interpret=tl.InterpretParams(detect_races=True, random_seed=3)), expected, case.tolerance)


def loss(call, outs):
    """A scalar of the float results, each weighted."""
    rng = np.random.default_rng(1)
    weights = [rng.standard_normal(np.shape(o)).astype(np.float32) for o in tree.leaves(outs)]

    def total(*arrays):
        found = zip(weights, tree.leaves(call(*arrays)), strict=True)
        return sum(tnp.sum(w * o) for w, o in found if o.dtype == np.float32)

    return total


@each
def test_gradients_and_batches(case):
    """The gradient of each of two, at once: both transformations, and their composition."""
    first, second = case.operands(0), case.operands(1)
    axes = case.axes or (0,) * len(first)
    second = [b if axis == 0 else a for a, b, axis in zip(first, second, axes, strict=True)]
    stacked = [np.stack([a, b]) if axis == 0 else a for a, b, axis in zip(first, second, axes, strict=True)]
    outs = case.plain(np, *first)
    ours = tw.vmap(tw.value_and_grad(loss(case.call, outs), case.derived), in_axes=axes)
    values, gradients = tw.jit(ours)(*stacked)
    plain = tw.jit(tw.value_and_grad(loss(functools.partial(case.plain, tnp), outs), case.derived))
    for i, arrays in enumerate((first, second)):
        value, gradient = plain(*arrays)
        close(values[i], value, 10 * case.tolerance)
        close([g[i] for g in gradients], gradient, 10 * case.tolerance)
