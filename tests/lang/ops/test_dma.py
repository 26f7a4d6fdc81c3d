"""Scoped memory, asynchronous copies and semaphores: compiled = interpreted = plain; misuse is named."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentTypeError,
    DtypeError,
    ExecutionError,
    KernelBodyError,
    KernelError,
    SemaphoreError,
    ShapeError,
    UnsupportedError,
)
from tilewright.lang import tpu

F32, I32 = np.float32, np.int32
X = np.arange(8 * 16, dtype=F32).reshape(8, 16)
FAR = tl.BlockSpec(memory_space=tl.ANY)
both = pytest.mark.parametrize("interpret", [False, True], ids=["compiled", "interpreted"])


def shape(*sizes, dtype=F32):
    return tw.ShapeDtypeStruct(sizes, dtype)


def far_call(body, scratch, out=None, grid=(), **options):
    out = shape(8, 16) if out is None else out
    return tl.kernel_call(body, out, grid=grid, in_specs=[FAR], out_specs=FAR, scratch_shapes=scratch, **options)


# ---------------------------------------------------------------------------- run_scoped


@both
def test_run_scoped(interpret):
    def body(x_ref, o_ref):
        def inner(a, b, *, c):
            a[...] = x_ref[...] * 2
            b[...] = a[...] + 1
            c[0] = 3
            return b[...] * c[0]

        o_ref[...] = tl.run_scoped(inner, tl.VMEM((2, 16), F32), tl.VMEM((2, 16), F32), c=tl.SMEM((1,), F32))

    spec = tl.BlockSpec((2, 16), lambda i: (i, 0))
    call = tl.kernel_call(body, shape(8, 16), grid=4, in_specs=[spec], out_specs=spec, interpret=interpret)
    np.testing.assert_array_equal(call(X), (2 * X + 1) * 3)
    np.testing.assert_array_equal(tw.vmap(call)(np.stack([X, -X]))[1], (-2 * X + 1) * 3)
    if not interpret:
        np.testing.assert_array_equal(tw.grad(lambda x: tnp.sum(call(x)))(X), np.full_like(X, 6))


def test_scoped_memory_in_a_loop_is_undefined_each_time():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...]

        def step(i, carry):
            def inner(a):
                tl.when(i == 0)(lambda: a.__setitem__(..., x_ref[...]))
                o_ref[...] += a[...]

            tl.run_scoped(inner, tl.VMEM((8, 16), F32))
            return carry

        lax.fori_loop(0, 2, step, 0)

    out = tl.kernel_call(body, shape(8, 16), interpret=True)(X)
    assert np.isnan(out).all()
    zero = tl.InterpretParams(uninitialized_memory="zero")
    np.testing.assert_array_equal(tl.kernel_call(body, shape(8, 16), interpret=zero)(X), 2 * X)


def test_run_scoped_outside_a_kernel():
    with pytest.raises(KernelBodyError, match="run_scoped was called outside a kernel"):
        tl.run_scoped(lambda ref: None, tl.VMEM((1,), F32))


# ---------------------------------------------------------------------------- copies


def double_rows(x_ref, o_ref, buffer, sems):
    """Two rows at a time through a buffer, the copy in of the next under way while one is worked on."""

    def fetch(i, slot):
        return tpu.make_async_copy(x_ref.at[tl.ds(2 * i, 2)], buffer.at[slot], sems.at[slot])

    fetch(0, 0).start()

    def step(i, carry):
        slot = i % 2

        @tl.when(i < 3)
        def _():
            fetch(i + 1, 1 - slot).start()

        fetch(i, slot).wait()
        buffer[slot] = buffer[slot] * 2
        out = tpu.async_copy(buffer.at[slot], o_ref.at[tl.ds(2 * i, 2)], sems.at[2])
        out.wait()
        return carry

    lax.fori_loop(0, 4, step, 0)


@both
def test_double_buffering(interpret):
    call = far_call(double_rows, [tl.VMEM((2, 2, 16), F32), tpu.SemaphoreType.DMA((3,))], interpret=interpret)
    np.testing.assert_array_equal(call(X), 2 * X)
    np.testing.assert_array_equal(tw.jit(call)(X), 2 * X)


def test_derivative_and_batch_through_copies():
    def body(x_ref, o_ref, buffer, sem):
        copy = tpu.make_async_copy(x_ref, buffer, sem)
        copy.start()
        copy.wait()
        buffer[...] = buffer[...] ** 2
        tpu.sync_copy(buffer, o_ref)

    call = far_call(body, [tl.VMEM((8, 16), F32), tpu.SemaphoreType.DMA])
    np.testing.assert_allclose(tw.grad(lambda x: tnp.sum(call(x)))(X), 2 * X)
    np.testing.assert_allclose(tw.jvp(call, (X,), (X,))[1], 2 * X * X)
    np.testing.assert_allclose(tw.vmap(call)(np.stack([X, 3 * X]))[1], 9 * X * X)


@both
@pytest.mark.parametrize("mode", ["on_wait", "eager"])
def test_adding_copy_across_cells(mode, interpret):
    def body(x_ref, o_ref, sem):
        i = tl.program_id(0)

        @tl.when(i == 0)
        def _():
            o_ref[...] = tnp.zeros((2, 16), F32)

        tpu.async_copy(x_ref.at[tl.ds(2 * i, 2)], o_ref, sem, add=True).wait()

    interpret = tl.InterpretParams(dma_execution_mode=mode) if interpret else False
    call = far_call(body, [tpu.SemaphoreType.DMA], shape(2, 16), grid=(4,), interpret=interpret)
    np.testing.assert_allclose(call(X), X.reshape(4, 2, 16).sum(0))


def test_a_missing_wait_is_found():
    def body(x_ref, o_ref, buffer, sem):
        tpu.make_async_copy(x_ref, buffer, sem).start()
        o_ref[...] = buffer[...]

    scratch = [tl.VMEM((8, 16), F32), tpu.SemaphoreType.DMA]
    with pytest.raises(SemaphoreError, match=r"(?s)kernel body.*nothing waited for.*test_dma.py"):
        far_call(body, scratch, interpret=True)(X)


def test_what_a_late_wait_reads_is_poison():
    def body(x_ref, o_ref, buffer, sem):
        copy = tpu.async_copy(x_ref, buffer, sem)
        o_ref[...] = buffer[...]
        copy.wait()

    scratch = [tl.VMEM((8, 16), F32), tpu.SemaphoreType.DMA]
    assert np.isnan(far_call(body, scratch, interpret=True)(X)).all()


def test_source_changed_before_the_wait():
    def body(x_ref, o_ref, buffer, sem):
        buffer[...] = x_ref[...]
        copy = tpu.async_copy(buffer, o_ref, sem)
        buffer[...] = buffer[...] * 0
        copy.wait()

    scratch = [tl.VMEM((8, 16), F32), tpu.SemaphoreType.DMA]
    assert not far_call(body, scratch, interpret=True)(X).any()


def test_wait_without_start():
    def body(x_ref, o_ref, sem):
        tpu.make_async_copy(x_ref, o_ref, sem).wait()

    with pytest.raises(SemaphoreError, match=r"(?s)waits for a copy of 512 bytes, but only 0.*test_dma.py"):
        far_call(body, [tpu.SemaphoreType.DMA], interpret=True)(X)


def test_wait_on_another_semaphore():
    def body(x_ref, o_ref, sems):
        tpu.make_async_copy(x_ref, o_ref, sems.at[0]).start()
        tpu.make_async_copy(x_ref, o_ref, sems.at[1]).wait()

    with pytest.raises(SemaphoreError, match="with the same semaphore"):
        far_call(body, [tpu.SemaphoreType.DMA((2,))], interpret=True)(X)


@pytest.mark.parametrize("copy, error, words", [
    (lambda x, o, b, s: tpu.async_copy(x.at[0], o, s), ShapeError, r"f32\[16\] to f32\[8,16\]"),
    (lambda x, o, b, s: tpu.async_copy(x, b, s), DtypeError, r"f32\[8,16\] to i32\[8,16\]"),
    (lambda x, o, b, s: tpu.async_copy(x, o, b.at[0, 0]), KernelBodyError, "SemaphoreType.DMA"),
    (lambda x, o, b, s: tpu.async_copy(x[...], o, s), TypeError, "not a Ref"),
])  # fmt: skip
def test_wrong_copies(copy, error, words):
    def body(x_ref, o_ref, buffer, sem):
        copy(x_ref, o_ref, buffer, sem)

    with pytest.raises(error, match=words):
        far_call(body, [tl.VMEM((8, 16), I32), tpu.SemaphoreType.DMA])(X)


# ---------------------------------------------------------------------------- semaphores


@both
def test_semaphores_count(interpret):
    def body(x_ref, o_ref, sem):
        tl.semaphore_signal(sem, 3)
        tl.semaphore_wait(sem, 2)
        tl.semaphore_signal(sem)
        o_ref[0] = tl.semaphore_read(sem)
        tl.semaphore_wait(sem, 2, decrement=False)
        o_ref[1] = tl.semaphore_read(sem)
        tl.semaphore_wait(sem, tl.semaphore_read(sem))

    call = tl.kernel_call(body, shape(2, dtype=I32), scratch_shapes=[tpu.SemaphoreType.REGULAR], interpret=interpret)
    np.testing.assert_array_equal(call(X), [2, 2])


def test_a_wait_that_nothing_can_end():
    def body(x_ref, o_ref, sem):
        tl.semaphore_signal(sem, 1)
        tl.semaphore_wait(sem, 2)
        o_ref[...] = x_ref[...]

    with pytest.raises(SemaphoreError, match="waits for 2, but the semaphore holds 1"):
        far_call(body, [tpu.SemaphoreType.REGULAR], interpret=True)(X)
    np.testing.assert_array_equal(far_call(body, [tpu.SemaphoreType.REGULAR])(X), X)


def test_a_semaphore_is_zero_when_the_kernel_ends():
    def body(x_ref, o_ref, one, several):
        tl.semaphore_signal(one, 2)
        tl.semaphore_wait(one, 2)
        tl.semaphore_signal(several.at[1], 3)
        o_ref[...] = x_ref[...]

    scratch = [tpu.SemaphoreType.REGULAR, tpu.SemaphoreType.REGULAR((2,))]
    with pytest.raises(SemaphoreError, match="kernel body, .*ends while semaphore several holds 3"):
        far_call(body, scratch, interpret=True)(X)
    np.testing.assert_array_equal(far_call(body, scratch)(X), X)


def test_a_ref_that_is_no_semaphore():
    def body(x_ref, o_ref, count):
        tl.semaphore_signal(count)

    with pytest.raises(KernelBodyError, match="for a semaphore"):
        far_call(body, [tl.SMEM((), I32)])(X)


# ---------------------------------------------------------------------------- seeing and checking


def test_debug_print(capsys):
    def body(x_ref, o_ref):
        tl.debug_print("cell {} starts with {}", tl.program_id(0), x_ref[0])
        tl.debug_print("value", x_ref[1])
        o_ref[...] = x_ref[...]

    spec = tl.BlockSpec((2,), lambda i: (i,))
    x = np.arange(4, dtype=F32)
    for interpret in (False, True):
        call = tl.kernel_call(body, shape(4), grid=2, in_specs=[spec], out_specs=spec, interpret=interpret)
        np.testing.assert_array_equal(call(x), x)
        tw.effects_barrier()
        lines = sorted(capsys.readouterr().out.splitlines())
        assert lines == ["cell 0 starts with 0.0", "cell 1 starts with 2.0", "value 1.0", "value 3.0"]


def test_debug_print_once_in_a_kernel_that_adds_up(capsys):
    def body(x_ref, o_ref):
        @tl.when(tl.program_id(0) == 0)
        def _():
            o_ref[...] = tnp.zeros(2, F32)

        tl.debug_print("here {}", tl.program_id(0))
        o_ref[...] += x_ref[...]

    call = tl.kernel_call(body, shape(2), grid=3, in_specs=[tl.BlockSpec((2,), lambda i: (i,))])
    np.testing.assert_array_equal(call(np.ones(6, F32)), [3, 3])
    tw.effects_barrier()
    assert sorted(capsys.readouterr().out.split()) == sorted(["here", "0", "here", "1", "here", "2"])


def test_debug_check():
    def body(x_ref, o_ref):
        tl.debug_check(tnp.all(x_ref[...] < 5), "too large")
        o_ref[...] = x_ref[...]

    spec = tl.BlockSpec((2,), lambda i: (i,))
    for interpret, error in ((True, KernelError), (False, ExecutionError)):
        call = tl.kernel_call(body, shape(4), grid=2, in_specs=[spec], out_specs=spec, interpret=interpret)
        np.testing.assert_array_equal(call(np.arange(4, dtype=F32)), np.arange(4))
        with pytest.raises(error, match=r"cell \(1,\): debug_check failed: too large"):
            np.asarray(call(3 * np.arange(4, dtype=F32)))
            tw.effects_barrier()


# ---------------------------------------------------------------------------- parts that are known while it runs


@both
@pytest.mark.parametrize("size", [0, 1, 5, 8, 11])
def test_copies_of_traced_size(size, interpret):
    def body(at, x, _, o, sem):
        copy = tl.make_async_copy(x.at[tl.ds(at[0], at[1]), 1], o.at[1, tl.ds(2, at[1])], sem)
        copy.start()
        copy.wait()

    x, before = X.reshape(16, 2, 4), -np.ones((2, 13, 4), F32)
    table = tl.BlockSpec(memory_space=tl.SMEM)
    call = tl.kernel_call(body, shape(2, 13, 4), in_specs=[table, FAR, FAR], out_specs=FAR, interpret=interpret,
                          scratch_shapes=[tl.SemaphoreType.DMA], input_output_aliases={2: 0})  # fmt: skip
    want = before.copy()
    want[1, 2 : 2 + size] = x[3 : 3 + size, 1]
    np.testing.assert_array_equal(call(np.array([3, size], np.int32), x, before), want)


@both
def test_copies_of_one_of_several_refs(interpret):
    def body(x, y, o, held, sem):
        @tl.loop(0, 3)
        def _(i):
            chosen = tl.select_ref(i, x.at[i], y.at[1])  # after the last: the last
            tl.async_copy(chosen, held, tl.select_ref(i, sem.at[0], sem.at[1])).wait()
            tl.sync_copy(held, tl.select_ref(i, o.at[2], o.at[0], o.at[1]))

    x, y = X[:3, :4], -X[:2, :4]
    call = tl.kernel_call(body, shape(3, 4), in_specs=[FAR, FAR], out_specs=FAR, interpret=interpret,
                          scratch_shapes=[tl.VMEM((4,), "float32"), tl.SemaphoreType.DMA(2)])  # fmt: skip
    np.testing.assert_array_equal(call(x, y), np.stack([y[1], y[1], x[0]]))


@pytest.mark.parametrize("error, match, body", [
    (ArgumentTypeError, "traced size", lambda i, x, o: o.__setitem__(..., x[tl.ds(0, i[0])])),
    (ShapeError, "axes of traced size", lambda i, x, o: tl.sync_copy(x.at[tl.ds(0, i[0])], o)),
    (ShapeError, "select_ref is given Refs", lambda i, x, o: tl.sync_copy(tl.select_ref(i[0], x, x.at[0]), o)),
    (UnsupportedError, "select_ref gives is read", lambda i, x, o: o.__setitem__(..., tl.select_ref(i[0], x)[...])),
])  # fmt: skip
def test_what_only_copies_take(error, match, body):
    with pytest.raises(error, match=match):
        tl.kernel_call(body, shape(4, 4))(np.ones(1, np.int32), X[:4, :4])
