"""Pages and caches in far memory, reached by prefetched tables: what runs gives the right numbers, libtpu takes it."""

import importlib.util
import re
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.walker import check_all, check_mosaic, kernels_of
from tilewright import lang as tl
from tilewright.emulator.calls import run_mosaic_tpu
from tilewright.errors import ResourceError
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_tpu.lower import mosaic_module

F32 = "float32"
TARGETS = ["tpu:v5e", "tpu:v6e"]
with_compiler = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="the extra `tpu` is missing")
everywhere = pytest.mark.parametrize("target", TARGETS)
SPACES = pytest.mark.parametrize("space", [tl.ANY, tl.HBM], ids=["any", "hbm"])


def struct(shape, dtype=F32):
    return tw.ShapeDtypeStruct(shape, dtype)


def compiled(f, *args, target):
    """What the program's one kernel takes; less VMEM of its own than a megabyte: what is far stays far."""
    (used,) = tw.compile(f, *args, target=target).resources
    assert used.fast_bytes < 2**20
    return used


def page(table, pages):
    """A whole page."""
    return pages.at[table]


def rows(table, pages):
    """Whole tiles of rows."""
    return pages.at[tl.ds(table * 8, 8)]


def stated(table, pages):
    """Rows that start where they are said to."""
    return pages.at[tl.ds(tl.multiple_of(table * 4 + table * 4, 8), 8)]


def copier(part, space):
    """Pages that a table names, one for each cell, doubled."""

    def body(table, pages, o, buffer, done):
        tl.async_copy(part(table[tl.program_id(0)], pages), buffer, done).wait()
        o[...] = buffer[...] * 2

    def f(table, pages):
        spec = tl.PrefetchScalarGridSpec(
            1, grid=table.shape, in_specs=[tl.BlockSpec(memory_space=space)],
            out_specs=tl.BlockSpec((8, 512), lambda i, *_: (i, 0)),
            scratch_shapes=[tl.VMEM((8, 512), F32), tl.SemaphoreType.DMA],
        )  # fmt: skip
        return tl.kernel_call(body, struct((8 * table.shape[0], 512)), grid_spec=spec)(table, pages)

    return f


PARTS = [(page, (8,)), (rows, ()), (stated, ())]
COPIES = pytest.mark.parametrize(("part", "lead"), PARTS, ids=["pages", "rows", "stated"])


def operands(lead, n):
    shape = (n, *lead, 512) if lead else (8 * n, 512)
    return np.array([3, 0, 3, 5], np.int32), np.random.default_rng(0).normal(size=shape).astype(F32)


@COPIES
@SPACES
def test_pages_are_copied_by_a_table(part, lead, space):
    table, pages = operands(lead, 6)
    f = copier(part, space)
    wanted = 2 * pages.reshape(6, 8, 512)[table].reshape(32, 512)
    np.testing.assert_array_equal(f(table, pages), wanted)
    assert check_all(check_mosaic, f, table, pages) == 1


@with_compiler
@everywhere
@COPIES
@SPACES
def test_pages_of_far_memory_compile(part, lead, space, target):
    shape = (2048, *lead, 512) if lead else (16384, 512)
    used = compiled(copier(part, space), struct((4,), "int32"), struct(shape), target=target)
    assert not used.resident


def updater(space):
    """A cache with one row of each sequence new, at a prefetched position."""

    def f(positions, new, cache):
        slot = tl.BlockSpec((1, cache.shape[1], 1, cache.shape[3]), lambda b, p: (b, 0, p[b] % cache.shape[2], 0))
        spec = tl.PrefetchScalarGridSpec(
            1, grid=positions.shape, out_specs=slot,
            in_specs=[tl.BlockSpec(slot.block_shape, lambda b, p: (b, 0, 0, 0)), tl.BlockSpec(memory_space=space)],
        )  # fmt: skip
        out = struct(cache.shape, cache.dtype)
        return tl.kernel_call(put, out, grid_spec=spec, input_output_aliases={2: 0})(positions, new, cache)

    return f


def put(positions, new, cache, o):
    o[...] = new[...]


