"""Loops that take just the turns in which their body does something."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.gpu.walker import check_all, check_triton
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.loopnest.loop_bounds import Line, bounds_of, narrow
from tilewright.lang.targets.target import target_of
from tilewright.triton_backend.lower import triton_module

SM_90 = target_of("cuda:sm_90")


def value(place, x):
    if not isinstance(place, Line):
        return place
    found = (place.slope * x + place.start) // place.divisor - place.shift
    assert place.slope * x + place.start >= 0  # MLIR's division truncates
    return min(max(found, 0), place.most) if place.clipped else found


SIZES, CELLS = st.sampled_from([1, 2, 16, 64, 128]), st.integers(2, 9)


@given(
    rows=SIZES, columns=SIZES, grid=st.tuples(CELLS, CELLS), left=st.none() | st.integers(0, 300), turned=st.booleans()
)
@settings(deadline=None)
def test_turns_are_those_of_the_table(rows, columns, grid, left, turned):
    """For the blocks that a causal mask, or one with a window, leaves."""
    i, j = np.indices(grid)
    table = (i + 1) * rows > j * columns
    if left is not None:
        table &= (j + 1) * columns > i * rows - left
    if turned:
        table, i = table.T, j.T
    kernel = Kernel.__new__(Kernel)
    object.__setattr__(kernel, "grid", table.shape)
    found = bounds_of(kernel, 1, table)
    if found is None:  # an empty row, or no line: the branch stays
        return
    for x in range(table.shape[0]):
        low, high = (value(place, x) for place in found)
        assert [low <= y < high for y in range(table.shape[1])] == list(table[x]), (found, x)


@given(rows=st.sampled_from([16, 32, 64, 128]), columns=st.sampled_from([16, 32, 64, 128]), n=st.integers(2, 40))
@settings(deadline=None)
def test_a_causal_mask_is_always_a_line(rows, columns, n):
    i, j = np.indices((-(-n * 64 // rows), -(-n * 64 // columns)))
    table = (i + 1) * rows > j * columns
    if min(table.shape) < 2:
        return
    kernel = Kernel.__new__(Kernel)
    for one in (table, table.T):
        object.__setattr__(kernel, "grid", one.shape)
        assert bounds_of(kernel, 1, one) is not None


def sums(seen, outside=False):
    """The sums over j of blocks of x where `seen(i, j)`; with `outside`, of something in every turn too."""

    def body(x, o, total):
        @tl.when(tl.program_id(1) == 0)
        def _():
            total[...] = tnp.zeros(total.shape, total.dtype)

        if outside:
            total[...] += 1.0

        @tl.when(seen(tl.program_id(0), tl.program_id(1)))
        def _():
            total[...] += x[...]

        @tl.when(tl.program_id(1) == tl.num_programs(1) - 1)
        def _():
            o[...] = total[...]

    def call(x):
        return tl.kernel_call(
            body,
            tw.ShapeDtypeStruct((4, 8), "float32"),
            grid=(4, 6),
            in_specs=[tl.BlockSpec((None, 8), lambda i, j: (j, 0))],
            out_specs=tl.BlockSpec((None, 8), lambda i, j: (i, 0)),
            scratch_shapes=[tl.VMEM((8,), "float32")],
        )(x)

    return call


SEEN = {
    "up to the diagonal": lambda i, j: j <= i,
    "from it": lambda i, j: j >= i,
    "a band": lambda i, j: (j >= i) & (j < i + 2),
    "half as steep": lambda i, j: 2 * j <= i + 1,
    "some turns": lambda i, j: (j >= 2) & (j < 5),
}
KEPT = {"a hole": lambda i, j: (j < 1) | (j > i), "both ids twice": lambda i, j: j * j <= 7 * i % 5}


@pytest.mark.parametrize("name", SEEN)
def test_a_loop_takes_the_turns_of_its_when(name):
    function = sums(SEEN[name])
    (kernel,) = kernels_in(function, [ArrayType((6, 8), "float32")])
    text = triton_module(kernel, SM_90).text
    assert "scf.for" in text and "scf.if" not in text
    x = np.random.default_rng(0).standard_normal((6, 8), dtype=np.float32)
    assert check_all(functools.partial(check_triton, target="cuda:sm_90"), function, x) == 1


@pytest.mark.parametrize("name", [*KEPT, "outside"])
def test_other_whens_stay_branches(name):
    function = sums(SEEN["from it"], outside=True) if name == "outside" else sums(KEPT[name])
    (kernel,) = kernels_in(function, [ArrayType((6, 8), "float32")])
    assert "scf.if" in triton_module(kernel, SM_90).text
    x = np.random.default_rng(0).standard_normal((6, 8), dtype=np.float32)
    assert check_all(functools.partial(check_triton, target="cuda:sm_90"), function, x) == 1


def test_an_axis_of_one_turn_is_left_alone():
    (kernel,) = kernels_in(sums(SEEN["from it"]), [ArrayType((6, 8), "float32")])
    assert narrow(kernel.replace(grid=(4, 1)), 1, kernel.body)[1] is None
