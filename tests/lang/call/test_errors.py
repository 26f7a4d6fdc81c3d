"""Bad kernels get errors that name the kernel, the operand, the numbers, the user's line and the remedy."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    BlockRankError,
    DtypeError,
    InputWriteError,
    KernelBodyError,
    KernelError,
    OutOfBoundsError,
    PaddingError,
    RaceError,
    ShapeError,
    TreeError,
    UncoveredOutputError,
)

F32 = np.float32
x8 = np.arange(8, dtype=F32)
SHAPE = tw.ShapeDtypeStruct((8,), F32)
SPEC = tl.BlockSpec((4,), lambda i: (i,))


def double(x_ref, o_ref):
    o_ref[...] = 2 * x_ref[...]


def run(body=double, out_shape=SHAPE, args=(x8,), **options):
    options = {"grid": 2, "in_specs": [SPEC], "out_specs": SPEC} | options
    return tl.kernel_call(body, out_shape, **options)(*args)


def refused(error, *words, **options):
    with pytest.raises(error) as caught:
        run(**options)
    text = str(caught.value)
    for word in (*words, "test_errors.py", "remedy:"):
        assert word in text, text


def spec(shape, index_map):
    return tl.BlockSpec(shape, index_map)


def test_it_runs():
    np.testing.assert_array_equal(run(), 2 * x8)


def test_block_and_index_map_differ_in_rank():
    refused(BlockRankError, "kernel double", "x_ref", "(4,)", "2 indices", in_specs=[spec((4,), lambda i: (i, 0))])


def test_block_and_operand_differ_in_rank():
    refused(
        BlockRankError, "kernel double", "o_ref", "f32[8]", "rank 1", "(4, 1)", out_specs=spec((4, 1), lambda i: (i, 0))
    )


def test_index_map_takes_the_grid():
    refused(BlockRankError, "x_ref", "takes (i)", "given 2 values", grid=(2, 1), in_specs=[spec((4,), lambda i: i)])


@pytest.mark.parametrize("operand, options", [
    ("x_ref", {"in_specs": [spec((4,), lambda i: i + 1)]}),
    ("o_ref", {"out_specs": spec((4,), lambda i: i + 1)}),
])  # fmt: skip
def test_index_map_out_of_bounds(operand, options):
    refused(OutOfBoundsError, "kernel double", operand, "cell (1,)", "block (2,)", "8 to 11", "has 8", **options)


def test_index_map_below_zero():
    refused(OutOfBoundsError, "x_ref", "cell (0,)", "block (-1,)", in_specs=[spec((4,), lambda i: i - 1)])


def test_window_out_of_bounds():
    refused(OutOfBoundsError, "x_ref", "cell (1,)", in_specs=[spec((tl.Element(4),), lambda i: i * 5)])


def test_output_not_wholly_written():
    refused(UncoveredOutputError, "kernel double", "1 of the 2 blocks", "o_ref", "enlarge the grid", grid=1)
    first = spec((4,), lambda i: 0)
    refused(UncoveredOutputError, "1 of the 2 blocks", "have the index map give", grid=2, out_specs=first)


def test_output_never_written():
    def body(x_ref, o_ref):
        x_ref[...] + 1

    refused(UncoveredOutputError, "kernel body", "never writes output o_ref", "o_ref[...] = value", body=body)


def test_race_on_a_parallel_axis():
    options = {"grid": (2, 3), "in_specs": [spec((4,), lambda i, j: i)], "out_specs": spec((4,), lambda i, j: i)}
    refused(
        RaceError,
        "double",
        "(0, 0)",
        "(0, 1)",
        "o_ref",
        "axis 1",
        dimension_semantics=("parallel", "parallel"),
        **options,
    )


def test_scratch_carried_along_a_parallel_axis():
    def body(x_ref, o_ref, s_ref):
        @tl.when(tl.program_id(0) == 0)
        def _():
            s_ref[...] = tnp.zeros(s_ref.shape, s_ref.dtype)

        s_ref[...] += x_ref[...]
        o_ref[...] = s_ref[...]

    scratch = [tl.VMEM((4,), F32)]
    np.testing.assert_array_equal(run(body, scratch_shapes=scratch), [0, 1, 2, 3, 4, 6, 8, 10])
    refused(RaceError, "kernel body", "scratch s_ref", "axis 0", body=body, scratch_shapes=scratch,
            dimension_semantics=("parallel",))  # fmt: skip


def test_block_entered_again():
    options = {"grid": (3, 2), "in_specs": [spec((4,), lambda j, i: i)], "out_specs": spec((4,), lambda j, i: i)}
    refused(RaceError, "double", "cell (1, 0)", "o_ref", **options)


def test_body_returns_a_value():
    refused(KernelBodyError, "kernel body", "returns a value", body=lambda x_ref, o_ref: x_ref[...], name="body")


def test_body_closes_over_an_array():
    y = tnp.arange(4.0)

    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] + y

    refused(KernelBodyError, "kernel body", "closes over an array", "f32[4]", body=body)


def test_body_closes_over_a_traced_array():
    def outer(y):
        def body(x_ref, o_ref):
            o_ref[...] = x_ref[...] + y

        return run(body)

    with pytest.raises(KernelBodyError, match="closes over a traced array"):
        tw.jit(outer)(tnp.arange(4.0))


def test_ref_used_unread():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref * 2

    refused(KernelBodyError, "read it first", body=body)


def test_ref_passed_to_a_function_unread():
    def body(x_ref, o_ref):
        o_ref[...] = tnp.exp(x_ref)

    with pytest.raises((KernelBodyError, TypeError)):
        run(body)


def test_stored_shape_and_dtype():
    def shape(x_ref, o_ref):
        o_ref[...] = x_ref[:3]

    def dtype(x_ref, o_ref):
        o_ref[...] = x_ref[...].astype(np.int32)

    refused(ShapeError, "(3,)", "(4,)", body=shape)
    refused(DtypeError, "i32[4]", "float32", "astype", body=dtype)


def test_static_index_out_of_the_block():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[5] + x_ref[...]

    refused(OutOfBoundsError, "index 5", "axis 0", "(4,)", body=body)


def test_specs_of_another_structure():
    refused(TreeError, "in_specs are 2, the operands are 1", in_specs=[SPEC, SPEC])
    refused(TreeError, "in_specs are the tree", "'a'", in_specs={"a": SPEC})


def test_no_out_shape():
    with pytest.raises(ArgumentTypeError, match="no out_shape") as caught:
        tl.kernel_call(double, grid=2, in_specs=[SPEC], out_specs=SPEC)
    assert "ShapeDtypeStruct" in str(caught.value) and "test_errors.py" in str(caught.value)


def test_a_block_shape_that_is_a_number():
    with pytest.raises(ArgumentTypeError, match=r"block shape is 256") as caught:
        tl.BlockSpec(256, lambda i: (i,))
    assert "BlockSpec((256,), index_map)" in str(caught.value)


def test_alias_of_another_type():
    refused(
        ShapeError,
        "x_ref",
        "o_ref",
        "f32[8]",
        "f32[16]",
        out_shape=tw.ShapeDtypeStruct((16,), F32),
        grid=4,
        in_specs=[spec((4,), lambda i: i // 2)],
        input_output_aliases={0: 0},
    )


def test_alias_read_where_another_cell_writes():
    options = {"in_specs": [spec((4,), lambda i: 1 - i)], "input_output_aliases": {0: 0}}
    refused(RaceError, "kernel double", "x_ref", "o_ref", "cell (0,)", "cell (1,)", "aliased", **options)


def test_alias_that_does_not_exist():
    refused(ArgumentError, "{0: 3}", input_output_aliases={0: 3})


@pytest.mark.parametrize("grid", [(2, -1), 2.0, ("a",)])
def test_grids(grid):
    refused((ArgumentError, ArgumentTypeError), "grid", grid=grid, in_specs=None, out_specs=None)


@pytest.mark.parametrize("shape", [(0,), (2.5,), ("a",)])
def test_block_shapes(shape):
    with pytest.raises((ArgumentError, ArgumentTypeError), match="block shape"):
        tl.BlockSpec(shape, lambda i: i)


def test_program_id_outside_a_kernel():
    with pytest.raises(KernelBodyError, match="outside a kernel"):
        tl.program_id(0)


def test_program_id_of_no_axis():
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * tl.program_id(1)

    refused(ArgumentError, "program_id(1)", "kernel body", body=body)


def test_unknown_keyword():
    refused(ArgumentError, "blocks", blocks=3)


def test_operands_after_the_call_is_made():
    call = tl.kernel_call(double, SHAPE, grid=2, in_specs=[SPEC], out_specs=SPEC)
    with pytest.raises(KernelError):
        call(np.arange(4, dtype=F32))
    np.testing.assert_array_equal(call(x8), 2 * x8)


def test_strict():
    ids = np.array([1, 0], np.int32)
    grid_spec = tl.PrefetchScalarGridSpec(1, (2,), [spec((4,), lambda i, ids: ids[i])], spec((4,), lambda i, ids: i))

    def body(ids_ref, x_ref, o_ref):
        o_ref[...] = x_ref[...]

    call = tl.kernel_call(body, SHAPE, grid_spec=grid_spec)
    np.testing.assert_array_equal(call(ids, x8), [4, 5, 6, 7, 0, 1, 2, 3])
    call = tl.kernel_call(body, SHAPE, grid_spec=grid_spec)
    with tw.config(strict_kernels=True), pytest.raises(KernelError, match="prefetched data"):
        call(ids, x8)


@pytest.mark.parametrize("shape, grid", [((0,), (0,)), ((0, 4), (0, 1))])
def test_zero_sizes(shape, grid):
    index = (lambda i: (i,)) if len(grid) == 1 else (lambda i, j: (i, j))
    block = spec((4,) * len(shape), index)
    out = tl.kernel_call(double, tw.ShapeDtypeStruct(shape, F32), grid=grid, in_specs=[block], out_specs=block)(
        np.zeros(shape, F32)
    )
    assert out.shape == shape


# ---------------------------------------------------------------------------- blocks that data places


def placed(ids, debug, interpret=False):
    """Row ids[i] of an operand of 4 rows."""

    def body(ids_ref, row_ref, o_ref):
        o_ref[...] = row_ref[...]

    rows = [tl.BlockSpec((1, 2), lambda i, ids: (ids[i], 0))]
    spec = tl.PrefetchScalarGridSpec(1, (2,), rows, tl.BlockSpec((1, 2), lambda i, ids: (i, 0)))
    call = tl.kernel_call(body, tw.ShapeDtypeStruct((2, 2), F32), grid_spec=spec, debug=debug, interpret=interpret)
    return call(np.array(ids, np.int32), x8.reshape(4, 2))


def test_indices_from_data_are_clamped_compiled_and_checked_in_debug():
    np.testing.assert_array_equal(placed([1, 9], False), [[2, 3], [6, 7]])
    np.testing.assert_array_equal(placed([1, 3], True), [[2, 3], [6, 7]])
    words = r"kernel body, cell \(1,\): .* operand row_ref of f32\[4,2\] gives block \(9, 0\)"
    with pytest.raises(OutOfBoundsError, match=words):
        np.asarray(placed([1, 9], True))
    with pytest.raises(OutOfBoundsError, match="row_ref"):
        placed([1, 9], False, interpret=True)


@pytest.mark.parametrize("grid", [0, (2, 0)])
def test_grid_without_cells_writes_nothing(grid):
    ids = 1 if isinstance(grid, int) else 2
    block = tl.BlockSpec((4,), (lambda i: (i,)) if ids == 1 else (lambda i, j: (i,)))
    refused(
        UncoveredOutputError, "kernel double", "has no cells", "o_ref", grid=grid, in_specs=[block], out_specs=block
    )
    empty = run(grid=grid, in_specs=[block], out_specs=block, args=(x8[:0],), out_shape=tw.ShapeDtypeStruct((0,), F32))
    assert empty.shape == (0,)


def test_grid_without_cells_leaves_what_an_output_starts_as():
    np.testing.assert_array_equal(run(grid=0, input_output_aliases={0: 0}), x8)


def test_grid_of_a_float_is_named():
    refused(ArgumentTypeError, "a size of the grid is 2.0", "cdiv", grid=(8 / 4,))


@pytest.mark.parametrize("body", [lambda x_ref: None, lambda x_ref, o_ref, s_ref: None])
def test_body_takes_a_ref_for_each(body):
    refused(KernelBodyError, "kernel body", "1 operand, 1 output and 0 scratch", "argument", body=body, name="body")


def test_body_returns_a_traced_array():
    refused(KernelBodyError, "returns a value of type f32[4]", body=lambda x_ref, o_ref: x_ref[...])


@pytest.mark.parametrize("use", [
    lambda sem: sem.__setitem__(..., 1), lambda sem: sem[...], lambda sem: tl.addupdate(sem, ..., 1)
])  # fmt: skip
def test_semaphores_are_no_arrays(use):
    def body(x_ref, o_ref, sem):
        o_ref[...] = x_ref[...]
        use(sem)

    refused(KernelBodyError, "kernel body", "semaphore", "semaphore_read", body=body,
            scratch_shapes=[tl.SemaphoreType.REGULAR])  # fmt: skip


def test_blocks_that_no_cell_writes():
    def body(x_ref, o_ref):
        @tl.when(tl.program_id(0) == 1)
        def _():
            o_ref[...] = x_ref[...]

    refused(UncoveredOutputError, "kernel body", "1 of the 2 blocks", "o_ref", "in the other cells", body=body)


# ---------------------------------------------------------------------------- writes to operands


def doubled_in_place(x_ref, o_ref):
    x_ref[...] = x_ref[...] * 2
    o_ref[...] = x_ref[...]


def added_in_place(x_ref, o_ref):
    x_ref[0] += 1
    o_ref[...] = x_ref[...]


def exchanged(x_ref, o_ref):
    o_ref[...] = tl.swap(x_ref, ..., o_ref.shape[0] * tnp.ones(o_ref.shape, F32))


def updated(x_ref, o_ref):
    tl.atomic_add(x_ref, 0, F32(1))
    o_ref[...] = x_ref[...]


def in_a_branch(x_ref, o_ref):
    tl.when(tl.program_id(0) == 0)(lambda: doubled_in_place(x_ref, o_ref))
    o_ref[...] = x_ref[...]


@pytest.mark.parametrize("body", [doubled_in_place, added_in_place, exchanged, updated, in_a_branch])
@pytest.mark.parametrize("interpret", [False, True])
def test_a_body_writes_to_no_operand(body, interpret):
    refused(
        InputWriteError, f"kernel {body.__name__}: its body writes to x_ref of f32[8]", "input_output_aliases",
        "store to scratch", body=body, interpret=interpret,
    )  # fmt: skip


@pytest.mark.parametrize("target", ["cuda:sm_90", "tpu:v5e"])
def test_a_body_writes_to_no_operand_on_any_target(target):
    with pytest.raises(InputWriteError):
        tw.compile(lambda x: run(doubled_in_place, args=(x,)), x8, target=target)


def test_an_aliased_operand_is_written_through_its_output():
    refused(
        InputWriteError, "writes to x_ref of f32[8]", "store to o_ref, the output that it is aliased to",
        body=doubled_in_place, input_output_aliases={0: 0},
    )  # fmt: skip

    def body(x_ref, o_ref):
        o_ref[...] *= 2

    np.testing.assert_array_equal(run(body, input_output_aliases={0: 0}), 2 * x8)


def test_a_body_writes_to_no_prefetched_operand_that_places_blocks():
    def body(n_ref, x_ref, o_ref):
        n_ref[0] = 1
        o_ref[...] = x_ref[...]

    grid = tl.PrefetchScalarGridSpec(1, grid=2, in_specs=[tl.BlockSpec((4,), lambda i, n: (n[i],))],
                                     out_specs=tl.BlockSpec((4,), lambda i, n: (i,)))  # fmt: skip
    with pytest.raises(InputWriteError, match=r"writes to prefetched operand 0 of i32\[2\]"):
        tl.kernel_call(body, SHAPE, grid_spec=grid)(np.zeros(2, np.int32), x8)


# ---------------------------------------------------------------------------- what newcomers write


def test_a_misspelt_argument_is_told_what_it_is_like():
    refused(ArgumentError, "['interpet']", "write interpret=...", interpet=True)
    refused(ArgumentError, "['scratch_shape']", "write scratch_shapes=...", scratch_shape=[])


def test_a_shape_is_no_result_and_a_grid_is_wanted():
    refused(ArgumentTypeError, "out_shape is (8,), a shape without a dtype", "ShapeDtypeStruct((8,), dtype)",
            out_shape=(8,))  # fmt: skip
    refused(BlockRankError, "the grid is ()", "say how many cells there are, `grid=...`", grid=None)


def test_prefetched_operands_are_counted_apart():
    grid = tl.PrefetchScalarGridSpec(2, (2,), [SPEC], SPEC)
    with pytest.raises(TreeError, match="in_specs are 1, the operands after the 2 prefetched are 0"):
        tl.kernel_call(double, SHAPE, grid_spec=grid)(np.zeros(2, np.int32), x8)


def test_an_axis_that_was_summed_over_is_wanted_back():
    def centred(x_ref, o_ref):
        o_ref[...] = x_ref[...] - x_ref[...].mean(axis=1)

    with pytest.raises(ShapeError, match="keepdims=True"):
        tl.kernel_call(centred, tw.ShapeDtypeStruct((8, 4), F32))(np.ones((8, 4), F32))


def test_the_axis_is_named_along_which_padding_comes_out():
    """Both end within a block; the rows of the cell that shows it do not."""

    def rows(x_ref, o_ref):
        o_ref[...] = x_ref[...] / x_ref[...].sum(axis=1, keepdims=True)

    block = tl.BlockSpec((8, 128), lambda i: (i, 0))
    with pytest.raises(PaddingError, match=r"along axis 1, .* in cell \(0,\)") as caught:
        tl.kernel_call(rows, tw.ShapeDtypeStruct((30, 100), F32), grid=4, in_specs=[block], out_specs=block)(
            np.ones((30, 100), F32))  # fmt: skip
    assert "where(place < 100, x, 0)" in caught.value.remedy


@pytest.mark.parametrize(("step", "missing"), [(4, None), (2, "(6,)"), (1, "(5,)"), (8, "")])
def test_blocks_that_begin_at_any_element_are_to_be_all_of_an_output(step, missing):
    windows = tl.BlockSpec((tl.Element(4),), lambda i: (i * step,))
    if missing is None:
        np.testing.assert_array_equal(run(out_specs=windows), 2 * x8)
        return
    with pytest.raises(KernelError) as caught:
        run(out_specs=windows)
    if step == 8:
        assert isinstance(caught.value, OutOfBoundsError)
    else:
        assert f"holds element {missing} of" in str(caught.value)


# ---------------------------------------------------------------------------- misspelt options


@pytest.mark.parametrize("access, known", [
    (lambda x, o: tl.load(x, ..., maks=x[...] > 0, othre=0), "load got the options maks, othre"),
    (lambda x, o: tl.store(o, ..., x[...], maks=x[...] > 0), "store got the option maks"),
    (lambda x, o: tl.swap(o, ..., x[...], msk=None), "swap got the option msk"),
])  # fmt: skip
def test_misspelt_options_of_accesses_are_refused(access, known):
    refused(ArgumentTypeError, known, "its options are", "eviction_policy, mask", body=access)


@pytest.mark.parametrize("method", ["get", "set", "add", "multiply", "divide", "power", "min", "max", "apply"])
def test_misspelt_options_of_at_are_refused(method):
    given = [] if method == "get" else [tnp.sin if method == "apply" else 1.0]
    with pytest.raises(ArgumentTypeError, match=rf"x.at\[...\].{method} got the option mod, .*\n?.*"):
        getattr(tnp.asarray(x8).at[0], method)(*given, mod="drop")


@pytest.mark.parametrize("fill", ["zero", [0.0], np.zeros(2)])
def test_a_fill_is_a_number(fill):
    with pytest.raises(ArgumentTypeError, match="BlockSpec: fill is .*\n.*\n.*give a number"):
        tl.BlockSpec((4,), lambda i: (i,), fill=fill)
    np.testing.assert_array_equal(run(in_specs=[tl.BlockSpec((4,), lambda i: (i,), fill=np.float32(1))]), 2 * x8)


def test_grids_of_no_cells_and_of_more_than_a_word_counts():
    def double(x, o):
        o[...] = x[...] * 2

    x, out = np.ones((8, 24), F32), tw.ShapeDtypeStruct((8, 24), F32)
    aligned = tl.BlockSpec((4, 8), lambda i, j: (i, j))
    divided = tl.BlockSpec((4, 8), lambda i, j: (i // 0, j))  # no cell computes it
    call = tl.kernel_call(double, out_shape=out, grid=(0, 3), in_specs=[divided], out_specs=aligned,
                          input_output_aliases={0: 0})  # fmt: skip
    np.testing.assert_array_equal(call(x), x)
    rows = tl.BlockSpec((4, 8), lambda i: (i, 0))
    with pytest.raises(OutOfBoundsError, match="but the operand has 8"):
        tl.kernel_call(double, out_shape=out, grid=2**70, in_specs=[rows], out_specs=tl.BlockSpec((4, 8), None))(x)
