"""What comes out of memory that nothing has written: refused when sure, unproved otherwise, proved where it is set."""

from pathlib import Path

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import KernelError, PaddingError, RaceError, UninitializedError
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.verify.verify import verify

F32 = np.float32
X = np.arange(64, dtype=F32).reshape(8, 8)
SUM = X.reshape(2, 4, 2, 4).sum(2).reshape(8, 4)
SCRATCH = [tl.VMEM((4, 4), F32)]
BLOCK, OUT = tl.BlockSpec((4, 4), lambda i, j: (i, j)), tl.BlockSpec((4, 4), lambda i, j: (i, 0))


def call(body, scratch=(), **options):
    """The blocks of a row come one after the other; the output has one block for each row."""
    options = {"in_specs": [BLOCK], "out_specs": OUT, "grid": (2, 2)} | options
    return lambda x: tl.kernel_call(body, tw.ShapeDtypeStruct((8, 4), F32), scratch_shapes=scratch, **options)(x)


def first(action, axis=1):
    tl.when(tl.program_id(axis) == 0)(action)


def zero(ref):
    ref[...] = tnp.zeros(ref.shape, ref.dtype)


def last(o, value):
    tl.when(tl.program_id(1) == 1)(lambda: o.__setitem__(..., value[...]))


def output(x, o):
    o[...] += x[...]


def output_read(x, o):
    o[...] = x[...] + o[...]


def scratch(x, o, s):
    s[...] += x[...]
    last(o, s)


def never(x, o, s):
    o[...] = x[...] + s[...]


def half(x, o, s):
    s[:2] = x[:2]
    o[...] = s[...]


def late(x, o, s):
    first(lambda: o.__setitem__(..., s[...]))
    zero(s)


def second_run(x, o):
    first(lambda: zero(o), 0)
    o[...] += x[...]


def scoped(x, o):
    o[...] = tl.run_scoped(lambda s: s[...] + x[...], tl.VMEM((4, 4), F32))


def copied(x, o, s, sem):
    copy = tl.make_async_copy(x, s, sem)
    copy.start()
    first(lambda: o.__setitem__(..., s[...]))
    copy.wait()