@SPACES
def test_a_cache_is_updated_at_prefetched_positions(space):
    draw = np.random.default_rng(0)
    positions = np.array([1, 9, 7], np.int32)
    new, cache = (draw.normal(size=(3, 2, n, 16)).astype(F32) for n in (1, 8))
    wanted = cache.copy()
    wanted[np.arange(3), :, positions % 8] = new[:, :, 0]
    f = updater(space)
    np.testing.assert_array_equal(f(positions, new, cache), wanted)
    check_all(check_mosaic, f, positions, new, cache)


@pytest.mark.law
@with_compiler
@everywhere
@SPACES
@pytest.mark.parametrize("dtype", [F32, "bfloat16"])
def test_updates_of_large_caches_compile(dtype, space, target):
    arrays = (struct((8,), "int32"), struct((8, 8, 1, 128), dtype), struct((8, 8, 1024, 128), dtype))
    compiled(updater(space), *arrays, target=target)


# ---------------------------------------------------------------------------- batched


BATCHED = pytest.mark.parametrize("axes", [(0, 0), (None, 0), (0, None)], ids=["both", "pages", "table"])


def stacked(axes, arrays):
    return [
        a if axis is None else np.stack([a, a[::-1], np.roll(a, 1, 0)]) for axis, a in zip(axes, arrays, strict=True)
    ]


@COPIES
@BATCHED
def test_batched_copies_read_far_memory_where_it_is(part, lead, axes):
    f = copier(part, tl.ANY)
    arrays = stacked(axes, operands(lead, 6))
    rows_of = [[a if axis is None else a[i] for axis, a in zip(axes, arrays, strict=True)] for i in range(3)]
    wanted = np.stack([2 * p.reshape(6, 8, 512)[t].reshape(32, 512) for t, p in rows_of])
    g = tw.vmap(f, in_axes=axes)
    np.testing.assert_array_equal(g(*arrays), wanted)
    assert check_all(check_mosaic, g, *arrays) == 1


@with_compiler
@everywhere
@COPIES
@BATCHED
def test_batched_copies_of_far_memory_compile(part, lead, axes, target):
    shape = (2048, *lead, 512) if lead else (16384, 512)
    structs = [struct((4,), "int32"), struct(shape)]
    structs = [s if axis is None else struct((3, *s.shape), s.dtype) for axis, s in zip(axes, structs, strict=True)]
    used = compiled(tw.vmap(copier(part, tl.ANY), in_axes=axes), *structs, target=target)
    assert not used.resident


def mover(x):
    """Every tile of rows one place on, from far memory to far memory; twice batched, two axes lead."""

    def body(x, o, done):
        i = tl.program_id(0)
        tl.async_copy(x.at[tl.ds(i * 8, 8)], o.at[tl.ds((i + 1) % 4 * 8, 8)], done).wait()

    far = tl.BlockSpec(memory_space=tl.ANY)
    return tl.kernel_call(body, struct(x.shape), grid=(4,), in_specs=[far], out_specs=far,
                          scratch_shapes=[tl.SemaphoreType.DMA])(x)  # fmt: skip


def test_batched_results_are_written_where_they_are():
    x = np.random.default_rng(0).normal(size=(2, 3, 32, 128)).astype(F32)
    f = tw.vmap(tw.vmap(mover))
    np.testing.assert_array_equal(f(x), np.roll(x, 8, 2))
    assert check_all(check_mosaic, f, x) == 1


@with_compiler
@everywhere
def test_batched_results_in_far_memory_compile(target):
    compiled(tw.vmap(tw.vmap(mover)), struct((2, 3, 32, 4096 * 8)), target=target)


# ---------------------------------------------------------------------------- blocks that are entered again


