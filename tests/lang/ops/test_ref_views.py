"""Refs seen in another shape or dtype, and what else kernels written for Pallas ask of `kernel_call`."""

from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.gpu.walker import check_all, check_mosaic, check_triton
from tilewright import errors, lax
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.lang import tpu

RNG, BF16 = np.random.default_rng(0), np.dtype(ml_dtypes.bfloat16)
WALKS = [(check_triton, "cuda:sm_90"), (check_triton, "rocm:gfx942"), (check_mosaic, "tpu:v5e")]
MODES = pytest.mark.parametrize("interpret", (False, True))
GRID = np.arange(2 * 6 * 4, dtype=np.float32).reshape(2, 6, 4)


def call(body, *args, out, interpret=False, **options):
    return np.asarray(tl.kernel_call(body, out, interpret=interpret, **options)(*args))


# ---------------------------------------------------------------------------- reshape


@st.composite
def places(draw):
    """A shape, another of the same elements, and an index of slices and points of that."""
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    count = int(np.prod(shape))
    first = draw(st.sampled_from([d for d in range(1, count + 1) if count % d == 0]))
    other = draw(st.sampled_from([(count,), (first, count // first), (1, first, count // first)]))
    index = []
    for n in other:
        start = draw(st.integers(0, n - 1))
        stop, step = draw(st.integers(start + 1, n)), draw(st.integers(1, 3))
        index.append(draw(st.sampled_from([start, slice(start, stop, step), slice(None)])))
    return shape, other, tuple(index)


@settings(max_examples=40, deadline=None)
@given(places())
def test_a_ref_seen_in_another_shape_is_read_and_written_as_the_array_is(drawn):
    shape, other, index = drawn
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    want = x.copy()
    part = x.reshape(other)[index]
    want.reshape(other)[index] = part + 100

    def body(x, o, part_ref):
        o[...] = x[...]
        seen = x.reshape(other)
        part_ref[...] = seen[index]
        o.reshape(other)[index] = seen[index] + 100

    out = (tw.ShapeDtypeStruct(shape, np.float32), tw.ShapeDtypeStruct(part.shape, np.float32))
    try:
        got, read = tl.kernel_call(body, out, interpret=True)(x)
    except errors.UnsupportedError as error:
        assert "no spans of its axes" in str(error)
        return
    assert np.array_equal(got, want) and np.array_equal(read, part)


@MODES
def test_rows_of_merged_axes_are_strides_of_one(interpret):
    """As kernels of attention read one head of pages that hold all."""
    out = tw.ShapeDtypeStruct((2, 4), "float32")
    got = call(lambda x, o: o.__setitem__(..., x.reshape(12, 4)[1::6, :]), GRID, out=out, interpret=interpret)
    assert np.array_equal(got, GRID.reshape(12, 4)[1::6])


@MODES
def test_an_axis_taken_apart_may_start_anywhere(interpret):
    def body(start, x, o):
        o[...] = x.reshape(2, 3, 2, 4)[1, start[0], :, :]

    spec = tpu.PrefetchScalarGridSpec(1, grid=(1,), in_specs=[None], out_specs=None)
    got = call(body, np.array([2], np.int32), GRID, out=tw.ShapeDtypeStruct((2, 4), "float32"), grid_spec=spec,
               interpret=interpret)  # fmt: skip
    assert np.array_equal(got, GRID[1, 4:6])


def test_reshaped_refs_say_what_they_cannot_do():
    out = tw.ShapeDtypeStruct((4,), "float32")
    with pytest.raises(errors.UnsupportedError, match="no spans of its axes"):
        call(lambda x, o: o.__setitem__(..., x.reshape(48)[3:7]), GRID, out=out)
    with pytest.raises(errors.ShapeError, match="a shape of 48 elements"):
        call(lambda x, o: o.__setitem__(..., x.reshape(5, -1)[0, :4]), GRID, out=out)
    with pytest.raises(errors.KernelBodyError, match="read it first"):
        call(lambda x, o: o.__setitem__(..., x.reshape(12, 4) * 2), GRID, out=tw.ShapeDtypeStruct((12, 4), "float32"))


def test_the_gradient_goes_through_a_reshaped_ref():
    call_ = tl.kernel_call(lambda x, o: o.__setitem__(..., x.reshape(12, 4)[1::6, :] ** 2),
                           tw.ShapeDtypeStruct((2, 4), "float32"))  # fmt: skip
    want = np.zeros((12, 4), np.float32)
    want[1::6] = 2 * GRID.reshape(12, 4)[1::6]
    assert np.array_equal(tw.grad(lambda x: call_(x).sum())(GRID), want.reshape(GRID.shape))


# ---------------------------------------------------------------------------- bitcast


@MODES
@pytest.mark.parametrize("dtype", ("bfloat16", "float16", "int8", "uint32", "float32"))
def test_bits_of_rows_that_follow_each_other_are_one_word(dtype, interpret):
    x = tnp.asarray(np.arange(32).reshape(8, 4) - 16).astype(dtype)
    count = 4 // np.asarray(x).dtype.itemsize
    words = np.asarray(x).reshape(8 // count, count, 4).swapaxes(1, 2).copy().view(np.uint32)[..., 0]

    def body(x, o, back):
        o[...] = x.bitcast(np.uint32)[...]
        back.bitcast(np.uint32)[...] = x.bitcast(np.uint32)[...]

    out = (tw.ShapeDtypeStruct(words.shape, "uint32"), tw.ShapeDtypeStruct((8, 4), dtype))
    got, back = tl.kernel_call(body, out, interpret=interpret)(x)
    assert np.array_equal(got, words) and np.array_equal(np.asarray(back), np.asarray(x))


@MODES
@pytest.mark.parametrize("dtype", ("bfloat16", "int8", "uint16"))
def test_each_word_is_several_rows_of_a_narrower_dtype(dtype, interpret):
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4) * 70001
    count = 4 // np.asarray(tnp.zeros((), dtype)).dtype.itemsize
    narrow = x[..., None].view(f"uint{32 // count}").swapaxes(2, 3).reshape(2, 3 * count, 4)  # as bits

    def body(x, o, back, row):
        o[...] = x.bitcast(dtype)[...]
        back[...] = x[...]
        back.at[1].bitcast(dtype)[tl.ds(count, count), 1:3] = x.bitcast(dtype)[0, :count, 1:3]
        back.bitcast(dtype)[0, 1, :] = x.bitcast(dtype)[1, count, :]
        row[...] = x.at[1].bitcast(dtype)[2 * count - 1, :]

    out = (tw.ShapeDtypeStruct(narrow.shape, dtype), tw.ShapeDtypeStruct(x.shape, x.dtype),
           tw.ShapeDtypeStruct((4,), dtype))  # fmt: skip
    got, back, row = (np.asarray(v) for v in tl.kernel_call(body, out, interpret=interpret)(x))
    changed = narrow.copy()
    changed[1, count : 2 * count, 1:3] = narrow[0, :count, 1:3]
    changed[0, 1] = narrow[1, count]
    assert np.array_equal(got.view(narrow.dtype), narrow)
    assert np.array_equal(back[..., None].view(narrow.dtype).swapaxes(2, 3).reshape(narrow.shape), changed)
    assert np.array_equal(row.view(narrow.dtype), narrow[1, 2 * count - 1])


def walked(body, out, *args, **options):
    """What a kernel gives, as its programs for each target do."""
    call_ = tl.kernel_call(body, out, **options)
    for check, target in WALKS:
        assert check_all(check, call_, *args, target=target) == 1
    return call_(*args)


def test_refs_seen_are_what_they_are_on_every_target():
    x = RNG.standard_normal((4, 8, 128)).astype("f")

    def body(start, x, o, p):
        o[...] = x[...]
        o.reshape(32, 128)[1::8, :] = x.reshape(32, 128)[0::8, :]
        p[...] = x.reshape(2, 2, 8, 128)[1, start[0], :, :]

    spec = tpu.PrefetchScalarGridSpec(1, grid=(1,), in_specs=[None], out_specs=[None, None])
    outs = tw.ShapeDtypeStruct(x.shape, "float32"), tw.ShapeDtypeStruct((8, 128), "float32")
    got, part = walked(body, outs, np.array([1], np.int32), x, grid_spec=spec)
    want = x.copy()
    want.reshape(32, 128)[1::8] = x.reshape(32, 128)[0::8]
    assert np.array_equal(got, want) and np.array_equal(part, x[3])


def test_all_bits_of_words_are_kept_on_every_target():
    """Those of numbers that are none too: as bfloat16 they are moved as integers."""
    narrow = RNG.permutation(np.arange(2**14, 2**14 + 2**15, dtype=np.uint16)).reshape(256, 128)
    words = narrow.reshape(128, 2, 128).swapaxes(1, 2).copy().view(np.uint32)[..., 0]
    like = tw.ShapeDtypeStruct(words.shape, "uint32")

    def body(x, o):
        o[...] = x[...]
        o.bitcast(BF16)[tl.ds(128, 128), :] = x.bitcast(BF16)[:128, :]
        o.bitcast(BF16)[40, :] = x.bitcast(BF16)[61, :]

    want = narrow.copy()
    want[128:], want[40] = narrow[:128], narrow[61]
    words_of = want.reshape(128, 2, 128).swapaxes(1, 2).copy().view(np.uint32)[..., 0]
    assert np.array_equal(walked(body, like, words), words_of)


def test_bits_that_do_not_fit_are_refused():
    for dtype, shape in (("uint8", (8,)), ("float64", (7, 4))):
        with tw.config(enable_x64=True), pytest.raises(errors.UnsupportedError, match="is seen as"):
            call(lambda x, o, d=dtype: o.__setitem__(..., x.bitcast(d)[...]), np.ones(shape, np.float32),
                 out=tw.ShapeDtypeStruct((4, 4), dtype))  # fmt: skip
    with pytest.raises(errors.UnsupportedError, match="multiples of 2"):
        call(lambda x, o: o.__setitem__(..., x.bitcast("int16")[1:3]), np.ones((4, 4), np.float32),
             out=tw.ShapeDtypeStruct((2, 4), "int16"))  # fmt: skip


# ---------------------------------------------------------------------------- slices past the end, conditions


@MODES
def test_a_masked_slice_may_reach_past_the_end(interpret):
    def body(x, o):
        mask = lax.iota(np.int32, 8) < 5
        row = tl.load(x.at[tl.ds(0, 8)], mask=mask, other=-np.inf)
        tl.store(o.at[tl.ds(0, 8)], tnp.exp(row - row.max()), mask=mask)

    x = np.arange(5, dtype=np.float32)
    got = call(body, x, out=tw.ShapeDtypeStruct((5,), "float32"), interpret=interpret)
    np.testing.assert_allclose(got, np.exp(x - 4), rtol=1e-6)
    with pytest.raises(errors.OutOfBoundsError, match="0 to 7"):
        call(lambda x, o: o.__setitem__(..., tl.load(x.at[tl.ds(0, 8)])), x, out=tw.ShapeDtypeStruct((8,), "float32"))


@MODES
def test_an_integer_is_a_condition(interpret):
    def body(flags, o):
        o[...] = np.float32(0)
        for i in range(3):
            tl.when(flags[i])(lambda i=i: o.__setitem__(i, np.float32(1)))
        tl.when(0)(lambda: o.__setitem__(0, np.float32(9)))

    spec = tpu.PrefetchScalarGridSpec(1, grid=(1,), out_specs=None)
    got = call(body, np.array([2, 0, -1], np.int32), out=tw.ShapeDtypeStruct((3,), "float32"), grid_spec=spec,
               interpret=interpret)  # fmt: skip
    assert got.tolist() == [1, 0, 1]


# ---------------------------------------------------------------------------- operands and results


class Tiles(NamedTuple):
    starts: object
    sizes: object


@MODES
def test_prefetched_operands_and_results_are_pytrees(interpret):
    def body(tiles, shift, x, nothing, o, none, last):
        assert nothing is None and none is None
        o[...] = x[...] + tiles.sizes[tl.program_id(0)].astype(np.float32) + shift[0].astype(np.float32)
        last[...] = x[...]

    block = tl.BlockSpec((2,), lambda i, tiles, shift: (tiles.starts[i],))
    spec = tpu.PrefetchScalarGridSpec(2, grid=(2,), in_specs=[block, None], out_specs=[block, None, block])
    like = tw.ShapeDtypeStruct((4,), "float32")
    x, tiles = np.arange(4, dtype=np.float32), Tiles(np.array([1, 0], np.int32), np.array([10, 20], np.int32))
    got, none, last = tl.kernel_call(body, [like, None, like], grid_spec=spec, interpret=interpret)(
        tiles, np.array([100], np.int32), x, None)  # fmt: skip
    assert none is None and np.array_equal(last, x)
    assert np.asarray(got).tolist() == [120, 121, 112, 113]


@MODES
def test_what_a_body_writes_of_a_prefetched_operand_is_its_own(interpret):
    """As kernels for TPUs keep a flag or the number of a buffer from cell to cell."""

    def body(step, x, o):
        o[...] = x[...] * step[0].astype(np.float32)
        step[0] = step[0] + 1

    block = tl.BlockSpec((2,), lambda i, step: (i,))
    spec = tpu.PrefetchScalarGridSpec(1, grid=(3,), in_specs=[block], out_specs=block)
    step = np.array([1], np.int32)
    call_ = tl.kernel_call(body, tw.ShapeDtypeStruct((6,), "float32"), grid_spec=spec, interpret=interpret)
    for _ in range(2):
        assert np.asarray(call_(step, np.ones(6, np.float32))).tolist() == [1, 1, 2, 2, 3, 3]
    assert step.tolist() == [1]


def test_scalars_that_a_body_writes_on_every_target():
    def body(kept, order, x, o):
        i = tl.program_id(0)

        @tl.when(i % 2 == 0)
        def _():
            kept[1] = kept[1] + order[i]

        kept[0] = 1 - kept[0]
        o[...] = x[...] + (10 * kept[0] + kept[1]).astype(np.float32)

    at, by = tl.BlockSpec((8, 128), lambda i, k, t: (i, 0)), tl.BlockSpec((8, 128), lambda i, k, t: (t[i], 0))
    spec = tpu.PrefetchScalarGridSpec(2, grid=(4,), in_specs=[by], out_specs=at)
    x, order = np.zeros((32, 128), np.float32), np.array([2, 0, 3, 1], np.int32)
    out = tw.ShapeDtypeStruct(x.shape, "float32")
    got = walked(body, out, np.array([1, 5], np.int32), order, x, grid_spec=spec)
    assert np.asarray(got)[::8, 0].tolist() == [7, 17, 10, 20]


def test_a_computed_size_is_bounded_by_what_index_maps_read():
    def rows(order, count):
        block = tl.BlockSpec((1, 128), lambda i, order: (order[i], 0))
        spec = tpu.PrefetchScalarGridSpec(1, grid=(count,), in_specs=[block], out_specs=block)
        out = tw.ShapeDtypeStruct((8, 128), "float32")
        return tl.kernel_call(lambda order, x, o: o.__setitem__(..., x[...] * 2), out, grid_spec=spec)

    def f(order, count, x):
        return rows(order, count)(order, x)

    args = np.arange(8, dtype=np.int32), np.int32(8), np.ones((8, 128), np.float32)
    assert np.array_equal(tw.jit(f)(*args), 2 * args[2])
    assert "(traced<=8,)" in str(tw.make_jaxpr(f)(*args))


def test_cells_of_a_parallel_axis_that_write_one_block_run_in_order_where_asked():
    def body(x, o, last):
        o[...] = x[...] + 1
        last[...] = x[...]

    block, one = tl.BlockSpec((2,), lambda i: (i,)), tl.BlockSpec((2,), lambda i: (0,))
    outs = (tw.ShapeDtypeStruct((6,), "float32"), tw.ShapeDtypeStruct((2,), "float32"))
    options = {"grid": 3, "in_specs": [block], "out_specs": (block, one), "dimension_semantics": ("parallel",)}
    x = np.arange(6, dtype=np.float32)
    with pytest.raises(errors.RaceError, match="declared parallel"):
        tl.kernel_call(body, outs, **options)(x)
    with tw.config(parallel_writes="order"):
        got, last = tl.kernel_call(body, outs, **options)(x)
    assert np.array_equal(got, x + 1) and np.array_equal(last, x[4:])


# ---------------------------------------------------------------------------- what else Pallas has


@MODES
def test_grids_have_names(interpret):
    def body(x, o):
        assert lax.axis_size("rows") == 4
        o[...] = x[...] + lax.axis_index("rows")

    def place(i, j):
        assert tl.num_programs(0) == 4
        return i, j

    block = tl.BlockSpec((1, 2), place)
    got = call(body, np.zeros((4, 4), np.int32), out=tw.ShapeDtypeStruct((4, 4), "int32"), grid=(("rows", 4), 2),
               in_specs=[block], out_specs=block, interpret=interpret)  # fmt: skip
    assert np.array_equal(got, np.arange(4)[:, None] * np.ones((1, 4)))


@MODES
def test_functions_with_rules_do_not_see_what_is_around_a_cell(interpret):
    spec = tl.BlockSpec((1, 2), lambda i: (i, 0))
    double = tw.custom_jvp(lambda x: 2 * x)
    double.defjvps(lambda t, y, x: 2 * t)

    def row(x):
        return tl.kernel_call(lambda x, o: o.__setitem__(..., double(x[...])),
                              tw.ShapeDtypeStruct((4, 2), "float32"), grid=(("rows", 4),), in_specs=[spec],
                              out_specs=spec, interpret=interpret)(x)  # fmt: skip

    x = np.arange(24, dtype=np.float32).reshape(3, 4, 2)
    assert np.array_equal(tw.vmap(row, axis_name="batch")(x), 2 * x)


@MODES
@pytest.mark.parametrize("dtype", ("float32", "bfloat16"))
def test_prefetched_operands_of_floats(dtype, interpret):
    spec = tpu.PrefetchScalarGridSpec(1, grid=(1,), in_specs=[None], out_specs=None)
    scales, x = tnp.asarray([2, 3]).astype(dtype), np.ones(4, np.float32)
    got = call(lambda s, x, o: o.__setitem__(..., x[...] * s[1].astype(np.float32)), scales, x,
               out=tw.ShapeDtypeStruct((4,), "float32"), grid_spec=spec, interpret=interpret)  # fmt: skip
    assert got.tolist() == [3, 3, 3, 3]


@MODES
def test_rows_are_rolled_by_a_stride(interpret):
    x = np.arange(5 * 7, dtype=np.float32).reshape(5, 7)
    got = call(lambda x, o: o.__setitem__(..., tpu.roll(x[...], 3, 1, stride=2, stride_axis=0)), x,
               out=tw.ShapeDtypeStruct((5, 7), "float32"), interpret=interpret)  # fmt: skip
    assert np.array_equal(got, [np.roll(row, 3 + 2 * i) for i, row in enumerate(x)])
    for wrong in ({"stride": 1}, {"stride": 1, "stride_axis": 1}):
        with pytest.raises(errors.ArgumentError, match="roll"):
            tpu.roll(x, 3, 1, **wrong)


PACKED = ("int32", "int16"), ("int32", "int8"), ("uint32", "uint8"), ("int16", "int8"), ("float32", "bfloat16")


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(PACKED), st.integers(0, 2**32 - 1))
def test_packed_elements_come_back(dtypes, seed):
    wide, packed = dtypes
    info = np.dtype(wide)
    count = info.itemsize // np.asarray(tnp.zeros(1, packed)).dtype.itemsize
    rng = np.random.default_rng(seed)
    xs = [tnp.asarray(rng.integers(0 if wide[0] == "u" else -100, 100, (3,))).astype(wide) for _ in range(count)]
    words = tpu.pack_elementwise(xs, packed_dtype=packed)
    assert words.dtype == f"uint{8 * info.itemsize}"
    for i, x in enumerate(xs):
        got = tpu.unpack_elementwise(words, index=i, packed_dtype=packed, unpacked_dtype=wide)
        assert got.dtype == wide and np.array_equal(got, x)
    with pytest.raises(errors.ArgumentError):
        tpu.unpack_elementwise(words, index=count, packed_dtype=packed, unpacked_dtype=wide)
    with pytest.raises(errors.DtypeError):
        tpu.pack_elementwise(xs, packed_dtype="float8_e5m2" if packed[0] in "iu" else "int8")


def test_bits_of_rows_go_to_wider_elements_and_back():
    x = tnp.asarray(np.arange(16, dtype=np.uint16).reshape(4, 4))
    words = tpu.bitcast(x, "uint32")
    assert np.array_equal(words, np.asarray(x[0::2]).astype(np.uint32) | np.asarray(x[1::2]).astype(np.uint32) << 16)
    assert np.array_equal(tpu.bitcast(words, "uint16"), x)
    with pytest.raises(errors.ShapeError, match="last axis but one"):
        tpu.bitcast(x[:3], "uint32")


def test_kernels_are_interpreted_where_it_is_asked():
    seen = []
    params = tpu.InterpretParams(grid_point_recorder=seen.append)
    block = tl.BlockSpec((1,), lambda i: (i,))

    def run():
        call(lambda x, o: o.__setitem__(..., x[...]), np.ones(3, np.float32), out=tw.ShapeDtypeStruct((3,), "float32"),
             grid=3, in_specs=[block], out_specs=block)  # fmt: skip

    with tpu.force_tpu_interpret_mode(params):
        run()
    assert seen == [(0,), (1,), (2,)]
    run()
    assert len(seen) == 3


@MODES
def test_a_copy_goes_to_a_ref_whose_axis_of_one_is_gone(interpret):
    def body(x, o, sem):
        tpu.async_copy(x.reshape(3, 4), o, sem).wait()

    far = tl.BlockSpec(memory_space=tl.ANY)
    x = np.arange(12, dtype=np.float32).reshape(3, 1, 4)
    got = call(body, x, out=tw.ShapeDtypeStruct((3, 4), "float32"), in_specs=[far], out_specs=far,
               scratch_shapes=[tpu.SemaphoreType.DMA], interpret=interpret)  # fmt: skip
    assert np.array_equal(got, x[:, 0])