REFUSED = {
    "an output": (output, ()), "an output that is read": (output_read, ()), "scratch": (scratch, SCRATCH),
    "scratch never written": (never, SCRATCH), "half of it": (half, SCRATCH), "set afterwards": (late, SCRATCH),
    "set in the first run": (second_run, ()), "memory of a scope": (scoped, ()),
    "a copy before its wait": (copied, [*SCRATCH, tl.SemaphoreType.DMA]),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_nothing_has_written_is_refused(name):
    body, memory = REFUSED[name]
    with pytest.raises(UninitializedError) as caught:
        call(body, memory)(X)
    for word in (f"kernel {body.__name__}: ", "before anything is written", "output o", Path(__file__).name, "when"):
        assert word in str(caught.value), str(caught.value)
    with pytest.raises(UninitializedError):  # on every target
        tw.compile(call(body, memory), X, target="cuda:sm_90", stop="program")
    assert np.isnan(call(body, memory, interpret=True)(X)).any()  # as it would be
    with pytest.raises(KernelError, match="written before it is read is not proved"):
        call(body, memory, interpret=True, strict=True)(X)


def initialised(x, o):
    first(lambda: zero(o))
    o[...] += x[...]


def initialised_scratch(x, o, s):
    first(lambda: zero(s))
    s[...] += x[...]
    last(o, s)


def by_values(x, o, s):
    s[...] = tnp.where(tl.program_id(1) == 0, 0, s[...]) + x[...]
    last(o, s)


def either_way(x, o, s):
    """The first cell is one of those of a test of data too."""
    tl.when((tl.program_id(1) == 0) | (x[0, 0] > 1000))(lambda: zero(s))
    s[...] += x[...]
    last(o, s)


def by_rows(x, o, s):
    for row in range(4):
        tl.when(tl.program_id(1) == 0)(lambda row=row: s.__setitem__(row, tnp.zeros(4, F32)))
    s[...] += x[...]
    last(o, s)


def in_a_loop(x, o, s):
    def row(i, carry):
        s[i] = tnp.where(tl.program_id(1) == 0, 0, s[i]) + x[i]
        return carry

    tw.lax.fori_loop(0, 4, row, 0)
    last(o, s)


def nested(x, o, s):
    def start():
        tl.when(tl.program_id(0) >= 0)(lambda: zero(s))

    first(start)
    s[...] += x[...]
    last(o, s)


def all_at_once(x, o, s):
    """Memory of all cells is set in the first one."""

    @tl.when((tl.program_id(0) == 0) & (tl.program_id(1) == 0))
    def _():
        s[...] = tnp.zeros((2, 4, 4), F32)

    s[tl.program_id(0)] += x[...]
    last(o, s.at[tl.program_id(0)])


def double_buffered(x, o, s, sems):
    """The rows of a block come through a buffer, the next on its way while one is added."""

    def fetch(i):
        return tl.make_async_copy(x.at[i], s.at[i % 2], sems.at[i % 2])

    first(lambda: zero(o))
    fetch(0).start()

    def row(i, carry):
        tl.when(i < 3)(lambda: fetch(i + 1).start())
        fetch(i).wait()
        o[i] += s[i % 2]
        return carry

    tw.lax.fori_loop(0, 4, row, 0)


RIGHT = {
    "an output": (initialised, ()), "scratch": (initialised_scratch, SCRATCH), "by values": (by_values, SCRATCH),
    "by data too": (either_way, SCRATCH), "row by row": (by_rows, SCRATCH), "in a loop": (in_a_loop, SCRATCH),
    "in branches of branches": (nested, SCRATCH), "of all cells": (all_at_once, [tl.VMEM((2, 4, 4), F32)]),
    "copies": (double_buffered, [tl.VMEM((2, 4), F32), tl.SemaphoreType.DMA((2,))]),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_memory_that_is_set_first_is_proved(name):
    f = call(*RIGHT[name])
    (kernel,) = kernels_of(tw.make_jaxpr(f)(X))
    assert not [x for x in verify(kernel) if x.what == "written before it is read"]
    np.testing.assert_array_equal(f(X), SUM)
    np.testing.assert_array_equal(call(*RIGHT[name], interpret=True)(X), SUM)


def by_data(x, o, s):
    tl.when(x[0, 0] >= 0)(lambda: zero(s))
    o[...] = x[...] + s[...]


def test_what_data_decides_is_not_known():
    f = call(by_data, SCRATCH)
    assert "written before it is read" in str(tw.explain(f, X))
    with pytest.raises(KernelError, match=r"scratch s of f32\[4,4\] may be read before it is written"):
        call(by_data, SCRATCH, strict=True)(X)


def test_an_output_whose_block_a_table_chooses_keeps_it_along_other_axes():
    def body(order, x, o, s):
        tl.when(tl.program_id(1) == 1)(lambda: zero(s))
        s[...] += x[...]
        o[...] = s[...]  # what the first step stores is written over by the second

    def never(order, x, o, s):
        s[...] += x[...]
        o[...] = s[...]

    def call(body, axis):
        spec = tl.PrefetchScalarGridSpec(
            num_scalar_prefetch=1, grid=(2, 2), in_specs=[tl.BlockSpec((4, 4), lambda i, j, order: (i, j))],
            out_specs=tl.BlockSpec((4, 4), lambda i, j, order: (order[(i, j)[axis]], 0)),
            scratch_shapes=SCRATCH)  # fmt: skip
        f = tl.kernel_call(body, tw.ShapeDtypeStruct((8, 4), F32), grid_spec=spec)
        return f(np.array([1, 0], np.int32), X)

    np.testing.assert_array_equal(call(body, 0), np.concatenate([X[4:, 4:], X[:4, 4:]]))
    for wrong in ((never, 0), (body, 1)):  # the second leaves what the first step stored
        with pytest.raises(UninitializedError):
            call(*wrong)


def test_memory_of_no_elements_lets_nothing_out():
    def body(x, o, s):
        o[...] = x[...] + s[...]

    struct = tw.ShapeDtypeStruct((0, 3), F32)
    got = tl.kernel_call(body, struct, scratch_shapes=[tl.VMEM((0, 3), F32)])(np.zeros((0, 3), F32))
    assert np.asarray(got).shape == (0, 3)


def test_large_grids_are_followed_by_their_kinds_of_cells():
    def body(x, o, s):
        @tl.when(tl.program_id(2) == 0)
        def _():
            zero(s)

        tl.when(tl.program_id(1) >= tl.program_id(2))(lambda: s.__setitem__(..., s[...] + x[0]))
        tl.when(tl.program_id(2) == 499)(lambda: o.__setitem__(0, s[...]))

    spec = tl.BlockSpec((1, 4, 4), lambda i, j, k: (i, 0, 0))
    f = lambda x: tl.kernel_call(  # noqa: E731
        body, tw.ShapeDtypeStruct((3, 500 * 4, 4), F32), grid=(3, 500, 500), in_specs=[spec],
        out_specs=tl.BlockSpec((1, 4, 4), lambda i, j, k: (i, j, 0)), scratch_shapes=SCRATCH)(x)  # fmt: skip
    (kernel,) = kernels_of(tw.make_jaxpr(f)(np.ones((3, 4, 4), F32)))
    assert all(x.verdict == "proved" for x in verify(kernel))


# ---------------------------------------------------------------------------- past the end, by another way

R = np.arange(1, 11, dtype=F32)


def ragged(body, order=lambda i: (i,), scratch=(), **options):
    spec = tl.BlockSpec((4,), order)
    return lambda x: tl.kernel_call(body, tw.ShapeDtypeStruct((10,), F32), grid=3, in_specs=[spec], out_specs=spec,
                                    scratch_shapes=scratch, **options)(x)  # fmt: skip


def pooled(v):
    return tw.lax.reduce_window(v, F32(-np.inf), tw.lax.max, (3,), (1,), "SAME")


MOVED = {
    "a window": lambda v: tw.lax.reduce_window(v, F32(0), tw.lax.add, (3,), (1,), "SAME"),
    "a shift": lambda v: tw.lax.pad(v, F32(0), [(-1, 1, 0)]),
    "a filter of the operand's shape": lambda v: tw.lax.conv_general_dilated(
        v[None, None], tnp.ones((1, 1, 4), F32), (1,), "SAME")[0, 0],
    "a convolution": lambda v: tnp.convolve(v, tnp.ones(4, F32), mode="same"),
    "a pooling's gradient": lambda v: tw.grad(lambda u: (pooled(u) * tnp.arange(4)).sum())(v),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_what_moves_elements_brings_in_those_past_the_end(name):
    def body(x, o):
        o[...] = MOVED[name](x[...])

    with pytest.raises((PaddingError, KernelError), match="operand x"):
        ragged(body, strict=True)(R)


def running(x, o, s):
    first(lambda: zero(s), 0)
    s[...] += x[...]
    o[...] = s[...]


def test_scratch_carried_to_a_cell_of_another_block():
    memory = [tl.VMEM((4,), F32)]
    np.testing.assert_array_equal(ragged(running, scratch=memory, strict=True)(R)[:4], R[:4])
    with pytest.raises(KernelError, match="operand x"):
        ragged(running, lambda i: (2 - i,), memory, strict=True)(R)


# ---------------------------------------------------------------------------- scratch that is set by data too


def summed(test, **options):
    """Sums over an ordered axis in scratch that is set to 0 where a test of the step and of prefetched rows says so."""

    def body(rows, x, o, s):
        step = tl.program_id(1)
        tl.when(test(step, rows))(lambda: zero(s))
        s[...] += x[...]
        tl.when(step == 2)(lambda: o.__setitem__(..., s[...]))

    spec = tl.PrefetchScalarGridSpec(
        1, grid=(2, 3), in_specs=[tl.BlockSpec((4,), lambda j, k, r: (k * 2 + j,))],
        out_specs=tl.BlockSpec((4,), lambda j, k, r: (j,)), scratch_shapes=[tl.VMEM((4,), F32)])  # fmt: skip
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((8,), F32), grid_spec=spec,
                          dimension_semantics=("parallel", "arbitrary"), **options)  # fmt: skip
    return call(np.zeros(3, np.int32), np.arange(24, dtype=F32))


STARTS = {
    "the first step": (lambda k, r: k == 0, True),
    "the first step, or by data": (lambda k, r: (k == 0) | (r[k] != r[tnp.maximum(k - 1, 0)]), True),
    "both of two tests": (lambda k, r: (k < 1) & (k >= 0), True),
    "data alone": (lambda k, r: k == r[0], False),
}


@pytest.mark.parametrize("name", STARTS)
def test_scratch_set_in_the_first_step_carries_along_no_parallel_axis(name):
    test, proved = STARTS[name]
    for options in ({}, {"interpret": True}):
        np.testing.assert_array_equal(summed(test, **options), np.arange(24, dtype=F32).reshape(3, 8).sum(0))
    if proved:
        summed(test, strict=True)
    else:
        with pytest.raises(KernelError, match="scratch s: carried along no parallel axis is not proved"):
            summed(test, strict=True)


def test_scratch_that_is_not_set_carries_along_a_parallel_axis():
    with pytest.raises(RaceError, match="scratch s of .* carries values"):
        summed(lambda k, r: k == 1)


def test_a_race_on_scratch_is_shown_by_two_cells():
    """The cell that reads, the element, the cell that wrote it last, both lines; what data places is unknown."""

    def total(place, **options):
        def body(t, x, o, s):
            @tl.when(tl.program_id(1) == 0)
            def _():
                s[0, :] = x[0, :]

            o[...] = x[...] + s[place(t), :][None]

        spec = tl.BlockSpec((2, 4), lambda i, j, *_: (i, j))
        return tl.kernel_call(
            body, tw.ShapeDtypeStruct((4, 12), F32), dimension_semantics=("arbitrary", "parallel"),
            grid_spec=tl.PrefetchScalarGridSpec(1, (2, 3), [spec], spec, [tl.VMEM((2, 4), F32)]), **options,
        )(np.zeros(1, "int32"), np.ones((4, 12), F32))  # fmt: skip

    with pytest.raises(RaceError) as caught:
        total(lambda t: 0)
    line = total.__code__.co_firstlineno + 4
    for words in ("along axis 1", r"cell (0, 1) reads s[0, 0]", f"cell (0, 0) was the last to write (line {line})",
                  f"test_uninitialized.py:{line + 2}"):  # fmt: skip
        assert words in str(caught.value), caught.value
    with pytest.raises(KernelError, match="scratch s: carried along no parallel axis is not proved: it may be read"):
        total(lambda t: t[0], strict=True)
