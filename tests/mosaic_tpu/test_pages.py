"""Pages and caches in far memory, reached by prefetched tables: what runs gives the right numbers, libtpu takes it."""

import importlib.util

import numpy as np
import pytest

import tilewright as tw
from tests.support.walker.check import check_all, check_mosaic
from tilewright import lang as tl

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


COPIES = pytest.mark.parametrize(("part", "lead"), [(page, (8,)), (rows, ())], ids=["pages", "rows"])


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


@with_compiler
@everywhere
@SPACES
@pytest.mark.parametrize("dtype", [F32, "bfloat16"])
def test_updates_of_large_caches_compile(dtype, space, target):
    arrays = (struct((8,), "int32"), struct((8, 8, 1, 128), dtype), struct((8, 8, 1024, 128), dtype))
    compiled(updater(space), *arrays, target=target)
