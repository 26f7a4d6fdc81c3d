"""`emulate`: programs as they are emitted for devices, run in NumPy, and what is wrong with them named."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tilewright as tw
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp

TARGETS = ("cuda:sm_90", "tpu:v5e")


def _add(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def _matmul(x_ref, y_ref, o_ref, acc_ref):
    @tl.when(tl.program_id(2) == 0)
    def _():
        acc_ref[...] = tnp.zeros_like(acc_ref)

    acc_ref[...] += tnp.dot(x_ref[...], y_ref[...])

    @tl.when(tl.program_id(2) == tl.num_programs(2) - 1)
    def _():
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def _softmax(x_ref, o_ref):
    e = tnp.exp(x_ref[...] - tnp.max(x_ref[...], axis=-1, keepdims=True))
    o_ref[...] = e / tnp.sum(e, axis=-1, keepdims=True)


def add(x, y):
    block = tl.BlockSpec((8, 128), lambda i: (i, 0))
    return tl.kernel_call(_add, out_shape=x, grid=(tl.cdiv(x.shape[0], 8),), in_specs=[block, block],
                          out_specs=block)(x, y)  # fmt: skip


def matmul(x, y):
    m, k, n = x.shape[0], x.shape[1], y.shape[1]
    return tl.kernel_call(
        _matmul, out_shape=tw.ShapeDtypeStruct((m, n), x.dtype), grid=(m // 128, n // 128, k // 128),
        in_specs=[tl.BlockSpec((128, 128), lambda i, j, r: (i, r)), tl.BlockSpec((128, 128), lambda i, j, r: (r, j))],
        out_specs=tl.BlockSpec((128, 128), lambda i, j, r: (i, j)), scratch_shapes=[tl.VMEM((128, 128), np.float32)],
        dimension_semantics=("parallel", "parallel", "arbitrary"),
    )(x, y)  # fmt: skip


def softmax(x):
    block = tl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return tl.kernel_call(_softmax, out_shape=x, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block)(x)


def arrays(*shapes, dtype=np.float32):
    rng = np.random.default_rng(0)
    return [rng.standard_normal(s).astype(dtype) for s in shapes]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("f", "shapes"), [
    (add, [(21, 128), (21, 128)]), (matmul, [(256, 256), (256, 128)]), (softmax, [(16, 128)]),
])  # fmt: skip
def test_an_emitted_kernel_gives_what_it_means(f, shapes, target):
    args = arrays(*shapes)
    got, expected = tw.emulate(f, *args, target=target), np.asarray(f(*args))
    assert type(got) is np.ndarray and got.dtype == expected.dtype
    np.testing.assert_allclose(got, expected, rtol=2e-2, atol=0.1 if f is matmul else 1e-6)


def test_a_product_in_float16_is_walked_as_mosaic_gpu_emits_it():
    x, y = arrays((128, 128), (128, 128), dtype=np.float16)
    with tw.config(kernel_route="mosaic_gpu"):
        got = tw.emulate(matmul, x, y, target="cuda:sm_90")
    np.testing.assert_allclose(got, x.astype(np.float32) @ y, rtol=2e-2, atol=0.1)


@pytest.mark.parametrize("target", TARGETS)
def test_the_program_around_kernels_is_run_too(target):
    """Loops, results of any structure, static arguments, keywords; operations that fusion makes kernels of."""

    def f(x, n, *, y):
        def step(c, _):
            return softmax(c) + y, c.sum()

        last, sums = tw.lax.scan(step, x, length=n)
        return {"last": last, "sums": sums}

    x, y = arrays((8, 128), (8, 128))
    got = tw.emulate(tw.jit(f, static_argnums=1), x, 3, y=y, target=target)
    expected = f(x, 3, y=y)
    for name in ("last", "sums"):
        np.testing.assert_allclose(got[name], np.asarray(expected[name]), rtol=1e-4, atol=1e-4)


# ---------------------------------------------------------------------------- what is wrong is named


def prefetched(body, out, **spec):
    """A kernel that is called on integers, which are prefetched, and an array."""
    more = {"dimension_semantics": ("parallel",)} if "grid" in spec else {}
    spec = tl.PrefetchScalarGridSpec(num_scalar_prefetch=1, **spec)
    return tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct(out, np.float32), grid_spec=spec, **more)


def _pick(idx_ref, x_ref, o_ref):
    o_ref[...] = x_ref[idx_ref[0]]


def _copy(idx_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2.0


def _sometimes(idx_ref, x_ref, o_ref):
    @tl.when(idx_ref[0] == 0)
    def _():
        o_ref[...] = x_ref[...]


def _waits(idx_ref, x_ref, o_ref, semaphore):
    copy = tl.make_async_copy(x_ref, o_ref, semaphore)

    @tl.when(idx_ref[0] == 0)
    def _():
        copy.start()

    copy.wait()


def line_of(function, words):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if words in line)


X = arrays((16, 128))[0]
PICK = prefetched(_pick, (128,))
SCATTER = prefetched(_copy, (16, 128), grid=(2,), in_specs=[tl.BlockSpec((8, 128), lambda i, idx: (i, 0))],
                     out_specs=tl.BlockSpec((8, 128), lambda i, idx: (idx[i], 0)))  # fmt: skip
SOMETIMES = prefetched(_sometimes, (16, 128))
WAITS = prefetched(_waits, (16, 128), in_specs=[tl.BlockSpec(memory_space=tl.ANY)],
                   scratch_shapes=[tl.SemaphoreType.DMA])  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("f", "good", "expected"), [
    (PICK, [3], X[3]), (SCATTER, [1, 0], 2 * np.roll(X, 8, 0)), (SOMETIMES, [0], X), (WAITS, [0], X),
])  # fmt: skip
def test_good_arguments_pass(f, good, expected, target):
    np.testing.assert_array_equal(tw.emulate(f, np.int32(good), X, target=target), expected)


@pytest.mark.parametrize(("f", "bad", "target", "error", "said"), [
    (PICK, [40], "cuda:sm_90", errors.OutOfBoundsError, "kernel _pick, .* load out of bounds: byte 20480 of operand 1"),
    (PICK, [40], "tpu:v5e", errors.OutOfBoundsError, "kernel _pick, .* out of bounds: elements 40 to 40 of axis 0"),
    (SCATTER, [0, 3], "tpu:v5e", errors.OutOfBoundsError, r"kernel _copy, .* block \(3, 0\) of .* starts at 24"),
    (SCATTER, [1, 1], "cuda:sm_90", errors.RaceError, "kernel _copy, .* by program 1, after a store of it by another"),
    (SCATTER, [1, 1], "tpu:v5e", errors.RaceError, r"result 2: block \(1, 0\) is written by unordered cells"),
    (SOMETIMES, [1], "cuda:sm_90", errors.UninitializedError, r"element \(0, 0\) of result 0 .*\(2048 of 2048"),
    (SOMETIMES, [1], "tpu:v5e", errors.UninitializedError, r"element \(0, 0\) of result 0 .*\(2048 of 2048"),
    (WAITS, [1], "tpu:v5e", errors.DeadlockError, "a copy of 8192 bytes, of which only 0 were started"),
])  # fmt: skip
def test_what_is_wrong_has_its_name(f, bad, target, error, said):
    with pytest.raises(error, match=said):
        tw.emulate(f, np.int32(bad), X, target=target)


def test_the_operation_and_the_line_are_named():
    for f, bad, where, operation in (
        (PICK, [40], line_of(_pick, "x_ref[idx_ref"), "vector.load"),
        (WAITS, [1], line_of(_waits, "copy.wait"), "tpu.wait_dma2"),
    ):
        with pytest.raises(errors.KernelError, match=f"in: .*{operation}") as found:
            tw.emulate(f, np.int32(bad), X, target="tpu:v5e")
        source = found.value.source
        assert source is not None and (source.code.co_filename, source.line) == (__file__, where)
    with pytest.raises(errors.KernelError, match="in: .*tt.load"):  # whose text has no lines
        tw.emulate(PICK, np.int32([40]), X, target="cuda:sm_90")


def test_what_cannot_be_emulated():
    with pytest.raises(errors.ArgumentError, match="on cpu kernels are computed by XLA"):
        tw.emulate(add, X, X, target="cpu")
    with pytest.raises(errors.ArgumentError, match="tpu:v99"):
        tw.emulate(add, X, X, target="tpu:v99")
    with pytest.raises(errors.DtypeError, match="float64"), tw.enable_x64(True):
        x = X.astype(np.float64)
        tw.emulate(add, x, x, target="tpu:v5e")


def test_arrays_that_a_function_holds():
    held = np.arange(8, dtype=np.float32)
    found = tw.emulate(lambda x: tnp.sin(x) + tnp.asarray(held), held, target="cuda:sm_90")
    np.testing.assert_allclose(found, np.sin(held) + held, rtol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
def test_random_keys_go_in_and_out(target):
    def f(keys, x):
        return add(x, tw.random.normal(keys[0], x.shape)), tw.random.split(keys[1])

    keys, x = tw.random.split(tw.random.key(3)), np.ones((16, 128), np.float32)
    out, split = tw.emulate(f, keys, x, target=target)
    np.testing.assert_allclose(out, 1 + tw.random.normal(keys[0], x.shape), atol=1e-5)
    assert split.dtype == keys.dtype
    np.testing.assert_array_equal(tw.random.key_data(split), tw.random.key_data(tw.random.split(keys[1])))
