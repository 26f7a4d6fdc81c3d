"""The Mosaic lowering: the emitted module, walked, is the kernel; golden texts; what a TPU cannot do is named."""

import functools
import importlib.util

import ml_dtypes
import numpy as np
import pytest

import tilewright as tw
from tests.support.corpus.corners import CORNERS
from tests.support.corpus.runs import KERNELS, NAMES, Split, over_sizes
from tests.support.corpus.runs import operands as corpus_operands
from tests.support.corpus.small import EXAMPLES
from tests.support.gpu.walker import check_all, check_mosaic, check_triton, kernels_of
from tests.support.laws import operands
from tests.support.paths import GOLDEN
from tests.support.templates import CASES_OF, by_kind, first_by
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.elementwise.arithmetic import sin_p
from tilewright.core.support.errors import DtypeError, UnsupportedError
from tilewright.core.tracing.trace import typeof
from tilewright.kernels import TEMPLATES
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_tpu import mosaic_module
from tilewright.mosaic_tpu.custom_call import pretty
from tilewright.mosaic_tpu.rules import UNSUPPORTED
from tilewright.mosaic_tpu.values import UNSUPPORTED_DTYPES

V5E = target_of("tpu:v5e")
F32, I32 = np.dtype(np.float32), np.dtype(np.int32)


def kernel_of(body, out, *arrays, **options):
    """The one kernel of a call."""
    ((kernel, _),) = kernels_of(tl.kernel_call(body, out, **options), *arrays)
    return kernel


LIBTPU = importlib.util.find_spec("libtpu") is not None


def checked(body, out, *arrays, **options):
    """A kernel's walked module is the interpreter's result, and libtpu (where it is installed) takes it."""
    call = tl.kernel_call(body, out, **options)
    assert check_all(check_mosaic, call, *arrays) == 1
    if LIBTPU:
        assert tw.compile(call, *arrays, target="tpu:v5e").resources


def rand(*shape, dtype=np.float32):
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 3).astype(dtype)


# ---------------------------------------------------------------------------- walked


@pytest.mark.law
@pytest.mark.parametrize("example", [*EXAMPLES, *CORNERS], ids=lambda e: e.name)
def test_small_kernels(example):
    assert check_all(check_mosaic, example.call(), *example.operands)


@pytest.mark.law
@over_sizes(NAMES, slice(0, 2))
def test_the_corpus(kernel, size, mode):
    call = functools.partial(kernel.call, **size.blocks, **mode)
    assert check_all(check_mosaic, call, *corpus_operands(kernel, size))


@pytest.mark.law
@pytest.mark.parametrize("name", [n for n in NAMES if KERNELS[n].DIFFERENTIABLE])
def test_gradients_of_the_corpus(name):
    split = Split(KERNELS[name], KERNELS[name].SIZES[1], getattr(KERNELS[name], "MODES", ({},))[0])
    assert check_all(check_mosaic, tw.grad(split.loss, split.every), *split.xs)


