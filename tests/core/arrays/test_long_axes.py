"""Axes beyond 2**31 elements: positions are int64 inside, whatever `enable_x64` says."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import IntegerOverflowError

N = 2**31 + 5
LONG = tw.ShapeDtypeStruct((N,), "int8")
I32 = tw.ShapeDtypeStruct((2,), "int32")

POSITIONS = {
    "known": (lambda x: x[np.array([N - 2, 5])],),
    "known, from the end": (lambda x: x[np.array([-2])],),
    "computed": (lambda x, i: x[i], I32),
    "taken": (lambda x: tnp.take(x, np.array([N - 2])),),
    "set": (lambda x: x.at[-3].set(9),),
    "added": (lambda x, i: x.at[i].add(1), I32),
    "a slice": (lambda x: lax.dynamic_slice(x, (N - 4,), (3,)),),
    "an update": (lambda x: lax.dynamic_update_slice(x, np.zeros(3, np.int8), (N - 4,)),),
    "a batch of slices": (lambda x, i: tw.vmap(lambda i: lax.dynamic_slice(x, (i,), (2,)))(i), I32),
}  # fmt: skip
TOO_LONG = {
    "argmax": lambda x: tnp.argmax(x), "argmin": lambda x: tnp.argmin(x), "argsort": lambda x: tnp.argsort(x),
    "iota": lambda x: lax.iota("int32", N), "arange": lambda x: tnp.arange(N),
    "argmax of all": lambda x: tnp.argmax(tnp.stack([x, x])),
}  # fmt: skip


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("name", POSITIONS)
def test_positions_are_of_64_bits(name, x64):
    f, *more = POSITIONS[name]
    with tw.enable_x64(x64):
        program = tw.compile(f, LONG, *more, stop="trace")
    used = [e for e in program.eqns if e.primitive.name in ("gather", "dynamic_slice", "scatter", "scatter_add",
                                                            "dynamic_update_slice")]  # fmt: skip
    for eqn in used:
        last = eqn.inputs[2 if "update" in eqn.primitive.name else 1]
        assert last.type.dtype == np.int64
    assert len(used) == 1


@pytest.mark.parametrize("name", TOO_LONG)
def test_what_int32_cannot_count_is_refused(name):
    with pytest.raises(IntegerOverflowError, match="enable_x64"):
        tw.compile(TOO_LONG[name], LONG, stop="trace")
    if name != "iota":
        with tw.enable_x64(True):
            assert tw.compile(TOO_LONG[name], LONG, stop="trace").out_types[0].dtype == np.int64


def test_values_at_the_end_of_a_long_axis():
    x = tw.jit(lambda: tnp.zeros(N, "int8").at[np.array([-2, 5])].set(np.array([7, 3], np.int8)))()
    found = tw.jit(lambda x, i: (x[i], tnp.take(x, i), lax.dynamic_slice(x, (N - 4,), (4,)), x[-3:]))(
        x, np.array([-2, 5], np.int32))
    assert [np.asarray(y).tolist() for y in found] == [[7, 3], [7, 3], [0, 0, 7, 0], [0, 7, 0]]
