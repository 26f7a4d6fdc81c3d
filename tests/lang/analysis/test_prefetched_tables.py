"""Reads of prefetched tables, in index maps and bodies: proved, refuted by a cell, or unknown where data decides."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.errors import KernelError, OutOfBoundsError
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.verify.verify import verify

F32, N = np.float32, 4


def rows(place, grid=(N,), entries=(N,), **options):
    """Row `place(ids, table)` of an operand in each cell."""

    def body(table, row, o):
        o[...] = row[...]

    spec = tl.PrefetchScalarGridSpec(
        1, grid, [tl.BlockSpec((1, 2), lambda *args: (place(*args), 0))],
        tl.BlockSpec((1, 2), lambda *args: (args[0], 0)))  # fmt: skip
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((grid[0], 2), F32), grid_spec=spec, **options)
    return call, np.zeros(entries, np.int32), np.ones((4, 2), F32)


def finding(call, *args):
    (kernel,) = kernels_of(tw.make_jaxpr(call)(*args))
    return [f.why for f in verify(kernel) if f.what == "index map reads in bounds" and f.verdict == "unknown"]


IN = {
    "the id": lambda i, t: t[i], "turned": lambda i, t: t[3 - i], "bounded": lambda i, t: t[tnp.minimum(i + 1, 3)],
    "around": lambda i, t: t[lax.rem(i + 1, np.int32(4))], "in a branch": lambda i, t: lax.cond(
        i < 3, lambda: t[i + 1], lambda: np.int32(0)),
}  # fmt: skip
OUT = {
    "the next": (lambda i, t: t[i + 1], 3, 4), "the one before": (lambda i, t: t[i - 1], 0, -1),
    "every other": (lambda i, t: t[2 * i], 2, 4), "two": (lambda i, t: t[i] + t[i + 2], 2, 4),
    "chosen later": (lambda i, t: tnp.where(i < 3, t[i + 1], 0), 3, 4),
    "in a loop": (lambda i, t: lax.fori_loop(0, 3, lambda k, s: s + t[i + k], np.int32(0)), 2, 4),
}  # fmt: skip


@pytest.mark.parametrize("name", IN)
def test_positions_within_are_proved(name):
    call, *args = rows(IN[name])
    assert finding(call, *args) == []
    np.testing.assert_array_equal(call(*args), np.ones((N, 2)))


@pytest.mark.parametrize("interpret", [False, True])
@pytest.mark.parametrize("name", OUT)
def test_positions_past_the_end_are_refuted(name, interpret):
    place, cell, position = OUT[name]
    call, *args = rows(place, interpret=interpret)
    with pytest.raises(OutOfBoundsError, match=rf"operand row: in cell \({cell},\) its index map reads prefetched "
                       rf"operand 0 at {position} along axis 0, which has 4 elements") as caught:  # fmt: skip
        call(*args)
    assert "test_prefetched_tables.py" in str(caught.value)


def test_positions_that_data_decides_are_unknown():
    call, *args = rows(lambda i, t: t[t[i]])
    assert finding(call, *args) == ["a place along axis 0 of prefetched operand 0 is not known to lie within"]
    assert "prefetched operand 0 is not known to lie within" in str(tw.explain(call, *args))
    np.testing.assert_array_equal(call(*args), np.ones((N, 2)))
    with pytest.raises(KernelError, match="index map reads in bounds is not proved"):
        rows(lambda i, t: t[t[i]], strict=True)[0](*args)


def test_tables_of_two_axes_and_large_grids():
    """With too many cells for tables, ranges prove, and cells at the ends of the axes refute."""
    call, *args = rows(lambda i, j, t: t[i, j + 1], (2, N), (2, N))
    with pytest.raises(OutOfBoundsError, match=r"in cell \(0, 3\) .* at 4 along axis 1"):
        call(*args)
    n = 2**21
    x, table = tw.ShapeDtypeStruct((n, 2), F32), tw.ShapeDtypeStruct((4 * n,), "int32")
    call, *_ = rows(lambda j, i, t: t[i * n + j], (n, 4))
    assert finding(call, table, x) == []
    call, *_ = rows(lambda j, i, t: t[i * n + j + 1], (n, 4))
    with pytest.raises(OutOfBoundsError, match=rf"in cell \({n - 1}, 3\) .* at {4 * n}"):
        finding(call, table, x)


BODIES = {
    "the next": (lambda t, i: t[i + 1], r"cell \(3,\) .* prefetched operand 0, of which it sees \(4,\), from 4"),
    "in a loop": (lambda t, i: lax.fori_loop(0, 3, lambda k, s: s + t[i + k], np.int32(0)), r"cell \(2,\) .* from 4"),
    "down a loop": (lambda t, i: lax.fori_loop(0, 2, lambda k, s: s + t[i - k], np.int32(0)), r"cell \(0,\).* from -1"),
}


@pytest.mark.parametrize("name", BODIES)
def test_bodies_read_tables_within(name):
    read, words = BODIES[name]

    def body(table, o):
        o[0, 0] = read(table, tl.program_id(0)).astype(F32)

    spec = tl.PrefetchScalarGridSpec(1, (N,), [], tl.BlockSpec((1, 1), lambda i, t: (i, 0)))
    with pytest.raises(OutOfBoundsError, match=words):
        tl.kernel_call(body, tw.ShapeDtypeStruct((N, 1), F32), grid_spec=spec)(np.zeros(N, np.int32))
