"""The proof without a walk over cells: what it proves the walk proves too, and what it must not prove."""

import numpy as np
import pytest

import tilewright as tw
from tests.lang.analysis.test_poison import CUT, kernel_of_case, ragged_axes
from tests.support.laws import operands
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import TilewrightError
from tilewright.lang.analysis import uninitialized
from tilewright.lang.analysis.ragged_tails import tails_contained
from tilewright.lang.call import kernel_call
from tilewright.lang.kernel.kernel import ragged_axes as ragged_of
from tilewright.lang.kernel.traverse import kernels_of

X, Y, WIDE = (tw.ShapeDtypeStruct(s, "float32") for s in ((10, 6), (6, 10), (10, 8)))
ROWS, ALL = tl.BlockSpec((4, 6), lambda i: (i, 0)), tl.BlockSpec((6, 10), lambda i: (0, 0))


def contained(kernel):
    return tails_contained(kernel, {i: ragged_of(b) for i, b in enumerate(kernel.inputs) if ragged_of(b)})


def kernel(body, ins, specs, out=X, out_spec=ROWS, grid=3, **options):
    """The kernel of a call, made without its verification."""
    call = tl.kernel_call(body, out, grid=grid, in_specs=specs, out_specs=out_spec, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_call, "verify", lambda kernel, strict: [])
        (found,) = kernels_of(tw.make_jaxpr(call)(*ins))
    return found


def store(f):
    def body(*refs):
        refs[-1][...] = f(*(r[...] for r in refs[:-1]))

    return body


@pytest.mark.parametrize("case", CUT)
def test_what_is_proved_of_a_primitive_the_walk_proves(case):
    values = operands(case)
    for number, axis in ragged_axes(case):
        ins, call = kernel_of_case(case, number, axis)
        cut = [np.asarray(v)[tuple(slice(n) for n in s.shape)] for v, (s, _) in zip(values, ins, strict=True)]
        try:
            (found,) = kernels_of(tw.make_jaxpr(lambda *args, call=call: call(*args))(*cut))
        except TilewrightError:
            continue
        if contained(found):
            every = [(i, d) for i, b in enumerate(found.inputs) for d in ragged_of(b)]
            assert not uninitialized._walk(found, every, True).level, f"operand {number}, axis {axis}"


PROVED = {
    "pointwise": (store(tnp.tanh), [X], [ROWS]),
    "a product's rows": (store(lambda x, y: (x @ y)[:, :6]), [X, Y], [ROWS, ALL]),
    "a row's sum": (store(lambda x: x - tnp.sum(x, 1, keepdims=True)), [X], [ROWS]),
    "two operands": (store(lambda x, y: x + y), [X, X], [ROWS, ROWS]),
}


@pytest.mark.parametrize("name", PROVED)
def test_bodies_that_keep_tails_in_place_are_proved(name):
    assert contained(kernel(*PROVED[name]))


def accumulate(x, o):
    o[...] += x[...]


def in_scratch(x, o, s):
    s[...] = x[...]
    o[...] = s[...]


NOT_PROVED = {
    "a sum over the ragged axis": kernel(store(lambda x: x + tnp.sum(x, 0)), [X], [ROWS]),
    "rows in reverse": kernel(store(lambda x: x[::-1]), [X], [ROWS]),
    "a scan along it": kernel(store(lambda x: tnp.cumsum(x, 0)), [X], [ROWS]),
    "an output that ends later": kernel(
        store(lambda x: x), [tw.ShapeDtypeStruct((10, 6), "float32")], [ROWS], tw.ShapeDtypeStruct((11, 6), "float32")),
    "another cell's block": kernel(store(lambda x: x), [X], [tl.BlockSpec((4, 6), lambda i: (2 - i, 0))]),
    "what it held": kernel(accumulate, [X], [ROWS], interpret=True),
    "scratch": kernel(in_scratch, [X], [ROWS], scratch_shapes=[tl.VMEM((4, 6), "float32")]),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_PROVED)
def test_what_moves_tails_or_keeps_memory_is_left_to_the_walk(name):
    assert not contained(NOT_PROVED[name])


def test_no_cells_are_walked_where_the_proof_holds(monkeypatch):
    monkeypatch.setattr(uninitialized.GridInterpreter, "cell", lambda *args: pytest.fail("walked"))
    block = tl.BlockSpec((4, 8), lambda i: (i, 0))
    tw.make_jaxpr(tl.kernel_call(store(lambda x: x * 7 + 5), WIDE, grid=3, in_specs=[block], out_specs=block))(WIDE)
