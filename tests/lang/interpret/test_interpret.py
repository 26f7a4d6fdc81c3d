"""Modes of the interpreter: poison, races, random order of parallel cells, the trace of moving blocks."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus.small import EXAMPLES
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support import pytree
from tilewright.core.support.errors import ArgumentError, ArgumentTypeError, RaceError
from tilewright.lang import tpu
from tilewright.lang.kernel.traverse import kernels_of

F32, I32 = np.float32, np.int32
FAR = tl.BlockSpec(memory_space=tl.ANY)
X = np.arange(8, dtype=F32)


def shape(*sizes, dtype=F32):
    return tw.ShapeDtypeStruct(sizes, dtype)


def rows(n):
    return tl.BlockSpec((n,), lambda i: (i,))


@pytest.mark.law
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e.name)
@pytest.mark.parametrize("params", [
    tl.InterpretParams(detect_races=True), tl.InterpretParams(random_seed=3),
    tl.InterpretParams(random_seed=4, detect_races=True, uninitialized_memory="zero"),
], ids=["races", "random", "both"])  # fmt: skip
def test_every_mode_gives_the_reference(example, params):
    expected = pytree.leaves(example.reference(*example.operands))
    got = pytree.leaves(example.call(interpret=params)(*example.operands))
    for g, e in zip(got, expected, strict=True):
        np.testing.assert_allclose(np.asarray(g), e, rtol=example.tolerance, atol=example.tolerance)


# ---------------------------------------------------------------------------- poison


def half_written(x_ref, o_ref):
    o_ref[:2] = x_ref[:2]


@pytest.mark.parametrize("memory", ["nan", "zero"])
def test_poison(memory):
    call = tl.kernel_call(half_written, shape(8), grid=2, in_specs=[rows(4)], out_specs=rows(4),
                          interpret=tl.InterpretParams(uninitialized_memory=memory))  # fmt: skip
    poison = np.nan if memory == "nan" else 0
    np.testing.assert_array_equal(call(X), [0, 1, poison, poison, 4, 5, poison, poison])


def test_poison_of_other_dtypes():
    for dtype, poison in ((I32, np.iinfo(I32).min), (np.uint8, 255), (bool, True)):

        def body(o_ref):
            o_ref[0] = np.asarray(0, o_ref.dtype)[()]

        out = tl.kernel_call(body, shape(2, dtype=dtype), interpret=True)()
        assert out[1] == poison and out.dtype == np.dtype(dtype)


def test_interpret_takes_modes():
    kernel = next(kernels_of(tw.make_jaxpr(
        tl.kernel_call(half_written, shape(8), grid=2, in_specs=[rows(4)], out_specs=rows(4)))(X)))  # fmt: skip
    (out,) = tl.interpret(kernel, X, params=tl.InterpretParams(uninitialized_memory="zero"))
    np.testing.assert_array_equal(out, [0, 1, 0, 0, 4, 5, 0, 0])


def test_modes_within_jit():
    call = tl.kernel_call(half_written, shape(8), grid=2, in_specs=[rows(4)], out_specs=rows(4),
                          interpret=tl.InterpretParams(uninitialized_memory="zero"))  # fmt: skip
    np.testing.assert_array_equal(tw.jit(call)(X), [0, 1, 0, 0, 4, 5, 0, 0])


# ---------------------------------------------------------------------------- races


def far_call(body, parallel=True, grid=(4,), start=None, dtype=F32, **options):
    semantics = ("parallel" if parallel else "arbitrary",) * len(grid)
    interpret = tl.InterpretParams(detect_races=True, **options)
    call = tl.kernel_call(body, shape(8, dtype=dtype), grid=grid, in_specs=[FAR], out_specs=FAR, interpret=interpret,
                          dimension_semantics=semantics, input_output_aliases={0: 0})  # fmt: skip
    return call(np.zeros(8, dtype) if start is None else start)


def own_part(x_ref, o_ref):
    i = tl.program_id(0)
    o_ref[tl.ds(2 * i, 2)] = tnp.full((2,), 1.0, F32) * i


def overlapping(x_ref, o_ref):
    i = tl.program_id(0)
    o_ref[tl.ds(2 * i, 2)] = tnp.full((2,), 1.0, F32)
    o_ref[(2 * i + 2) % 8] = 5.0


def neighbour_read(x_ref, o_ref):
    i = tl.program_id(0)
    o_ref[2 * i] = o_ref[(2 * i + 2) % 8] + 1


def everyone_reads(x_ref, o_ref):
    i = tl.program_id(0)
    o_ref[2 * i] = o_ref[1] + 1


def atomic(x_ref, o_ref):
    tl.atomic_add(o_ref, 0, 1.0)


def atomic_and_read(x_ref, o_ref):
    tl.atomic_add(o_ref, 0, 1.0)
    o_ref[tl.program_id(0) + 1] = o_ref[0]


def masked(x_ref, o_ref):
    i = tl.program_id(0)
    at = tnp.arange(8)
    tl.store(o_ref, ..., at * 1.0, mask=at // 2 == i)


def copied(x_ref, o_ref):
    def inner(buffer, sem):
        buffer[...] = tnp.ones(4, F32)
        tpu.async_copy(buffer, o_ref.at[tl.ds(tl.program_id(0), 4)], sem).wait()

    tl.run_scoped(inner, tl.VMEM((4,), F32), tpu.SemaphoreType.DMA)


@pytest.mark.parametrize("body", [own_part, everyone_reads, atomic, masked])
def test_no_race(body):
    far_call(body)
    far_call(body, random_seed=1)


@pytest.mark.parametrize("body, words", [
    (overlapping, r"cell \(1,\) writes element \(2,\) of .*, which cell \(0,\) writes"),
    (neighbour_read, r"cell \(1,\) writes element \(2,\) of .*, which cell \(0,\) reads"),
    (atomic_and_read, r"cell \(1,\) updates element \(0,\) of .*, which cell \(0,\) reads"),
    (copied, r"cell \(1,\) writes element \(1,\) of .*, which cell \(0,\) writes"),
])  # fmt: skip
def test_races(body, words):
    with pytest.raises(RaceError, match=rf"(?s)kernel {body.__name__}: {words}.*test_interpret.py.*atomic"):
        far_call(body)
    far_call(body, parallel=False)


def test_races_of_blocks():
    """Index maps that read data: two cells get one block."""

    def body(ids_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    def run(ids):
        spec = tl.PrefetchScalarGridSpec(1, (2,), [tl.BlockSpec((4,), lambda i, ids: (i,))],
                                         tl.BlockSpec((4,), lambda i, ids: (ids[i],)))  # fmt: skip
        return tl.kernel_call(body, shape(8), grid_spec=spec, dimension_semantics=("parallel",),
                              interpret=tl.InterpretParams(detect_races=True))(np.array(ids, I32), X)  # fmt: skip

    np.testing.assert_array_equal(run([1, 0]), [4, 5, 6, 7, 0, 1, 2, 3])
    with pytest.raises(RaceError, match=r"cell \(1,\) writes element \(4,\) of o_ref, which cell \(0,\) writes"):
        run([1, 1])


def test_only_parallel_axes_race():
    def body(x_ref, o_ref):
        o_ref[tl.program_id(0)] += 1.0

    call = tl.kernel_call(body, shape(8), grid=(8, 3), in_specs=[FAR], out_specs=FAR, input_output_aliases={0: 0},
                          dimension_semantics=("parallel", "arbitrary"),
                          interpret=tl.InterpretParams(detect_races=True))  # fmt: skip
    np.testing.assert_array_equal(call(X), X + 3)


# ---------------------------------------------------------------------------- order


def test_random_order():
    def order(seed, semantics):
        seen = []
        params = tl.InterpretParams(random_seed=seed, grid_point_recorder=seen.append)
        spec = tl.BlockSpec((1,), lambda i, k: (i,))

        def body(x_ref, o_ref):
            tl.when(tl.program_id(1) == 0)(lambda: o_ref.__setitem__(..., x_ref[...]))
            o_ref[...] += 1

        call = tl.kernel_call(body, shape(8), grid=(8, 2), in_specs=[spec], out_specs=spec, interpret=params,
                              dimension_semantics=semantics)  # fmt: skip
        np.testing.assert_array_equal(call(X), X + 2)
        return seen

    in_order = list(np.ndindex(8, 2))
    for semantics in (None, ("parallel", "arbitrary")):
        found = order(1, semantics)
        assert found != in_order and sorted(found) == in_order and found == order(1, semantics)
        assert any(order(s, semantics) != found for s in (2, 3, 4))
        assert all(found[n][0] == found[n + 1][0] and found[n][1] == 0 for n in range(0, 16, 2))
    assert order(None, None) == in_order


def test_scratch_that_carries_keeps_its_order():
    def body(x_ref, o_ref, acc_ref):
        tl.when(tl.program_id(0) == 0)(lambda: acc_ref.__setitem__(..., tnp.zeros(2, F32)))
        acc_ref[...] += x_ref[...]
        o_ref[...] = acc_ref[...]

    def run(interpret, semantics):
        return tl.kernel_call(body, shape(8), grid=(4,), in_specs=[rows(2)], out_specs=rows(2), interpret=interpret,
                              scratch_shapes=[tl.VMEM((2,), F32)], dimension_semantics=semantics)(X)  # fmt: skip

    expected = np.cumsum(X.reshape(4, 2), 0).ravel()
    np.testing.assert_array_equal(run(tl.InterpretParams(random_seed=1), None), expected)
    with pytest.raises(RaceError, match="scratch acc_ref .* carries values"):
        run(tl.InterpretParams(random_seed=1), ("parallel",))


# ---------------------------------------------------------------------------- trace


def test_trace():
    lines = []

    def add(x_ref, y_ref, o_ref):
        tl.when(tl.program_id(1) == 0)(lambda: o_ref.__setitem__(..., y_ref[...]))
        o_ref[...] += x_ref[...]

    call = tl.kernel_call(
        add, shape(8), grid=(2, 2), out_specs=tl.BlockSpec((4,), lambda i, k: (i,)),
        in_specs=[tl.BlockSpec((4,), lambda i, k: (k,)), tl.BlockSpec((4,), lambda i, k: (i,))],
        interpret=tl.InterpretParams(trace=lines.append))  # fmt: skip
    call(X, X)
    assert lines == [
        "add (0, 0): x_ref[0] loaded, y_ref[0] loaded, o_ref[0] entered",
        "add (0, 1): x_ref[1] loaded",
        "add (1, 0): o_ref[0] stored, x_ref[0] loaded, y_ref[1] loaded, o_ref[1] entered",
        "add (1, 1): x_ref[1] loaded",
        "add: o_ref[1] stored",
    ]


def test_trace_is_printed(capsys):
    tl.kernel_call(half_written, shape(8), grid=2, in_specs=[rows(4)], out_specs=rows(4),
                   interpret=tl.InterpretParams(trace=True))(X)  # fmt: skip
    assert capsys.readouterr().out.splitlines()[0] == "half_written (0,): x_ref[0] loaded, o_ref[0] entered"


# ---------------------------------------------------------------------------- wrong modes


def test_wrong_modes():
    with pytest.raises(ArgumentError, match="uninitialized_memory is 'one'"):
        tl.InterpretParams(uninitialized_memory="one")
    with pytest.raises(ArgumentError, match="dma_execution_mode"):
        tl.InterpretParams(dma_execution_mode="late")
    with pytest.raises(ArgumentTypeError, match="interpret is 'yes'"):
        tl.kernel_call(half_written, shape(8), interpret="yes")


@pytest.mark.parametrize("split_first", [True, False])
@pytest.mark.parametrize("semantics", [None, ("parallel", "parallel")])
def test_cells_may_share_a_block_by_atomic_updates_alone(split_first, semantics):
    """Also where the block is left and entered again."""
    place = (lambda s, i: (s, i)) if split_first else (lambda i, s: (s, i))
    out = tl.BlockSpec((4,), lambda *ids: (place(*ids)[1],))
    part = tl.BlockSpec((4,), lambda *ids: (place(*ids)[0] * 2 + place(*ids)[1],))
    x = np.arange(24, dtype=F32)

    def body(start, x_ref, o_ref):
        tl.atomic_add(o_ref, (slice(None),), x_ref[...])

    for seed in (None, 3):
        call = tl.kernel_call(
            body, tw.ShapeDtypeStruct((8,), F32), grid=(3, 2) if split_first else (2, 3), in_specs=[out, part],
            out_specs=out, input_output_aliases={0: 0}, dimension_semantics=semantics,
            interpret=tl.InterpretParams(detect_races=True, random_seed=seed))  # fmt: skip
        np.testing.assert_array_equal(call(np.zeros(8, F32), x), x.reshape(3, 8).sum(0))