def split_sum(semantics, n):
    """Parts of a sum added onto zeros by atomics, with the parts outermost: blocks are left and entered again."""

    def body(zeros, x, o):
        tl.atomic_add(o, (slice(None),), x[...])

    def f(x):
        block = tl.BlockSpec((4,), lambda s, i: (i,))
        return tl.kernel_call(
            body, struct((n,)), grid=(3, -(-n // 4)), in_specs=[block, tl.BlockSpec((None, 4), lambda s, i: (s, i))],
            out_specs=block, input_output_aliases={0: 0}, dimension_semantics=semantics,
        )(np.ones(n, F32), x)  # fmt: skip

    return f


@pytest.mark.parametrize("n", [8, 20])
@pytest.mark.parametrize("semantics", [None, ("parallel", "parallel")], ids=["stated", "parallel"])
def test_atomics_add_to_blocks_entered_again(semantics, n):
    x = np.arange(3.0 * n, dtype=F32).reshape(3, n)
    f = split_sum(semantics, n)
    np.testing.assert_array_equal(f(x), 1 + x.sum(0))
    assert check_all(check_mosaic, f, x) == 1
    check_all(check_mosaic, tw.value_and_grad(lambda x: (f(x) * x[0]).sum()), x)


@with_compiler
@everywhere
def test_atomics_on_blocks_entered_again_compile(target):
    compiled(split_sum(None, 8), struct((3, 8)), target=target)


# ---------------------------------------------------------------------------- rows of 8 and 16 bits


def picked(idx, x, o, held, done):
    """Rows from where they are."""
    copy = tl.make_async_copy(x.at[tl.ds(idx[tl.program_id(0)], held.shape[0]), :], held, done)
    copy.start()
    copy.wait()
    o[...] = held[...] * 2


def placed(idx, new, x, o, done):
    """Rows put where they belong."""
    tl.async_copy(new, o.at[tl.ds(idx[tl.program_id(0)], new.shape[0]), :], done).wait()


def of_rows(body, count, n, dtype="bfloat16"):
    far, rows = tl.BlockSpec(memory_space=tl.ANY), tl.BlockSpec((None, count, 256), lambda i, idx: (i, 0, 0))
    moves = body is placed
    spec = tl.PrefetchScalarGridSpec(
        1, (4,), [rows, far] if moves else [far], far if moves else rows,
        scratch_shapes=[*([] if moves else [tl.VMEM((count, 256), dtype)]), tl.SemaphoreType.DMA])  # fmt: skip
    out = struct((n, 256) if moves else (4, count, 256), dtype)
    return tl.kernel_call(body, out, grid_spec=spec, input_output_aliases={2: 0} if moves else {})


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("count", [1, 3, 17])
@pytest.mark.parametrize("body", [picked, placed])
@pytest.mark.parametrize("far", [True, False])
def test_rows_of_few_bits_anywhere_are_reached_by_the_tiles_around_them(body, count, dtype, far):
    """By copies where VMEM does not hold what is far (as on a target with little of it), else in VMEM."""
    rng = np.random.default_rng(0)
    n = 160
    idx = np.array([3, 95, 15, n - count], np.int32)
    x, new = (rng.integers(-9, 9, s).astype(dtype) for s in ((n, 256), (4, count, 256)))
    call = of_rows(body, count, n, dtype)
    ((kernel, operands),) = kernels_of(call, idx, *([new] if body is placed else []), x)
    target = target_of("tpu:v5e")
    module = mosaic_module(kernel, replace(target, fast_bytes=4096, block_bytes=4096) if far else target)
    assert ("tpu.enqueue_dma" in module.text and "#tpu.memory_space<any>" in module.text) == far
    assert body is placed or "vector<160x256x" not in module.text  # the rows around, not all of them
    (found,) = run_mosaic_tpu(module, operands)
    np.testing.assert_array_equal(found, np.asarray(interpret(kernel, *operands)[0]))


@pytest.mark.targets
@with_compiler
@pytest.mark.parametrize("body", [picked, placed])
@pytest.mark.parametrize(("dtype", "n"), [("bfloat16", 2**19), ("int8", 2**20), ("int8", 2**16)])
def test_rows_of_few_bits_of_large_arrays_compile(body, dtype, n):
    """In seconds: of the last VMEM holds all, of which one value would take minutes."""
    new = [struct((4, 3, 256), dtype)] if body is placed else []
    args = struct((4,), "int32"), *new, struct((n, 256), dtype)
    (used,) = tw.compile(of_rows(body, 3, n, dtype), *args, target="tpu:v5e").resources
    assert used.fast_bytes < 2**20 or n == 2**16


@pytest.mark.parametrize(("n", "words"), [
    (2**20 - 1, "not known to start at a multiple of 32 rows"),
    (2**16 - 1, "reached by a value of (65535, 256)"),
])  # fmt: skip
def test_rows_that_end_within_a_tile_are_refused_before_the_compiler(n, words):
    with pytest.raises(ResourceError, match=re.escape(words)):
        tw.compile(of_rows(picked, 3, n, "int8"), struct((4,), "int32"), struct((n, 256), "int8"), target="tpu:v5e",
                   stop="module")  # fmt: skip
