"""Positions that follow each other, given one by one: read and written as spans, with the same values."""

import functools

import numpy as np
import pytest

from tests.support.corpus.runs import close
from tests.support.gpu.walker import check_mosaic, kernels_of
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.program import subprograms
from tilewright.core.primitives.refs.state_primitives import Take
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.ops.interpret_params import InterpretParams
from tilewright.lang.transforms.desugar import desugared
from tilewright.mosaic_tpu.contiguous_indices import with_spans

X = np.random.default_rng(0).standard_normal((6, 20), dtype=np.float32)


def softmax(x, o, *, block):
    """Of a row wider than a block, by pointers."""
    row, places, n = tl.program_id(0), tnp.arange(block), x.shape[1]

    def top(j, c):
        most, total = c
        at = j * block + places
        v = tl.load(x.at[row, at], mask=at < n, other=-tnp.inf)
        new = tnp.maximum(most, tnp.max(v))
        return new, total * tnp.exp(most - new) + tnp.sum(tnp.exp(v - new))

    most, total = lax.fori_loop(0, tl.cdiv(n, block), top, (np.float32(-1e30), np.float32(0)))

    def store(j, c):
        at = j * block + places
        v = tl.load(x.at[row, at], mask=at < n, other=-tnp.inf)
        tl.store(o.at[row, at], tnp.exp(v - most) / total, mask=at < n)
        return c

    lax.fori_loop(0, tl.cdiv(n, block), store, 0)


def strided(x, o):
    row = tl.program_id(0)
    o[row, :] = tnp.zeros(20, np.float32)
    o[row, 2 * tnp.arange(4) + 3] = x[row, tnp.arange(4) * 3 + 1]
    o[row, 10 + tnp.arange(5)] += x[row, 5 + tnp.arange(5)]


def rows(x, o):
    first = tl.program_id(0)
    o[first + tnp.arange(1), :] = x[first + tnp.arange(1), :] * 2


def anywhere(x, o):
    row = tl.program_id(0)
    o[row, :] = x[row, (tnp.arange(20) * 7) % 20] + x[row, 19 - tnp.arange(20)]


def carried(x, o):
    """Positions that a loop changes are those that it has, not those that it began with."""
    row = tl.program_id(0)

    def turn(j, c):
        at, total = c
        return at + 4, total + tl.load(x.at[row, at], mask=at < 20, other=0)

    at, total = lax.fori_loop(0, 5, turn, (tnp.arange(4), tnp.zeros(4, np.float32)))
    o[row, :] = tnp.broadcast_to(total[None], (5, 4)).reshape(20)


def takes(program):
    here = sum(type(e) is Take for eqn in program.eqns for e in eqn.params.get("index", ()))
    return here + sum(takes(inner) for eqn in program.eqns for _, inner in subprograms(eqn))


@pytest.mark.parametrize("body, left", [(functools.partial(softmax, block=8), 0), (strided, 0), (rows, 0),
                                        (anywhere, 2), (carried, 1)])  # fmt: skip
def test_positions_that_follow_each_other_are_spans(body, left):
    far = tl.BlockSpec(memory_space=tl.ANY)
    call = tl.kernel_call(body, X, grid=6, in_specs=[far], out_specs=far, name="by_places")
    ((kernel, arrays),) = kernels_of(call, X)
    other = with_spans(desugared(kernel))
    assert takes(desugared(kernel).body) > left - 1 and takes(other.body) == left
    params = InterpretParams()
    close(interpret(other, *arrays, params=params), interpret(kernel, *arrays, params=params), 0)
    check_mosaic(kernel, *arrays)