def half(loops):
    """Two cells along every loop that may be cut, ragged where the size is odd or more than two."""
    tiles = tuple(
        1 if i in loops.single else max(n, 1) if i in loops.whole or n < 2 else max(1, n // 2 + (n % 2 == 0 and n > 2))
        for i, n in enumerate(loops.sizes)
    )
    return tiles if loops.shared is None or loops.sizes[loops.shared] < 2 else (*tiles, 2)


def fits(case):
    """Whether a TPU has the dtypes of a case."""
    types = [*case.types, *TEMPLATES[case.primitive].results(list(case.types), case.params)]
    return not any(str(t.dtype) in UNSUPPORTED_DTYPES or t.dtype.itemsize == 8 for t in types)


@pytest.mark.law
@pytest.mark.parametrize("case", first_by(by_kind, tuple(c for c in CASES_OF if fits(c))))
def test_templates(case):
    template, args = TEMPLATES[case.primitive], operands(case)
    types = [typeof(a) for a in args]
    built = template.build(*types, tiles=half(template.loops(types, case.params)), **case.params)
    built.run(lambda kernel, *xs: (check_mosaic(kernel, *xs), interpret(kernel, *xs))[1], args)


def test_an_exponential_of_a_multiple_is_multiplied_once():
    def body(x, o):
        o[...] = tnp.exp((x[...] - 1) * 0.25) + tnp.exp(-2.0 * x[...]) + tnp.exp(x[...])

    x = rand(16, 128)
    checked(body, tw.ShapeDtypeStruct(x.shape, x.dtype), x)
    text = mosaic_module(kernel_of(body, tw.ShapeDtypeStruct(x.shape, x.dtype), x), V5E).text
    assert text.count("math.exp2") == 2 and text.count('"math.exp"') == 1


# ---------------------------------------------------------------------------- accesses and dtypes

DTYPES = ["float32", "bfloat16", "float16", "float8_e4m3fn", "float8_e5m2", "int32", "uint32", "int16", "uint16",
          "int8", "uint8", "bool"]  # fmt: skip


def array_of(dtype, *shape):
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    values = np.random.default_rng(7).integers(0, 5, shape)
    return values.astype(dtype) if str(dtype) != "bool" else values > 2


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_is_read_at_computed_places_and_written(dtype):
    x = array_of(dtype, 24, 40)

    def body(i, x, o):
        at = i[0]
        o[...] = x[...]
        o[tl.ds(at, 3), tl.ds(at + 2, 5)] = x[tl.ds(2 * at, 3), tl.ds(at, 5)]
        o[at, :] = x[at + 1, :]
        o[:, 7] = x[:, at]

    spec = [tl.BlockSpec(memory_space=tl.SMEM), None]
    checked(body, ArrayType(x.shape, x.dtype), np.array([5], np.int32), x, in_specs=spec)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bool"])
def test_a_matmul_of_every_dtype(dtype):
    x, y = array_of(dtype, 5, 7), array_of(dtype, 7, 9)
    wide = F32 if tnp.issubdtype(x.dtype, tnp.floating) else I32

    def body(x, y, o):
        o[...] = tnp.dot(x[...], y[...], preferred_element_type=wide)

    checked(body, ArrayType((5, 9), wide), x, y)


def test_a_deep_product_of_integers():
    def body(x, y, o):
        o[...] = tnp.dot(x[...], y[...], preferred_element_type=I32)

    checked(body, ArrayType((5, 9), I32), array_of("uint8", 5, 40), array_of("uint8", 40, 9))


def test_strides_in_three_dimensions():
    def body(x, o):
        o[...] = x[1::2, tl.ds(1, 3, 2), ::3]
        o[0, :, :] = x[2, 2:5, 1:5] * 2.0

    checked(body, ArrayType((2, 3, 4), F32), rand(4, 8, 12))


def test_a_strided_store_keeps_what_lies_between():
    def body(x, o):
        o[...] = x[...] + 1.0
        o[::2, 1::3] = x[::2, 1::3] * 10.0

    checked(body, ArrayType((6, 9), F32), rand(6, 9))


@pytest.mark.parametrize("at", [-2, 0, 3, 9])
def test_masked_accesses_past_both_ends(at):
    def body(i, x, o):
        start = i[0]
        place = start + tnp.arange(6)
        mask = (place >= 0) & (place < 10)
        got = tl.load(x, (tl.ds(start, 6),), mask=mask, other=-1.0)
        o[...] = tnp.zeros(o.shape, o.dtype)
        tl.store(o, (tl.ds(start, 6),), got * 2.0, mask=mask)

    spec = [tl.BlockSpec(memory_space=tl.SMEM), None]
    checked(body, ArrayType((10,), F32), np.array([at], np.int32), rand(10), in_specs=spec)


@pytest.mark.parametrize("kind", ["add", "max", "min", "xchg"])
def test_an_atomic_is_an_update_on_one_core(kind):
    def body(x, o, old):
        @tl.when(tl.program_id(0) == 0)
        def _():
            o[...] = tnp.ones(o.shape, o.dtype)

        old[...] = getattr(tl, f"atomic_{kind}")(o, (slice(None),), x[...])

    spec = tl.BlockSpec((8,), lambda i: i)
    outs = (ArrayType((8,), F32), ArrayType((24,), F32))
    checked(body, outs, rand(24), grid=3, in_specs=[spec], out_specs=(tl.BlockSpec(), spec),
            dimension_semantics=["arbitrary"])  # fmt: skip


@pytest.mark.parametrize("target", ["tpu:v5e", "tpu:v5p"])
def test_an_axis_along_which_cells_meet_runs_in_order(target):
    """Two cores that divide it would each copy out a part of the counts; in no order may the result differ."""
    from tests.support.corpus import histogram

    ((kernel, arrays),) = kernels_of(histogram.call, np.arange(12, dtype=np.int32) % 7)
    assert kernel.semantics == ("parallel",)
    assert "#tpu.dimension_semantics<arbitrary>" in mosaic_module(kernel, target_of(target)).text
    check_mosaic(kernel, *arrays, target=target, order=np.random.default_rng(3))


@pytest.mark.parametrize("kind", ["add", "max", "xchg"])
def test_atomics_at_places_named_twice_come_one_after_the_other(kind):
    def body(i, x, o, old):
        o[...] = tnp.ones(o.shape, o.dtype)
        old[...] = getattr(tl, f"atomic_{kind}")(o, (i[...],), x[...])

    outs = (ArrayType((5,), F32), ArrayType((6,), F32))
    checked(body, outs, np.array([0, 3, 3, 1, 3, 0], np.int32), rand(6))


def test_scalar_memory_is_read_and_written_at_places_from_arrays():
    def body(words, x, o, counts):
        o[...] = x[...] + words[tnp.arange(8) % 3]
        counts[...] = tnp.zeros(counts.shape, counts.dtype)
        counts[tnp.arange(2) * 2] = words[tnp.arange(2)]

    scalars = tl.BlockSpec(memory_space=tl.SMEM)
    outs, words = (ArrayType((8,), I32), ArrayType((4,), I32)), np.array([5, 7, 9], np.int32)
    checked(body, outs, words, np.arange(8, dtype=np.int32), in_specs=[scalars, None], out_specs=[None, scalars])


def test_compare_and_swap():
    def body(x, o, old):
        o[...] = x[...]
        old[...] = tl.atomic_cas(o.at[1:4], tnp.ones((3,)), x[1:4] * 10.0)

    outs = (ArrayType((6,), F32), ArrayType((3,), F32))
    checked(body, outs, np.array([1, 1, 2, 1, 5, 1], np.float32))


@pytest.mark.parametrize(("shape", "new"), [
    ((15, 13), (13, 15)), ((5, 7), (35,)), ((35,), (5, 7)), ((4, 6, 5), (8, 15)), ((3, 140), (140, 3)),
    ((6, 1, 4), (4, 6)), ((2, 3, 4, 5), (20, 6)), ((1, 150), (50, 3)), ((48, 100), (100, 48)), ((130, 3), (39, 10)),
])  # fmt: skip
def test_any_reshape(shape, new):
    def body(x, o):
        o[...] = x[...].reshape(new)

    checked(body, ArrayType(new, F32), rand(*shape))


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reverse_roll_and_prefixes_along_every_axis(axis):
    def body(x, o):
        v = x[...]
        o[...] = tnp.flip(v, axis) + tl.tpu.roll(v, 2, axis) + tnp.cumsum(v, axis) + lax.cummax(v, axis, reverse=True)

    checked(body, ArrayType((5, 6, 7), F32), rand(5, 6, 7))


def test_loops_on_values_scalars_and_masks():
    def body(x, o):
        def more(state):
            return (state[0] < 5) & (state[2].sum() < 1e6)

        def step(state):
            i, seen, v = state
            return i + 1, seen | (v > i), v * 1.5

        i, seen, v = lax.while_loop(more, step, (0, x[...] > 100.0, x[...]))
        o[...] = tnp.where(seen, v, -v) + i

    checked(body, ArrayType((6, 5), F32), rand(6, 5))


def test_a_switch_has_as_many_branches_as_it_likes():
    def body(x, o):
        v = x[...]
        o[...] = lax.switch(tl.program_id(0), [lambda: v, lambda: v * 2.0, lambda: -v, lambda: v + 1.0])

    spec = tl.BlockSpec((1, 8), lambda i: (i, 0))
    checked(body, ArrayType((5, 8), F32), rand(5, 8), grid=5, in_specs=[spec], out_specs=spec)


def test_random_bits_are_those_of_every_target():
    def body(o):
        tl.prng_seed(7)
        o[...] = tl.stateful_normal(o.shape)

    checked(body, ArrayType((12, 40), F32), grid=3, out_specs=tl.BlockSpec((4, 40), lambda i: (i, 0)))


def test_a_function_is_applied_once_for_each_time_a_place_is_named():
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))

    def body(i, x, o):
        o[...] = lax.scatter_apply(x[...], i[...][:, None], lambda v: v * 2.0 - 1.0, numbers, update_shape=(5,))

    checked(body, ArrayType((6,), F32), np.array([0, 3, 3, 9, 3], np.int32), rand(6))


# ---------------------------------------------------------------------------- windows


def test_blocks_that_fit_the_tiling_are_windows_of_the_operand_itself():
    spec = tl.BlockSpec((16, 128), lambda i, j: (i, j))
    x = rand(48, 256)
    kernel = kernel_of(lambda x, o: o.__setitem__(..., x[...]), ArrayType(x.shape, F32), x, grid=(3, 2),
                       in_specs=[spec], out_specs=spec)  # fmt: skip
    module = mosaic_module(kernel, V5E)
    assert module.prepare is None and module.finish is None
    assert "window_bounds = array<i64: 16, 128>" in module.text
    check_mosaic(kernel, x)


@pytest.mark.parametrize(("dtype", "shape"), [
    ("float32", (20, 300)), ("bfloat16", (3, 40, 130)), ("int8", (3, 70, 128)), ("float32", (3, 8, 1, 200)),
])  # fmt: skip
def test_a_ragged_end_is_filled_where_a_window_reaches_past_it(dtype, shape):
    x = array_of(dtype, *shape)
    sizes = (*(None for _ in shape[:-2]), min(shape[-2], 32), 128)
    maps = lambda *ids: ids  # noqa: E731
    grid = tuple(-(-n // (s or 1)) for n, s in zip(shape, sizes))

    def body(x, o):
        total = x[...].sum(axis=0, keepdims=True)
        o[...] = (total * tnp.ones(o.shape, o.dtype)).astype(o.dtype)

    kernel = kernel_of(
        body, ArrayType((*grid[:-2], 8 * grid[-2], 128 * grid[-1]), x.dtype), x, grid=grid,
        in_specs=[tl.BlockSpec(sizes, maps, fill=3)],
        out_specs=tl.BlockSpec((*sizes[:-2], 8, 128), maps))  # fmt: skip
    assert mosaic_module(kernel, V5E).prepare is None
    check_mosaic(kernel, x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_other_blocks_are_laid_side_by_side(dtype):
    x = array_of(dtype, 20, 30)
    spec = tl.BlockSpec((8, 7), lambda i, j: (i, j))
    kernel = kernel_of(lambda x, o: o.__setitem__(..., x[...]), ArrayType(x.shape, x.dtype), x, grid=(3, 5),
                       in_specs=[spec], out_specs=spec)  # fmt: skip
    assert mosaic_module(kernel, V5E).in_types == (ArrayType((3, 5, 8, 7), x.dtype),)
    check_mosaic(kernel, x)


def test_a_kernel_of_no_cells_gives_its_aliased_operand():
    x = rand(8)
    spec = tl.BlockSpec((4,), lambda i: i)
    kernel = kernel_of(lambda x, o: None, ArrayType((8,), F32), x, grid=2, in_specs=[spec], out_specs=spec,
                       input_output_aliases={0: 0})  # fmt: skip
    (got,) = check_mosaic(kernel.replace(grid=(0,)), x)
    np.testing.assert_array_equal(got, x)


def test_one_buffer_where_the_author_asks_for_one():
    spec, x = tl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=tl.Buffered(1)), rand(24, 128)
    kernel = kernel_of(lambda x, o: o.__setitem__(..., x[...]), ArrayType(x.shape, F32), x, grid=3,
                       in_specs=[spec], out_specs=tl.BlockSpec((8, 128), lambda i: (i, 0)))  # fmt: skip
    assert mosaic_module(kernel, V5E).text.count("pipeline_mode<synchronous>") == 1
    check_mosaic(kernel, x)


def sum_of_blocks(n, x):
    def body(x, o):
        @tl.when(tl.program_id(0) == 0)
        def _():
            o[...] = tnp.zeros(o.shape, o.dtype)

        o[...] += x[...]

    return tl.kernel_call(body, ArrayType((8, 128), F32), grid=(n[0],),
                          in_specs=[tl.BlockSpec((8, 128), lambda i: (i, 0))],
                          out_specs=tl.BlockSpec((8, 128), lambda i: (0, 0)))(x)  # fmt: skip


@pytest.mark.parametrize("n", [1, 5, 8])
def test_a_computed_grid_size_is_an_operand_of_the_call(n):
    ((kernel, arrays),) = kernels_of(sum_of_blocks, np.array([n], np.int32), rand(64, 128))
    assert "iteration_bounds = array<i64: -9223372036854775808>" in mosaic_module(kernel, V5E).text
    check_mosaic(kernel, *arrays)


def test_grid_sizes_that_differ_from_cell_to_cell_skip_cells():
    sizes, x = np.array([[2], [5]], np.int32), rand(2, 64, 128)
    assert check_all(check_mosaic, tw.vmap(sum_of_blocks), sizes, x) == 1


# ---------------------------------------------------------------------------- far memory

ANY = tl.BlockSpec(memory_space=tl.ANY)


def sums_of_pieces(x, o, buffers, semaphores):
    columns = tl.ds(tl.program_id(0) * o.shape[1], o.shape[1])

    def copy(k):
        return tl.make_async_copy(x.at[k, :, columns], buffers.at[k % 2], semaphores.at[k % 2])

    copy(0).start()
    for k in range(o.shape[0]):
        if k + 1 < o.shape[0]:
            copy(k + 1).start()
        copy(k).wait()
        o[k, :] = buffers[k % 2].sum(axis=0)


@pytest.mark.parametrize(("columns", "copies"), [(128, True), (32, False)])
def test_copies_of_whole_tiles_are_the_device_s_own(columns, copies):
    x = rand(3, 16, 2 * columns)
    scratch = [tl.VMEM((2, 16, columns), F32), tl.SemaphoreType.DMA((2,))]
    kernel = kernel_of(sums_of_pieces, ArrayType((3, 2 * columns), F32), x, grid=2, in_specs=[ANY],
                       out_specs=tl.BlockSpec((3, columns), lambda j: (0, j)), scratch_shapes=scratch)  # fmt: skip
    text = mosaic_module(kernel, V5E).text
    assert ("tpu.enqueue_dma" in text) == ("#tpu.memory_space<any>" in text) == copies
    check_mosaic(kernel, x)


def test_rows_at_computed_places_are_copied():
    def body(i, x, o, done):
        def step(r, _):
            tl.async_copy(x.at[tl.ds(i[r], 1), :], o.at[tl.ds(r, 1), :], done).wait()
            return 0

        lax.fori_loop(0, 5, step, 0)

    places, x = np.array([3, 9, 63, 0, 7], np.int32), rand(64, 256)
    kernel = kernel_of(body, ArrayType((5, 256), F32), places, x, scratch_shapes=[tl.SemaphoreType.DMA],
                       in_specs=[tl.BlockSpec(memory_space=tl.SMEM), ANY])  # fmt: skip
    assert "tpu.wait_dma2" in mosaic_module(kernel, V5E).text
    check_mosaic(kernel, places, x)


@pytest.mark.parametrize("columns", [256, 20])
def test_rows_of_words_are_copied_from_anywhere_one_by_one(columns):
    def body(at, x, o, held, done):
        here = at[tl.program_id(0)]
        for move in (tl.make_async_copy(x.at[tl.ds(here, 3)], held, done),
                     tl.make_async_copy(held, o.at[tl.ds(here + 1, 3)], done)):  # fmt: skip
            move.start()
            move.wait()

    places, x = np.array([3, 9, 28, 0, 17], np.int32), rand(32, columns)
    kernel = kernel_of(body, ArrayType((32, columns), F32), places, x, grid=5, out_specs=ANY,
                       in_specs=[tl.BlockSpec(memory_space=tl.SMEM), ANY],
                       scratch_shapes=[tl.VMEM((3, columns), "float32"), tl.SemaphoreType.DMA])  # fmt: skip
    text = mosaic_module(kernel, V5E).text
    assert "#tpu.memory_space<any>" in text and text.count("tpu.enqueue_dma") == 6
    check_mosaic(kernel, places, x)


@pytest.mark.parametrize("rows", [32, 16384])
def test_operands_too_large_for_vmem_stay_in_far_memory(rows):
    def body(x, o):
        here = tl.ds(tl.program_id(0) * 8, 8)
        o[here, :] = x[here, :] * 2.0

    shape = ArrayType((rows, 256), F32)
    kernel = kernel_of(body, shape, np.ones(shape.shape, F32), grid=2, in_specs=[ANY], out_specs=ANY)
    assert ("#tpu.memory_space<any>" in mosaic_module(kernel, V5E).text) == (rows > 32)
    if rows == 32:
        check_mosaic(kernel, rand(rows, 256))


@pytest.mark.parametrize("columns", [128, 20])
def test_a_pipeline_s_next_blocks_are_on_their_way(columns):
    def body(x, y, o):
        def inner(a, b, c):
            @tl.when(tl.program_id(2) == 0)
            def _():
                c[...] = tnp.zeros(c.shape, c.dtype)

            c[...] += a[...] @ b[...]

        tl.emit_pipeline(
            inner, grid=(2, 2, 3),
            in_specs=[tl.BlockSpec((8, columns), lambda i, j, k: (i, k)),
                      tl.BlockSpec((columns, columns), lambda i, j, k: (k, j))],
            out_specs=tl.BlockSpec((8, columns), lambda i, j, k: (i, j)),
        )(x, y, o)  # fmt: skip

    x, y = rand(16, 3 * columns), rand(3 * columns, 2 * columns)
    kernel = kernel_of(body, ArrayType((16, 2 * columns), F32), x, y, in_specs=[ANY, ANY], out_specs=ANY)
    assert ("tpu.enqueue_dma" in mosaic_module(kernel, V5E).text) == (columns == 128)
    check_mosaic(kernel, x, y)


def test_semaphores_count():
    def body(x, o, s):
        tl.semaphore_signal(s, 3)
        tl.semaphore_wait(s, 2, decrement=False)
        tl.semaphore_wait(s, 1)
        o[...] = x[...] + tl.semaphore_read(s)
        tl.semaphore_wait(s, 2)

    checked(body, ArrayType((8,), F32), rand(8), scratch_shapes=[tl.SemaphoreType.REGULAR])


# ---------------------------------------------------------------------------- golden texts


@pytest.mark.parametrize("name", ["saxpy", "matmul_grid", "softmax"])
def test_golden_text(name, request):
    kernel = importlib.import_module(f"tests.support.corpus.{name}")
    size = kernel.SIZES[0]
    ((value, _),) = kernels_of(functools.partial(kernel.call, **size.blocks), *corpus_operands(kernel, size))
    text = pretty(mosaic_module(value, V5E).text, name)
    path = GOLDEN / f"mosaic_{name}.mlir"
    if request.config.getoption("--update-golden"):
        path.write_text(text)
    assert text == path.read_text()


def test_the_text_is_the_same_each_time():
    kernel = kernel_of(lambda x, o: o.__setitem__(..., tnp.sin(x[...])), ArrayType((8,), F32), rand(8))
    again = kernel_of(lambda x, o: o.__setitem__(..., tnp.sin(x[...])), ArrayType((8,), F32), rand(8))
    first = mosaic_module(kernel, V5E).text
    mosaic_module.__wrapped__.cache_clear()
    assert mosaic_module(again, V5E).text == first


# ---------------------------------------------------------------------------- what a TPU cannot do


@pytest.mark.parametrize("dtype", ["float64", "int64", "complex64"])
def test_dtypes_without_registers_are_named(dtype):
    with tw.enable_x64(True):
        x = np.ones((4,), dtype)
        kernel = kernel_of(lambda x, o: o.__setitem__(..., x[...]), ArrayType((4,), x.dtype), x)
        with pytest.raises(DtypeError) as caught:
            mosaic_module(kernel, V5E)
    assert dtype in str(caught.value) and UNSUPPORTED_DTYPES[dtype] in str(caught.value)


def test_an_arithmetic_shift_of_unsigned_integers_brings_their_highest_bit():
    def body(x, y, o):
        o[...] = lax.shift_right_arithmetic(x[...], y[...]) + lax.shift_right_arithmetic(x[...], np.uint32(3))

    x = np.array([[2**32 - 1, 2**31, 2**31 + 5, 7]], np.uint32)
    y = np.array([[1, 31, 40, 2]], np.uint32)
    call = tl.kernel_call(body, tw.ShapeDtypeStruct(x.shape, x.dtype))
    assert check_all(check_mosaic, call, x, y) == check_all(check_triton, call, x, y) == 1
    shifted = [(x.view(np.int32) >> np.minimum(n, 31).view(np.int32)).view(np.uint32) for n in (y, np.uint32(3))]
    np.testing.assert_array_equal(call(x, y), shifted[0] + shifted[1])


@pytest.mark.parametrize("function", ["zeta", "polygamma"])
def test_zeta_and_polygamma_at_negative_arguments(function):
    def body(m, q, o):
        o[...] = getattr(lax, function)(m[...], q[...])

    m = np.array([[2, 3, 4, 5], [2, 3, 2, 2]], np.float32)
    q = np.array([[-9.5, -12.25, -0.5, 1.5], [-15.5, -3.75, -20.5, -30.25]], np.float32)
    assert check_all(check_mosaic, tl.kernel_call(body, tw.ShapeDtypeStruct(q.shape, q.dtype)), m, q) == 1


def test_float16_is_held_as_float32():
    assert "float16" not in UNSUPPORTED_DTYPES


def test_the_host_is_out_of_reach():
    def body(x, o):
        tw.debug.callback(lambda v: None, x[0])
        o[...] = x[...]

    kernel = kernel_of(body, ArrayType((4,), F32), np.ones(4, np.float32))
    with pytest.raises(UnsupportedError) as caught:
        mosaic_module(kernel, V5E)
    assert "host" in str(caught.value) and "test_lower.py" in str(caught.value)


@pytest.mark.parametrize(("primitive", "reason"), list(UNSUPPORTED.items()), ids=repr)
def test_what_is_unsupported_says_why(primitive, reason):
    """The error of each, for an equation put into a body."""
    kernel = kernel_of(lambda x, o: o.__setitem__(..., tnp.sin(x[...])), ArrayType((4,), F32), np.ones(4, np.float32))
    eqns = [e.replace(primitive=primitive) if e.primitive is sin_p else e for e in kernel.body.eqns]
    assert any(e.primitive is primitive for e in eqns)
    with pytest.raises(UnsupportedError) as caught:
        mosaic_module(kernel.replace(body=kernel.body.replace(eqns=eqns)), V5E)
    assert reason in str(caught.value) and primitive.name in str(caught.value)


# ---------------------------------------------------------------------------- printing and checking


def test_debug_print_is_the_device_s_log():
    def body(x, o):
        tl.debug_print("cell {} has {:.2f}, all {}", tl.program_id(0), x[0], x[...] > 0)
        o[...] = x[...]

    x = np.array([1, -2, 3], np.float32)
    kernel = kernel_of(body, ArrayType((3,), F32), x, grid=1)
    assert 'tag = "cell {} has {}, all [{} {} {}]"' in mosaic_module(kernel, V5E).text


def test_debug_check_stops_the_core():
    def body(x, o):
        tl.debug_check(x[...] > 0, 'all "positive"')
        o[...] = x[...]

    x = np.ones(4, np.float32)
    kernel = kernel_of(body, ArrayType((4,), F32), x)
    check_mosaic(kernel, x)
    assert "all \\22positive\\22" in mosaic_module(kernel, V5E).text
