"""Kernels written for warpgroups: values, what the interpreter finds and names, what is refused and where."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu import warpgroup_kernels as kernels
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    ArgumentTypeError,
    DeadlockError,
    DifferentiationError,
    DtypeError,
    InputWriteError,
    KernelBodyError,
    NotAdaptedNameError,
    OutOfBoundsError,
    RaceError,
    ResourceError,
    SemaphoreError,
    ShapeError,
    UncoveredOutputError,
    UnsupportedError,
)
from tilewright.lang import mosaic_gpu as plgpu

RNG = np.random.default_rng(0)
A, B = RNG.standard_normal((128, 256)).astype("float16"), RNG.standard_normal((256, 128)).astype("float16")
PRODUCTS = (
    kernels.double_buffered, kernels.pipelined, kernels.specialised, kernels.persistent, kernels.blackwell,
    kernels.by_warps,
)  # fmt: skip
MODES = (True, tl.InterpretParams(random_seed=3))
SHAPE = tw.ShapeDtypeStruct((4,), "float32")


@pytest.mark.parametrize("mode", MODES, ids=["in turn", "in a random order"])
@pytest.mark.parametrize("kernel", PRODUCTS, ids=lambda k: k.__name__)
def test_products(kernel, mode):
    found = np.asarray(kernel(A, B, interpret=mode))
    assert found.dtype == np.float16
    np.testing.assert_allclose(found.astype("f"), A.astype("f") @ B.astype("f"), rtol=2e-3, atol=2e-2)


def test_attention():
    q, k, v = (RNG.standard_normal((2, 128, 64)).astype("float16") for _ in range(3))
    scores = np.einsum("hqd,hkd->hqk", q.astype("f"), k.astype("f")) / 8
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (weights / weights.sum(-1, keepdims=True)) @ v.astype("f")
    found = np.asarray(kernels.attention(q, k, v, interpret=True)).astype("f")
    np.testing.assert_allclose(found, expected, rtol=2e-2, atol=2e-3)


def test_it_runs_within_jit():
    f = tw.jit(lambda a, b: kernels.double_buffered(a, b, interpret=True) * 2)
    np.testing.assert_array_equal(np.asarray(f(A, B)), 2 * np.asarray(kernels.double_buffered(A, B, interpret=True)))


# ---------------------------------------------------------------------------- mistakes

WRONG = [
    (kernels.double_buffered, "no wait", RaceError, "of a_tiles, which a copy counted at full.0. writes"),
    (kernels.double_buffered, "one wait too many", DeadlockError, "phase 1 of full.0.; 1 are over, .* 0 of 2"),
    (kernels.double_buffered, "overwritten early", RaceError, "which a product of warpgroup 0 reads.*wgmma_wait"),
    (kernels.double_buffered, "no commit", RaceError, "not made known to copies and products.*commit_smem"),
    (kernels.double_buffered, "no wait for the store", SemaphoreError, "may still read shared memory"),
    (kernels.blackwell, "no wait for the product", RaceError, "writes element .* of a_tiles"),
    (kernels.blackwell, "no arrival", DeadlockError, "warpgroup 2 .wg=2.*waits for phase 0 of made; .* 0 of 1"),
    (kernels.by_warps, "no wait for the product", RaceError, "warp 0 of warpgroup 0.*writes element .* of a_tiles"),
    (kernels.by_warps, "no arrival", DeadlockError, "warpgroup 1 .wg=1.*waits for phase 0 of made; .* 0 of 1"),
    (kernels.blackwell, "no wait for the sum", RaceError, "a load from TMEM of warpgroup 2.* sums|sums, which a load"),
]


@pytest.mark.parametrize("mode", MODES, ids=["in turn", "in a random order"])
@pytest.mark.parametrize("kernel, wrong, error, words", WRONG, ids=[w[1] for w in WRONG])
def test_what_goes_wrong_is_named(kernel, wrong, error, words, mode):
    with pytest.raises(error, match="(?s)" + words) as found:
        kernel(A, B, wrong=wrong, interpret=mode)
    assert "warpgroup_kernels.py:" in str(found.value) and "remedy:" in str(found.value)


def run(body, scratch=(), threads=2, out=(4,), given=(), **options):
    """A kernel of some warpgroups along `wg`, on operands of four float32."""
    options = {"interpret": True, "num_threads": threads, "thread_name": "wg"} | options
    call = plgpu.kernel(body, out_type=tw.ShapeDtypeStruct(out, "float32"), scratch_types=scratch, **options)
    return np.asarray(call(*given))


def by(number):
    return tl.when(lax.axis_index("wg") == number)


TILE = plgpu.SMEM((4,), "float32")


def test_warps_that_nothing_orders():
    def body(o, tile):
        @plgpu.warp_map
        def _(warp):
            tile[tl.ds(warp // 2 * 2, 2)] = tnp.full((2,), 1.0)

        o[...] = tile[...]

    with pytest.raises(RaceError, match="warp 1 of warpgroup 0.*which warp 0 of warpgroup 0.*writes"):
        run(body, [TILE], threads=1)
    with pytest.raises(ArgumentTypeError, match="gives"):
        run(lambda o: plgpu.warp_map(lambda warp: warp), threads=1)


def handed(arrive=True, wait=True, again=False, back=True):
    """Warpgroup 0 fills a tile, warpgroup 1 adds up what it finds there, three times."""

    def body(o, tile, filled, used):
        @by(0)
        def _():
            for turn in range(3):
                if turn and back:
                    plgpu.barrier_wait(used)
                tile[...] = np.full(4, turn, np.float32)
                if arrive:
                    plgpu.barrier_arrive(filled)
                if again:
                    plgpu.barrier_arrive(filled)

        @by(1)
        def _():
            o[...] = np.zeros(4, np.float32)
            for turn in range(3):
                if wait:
                    plgpu.barrier_wait(filled)
                o[...] += tile[...]
                if turn < 2:
                    plgpu.barrier_arrive(used)

    return run(body, [TILE, plgpu.Barrier(), plgpu.Barrier()])


def test_a_tile_is_handed_to_and_fro():
    np.testing.assert_array_equal(handed(), np.full(4, 3, "f"))


@pytest.mark.parametrize("options, error, words", [
    ({"arrive": False}, DeadlockError, "warpgroup 1 .* waits for phase 0 of filled"),
    ({"wait": False}, RaceError, "reads element .0,. of tile, which warpgroup 0 .wg=0. writes"),
    ({"back": False}, RaceError, "writes element|may still wait for phase|waits for phase 0 of filled, which"),
    ({"again": True}, RaceError, "ends phase 1 of filled, while warpgroup 1|waits for phase 0 of filled, which is at"),
], ids=lambda x: "" if isinstance(x, type | str) else " ".join(x))  # fmt: skip
def test_mistakes_in_handing(options, error, words):
    with pytest.raises(error, match="(?s)" + words) as found:
        handed(**options)
    assert "test_warpgroups.py:" in str(found.value)


def test_a_barrier_that_is_a_phase_further():
    """Warpgroup 1 is not known to have seen the end of phase 0 when phase 1 ends, whatever the order of turns."""

    def body(o, first, second):
        @by(0)
        def _():
            plgpu.barrier_arrive(first)
            plgpu.barrier_wait(second)
            plgpu.barrier_arrive(first)
            o[...] = np.zeros(4, np.float32)

        @by(1)
        def _():
            plgpu.barrier_arrive(second)
            plgpu.barrier_wait(first)

    for mode in MODES:
        with pytest.raises(RaceError, match="phase 0 of first|while warpgroup 1 .* may still wait for phase 0"):
            run(body, [plgpu.Barrier(), plgpu.Barrier()], interpret=mode)


def test_a_copy_that_nothing_waits_for():
    def body(x, o, tile, arrived):
        plgpu.copy_gmem_to_smem(x, tile, arrived)
        o[...] = np.zeros(4, np.float32)

    with pytest.raises(SemaphoreError, match="a copy counted at arrived is under way that nothing waited for"):
        run(body, [TILE, plgpu.Barrier()], threads=1, given=[np.ones(4, "f")])


def test_blocks_that_write_one_place():
    def body(o):
        o[...] = np.zeros(4, np.float32)

    with pytest.raises(RaceError, match="writes element .0,. of o, which block .0,. writes, and nothing orders blocks"):
        run(body, threads=1, grid=(2,), grid_names=("i",))


def test_places_that_no_block_writes():
    def body(o):
        o[0] = np.float32(1)

    with pytest.raises(UncoveredOutputError, match="no block writes element .1,. of output o .3 of 4"):
        run(body, threads=1)


def test_past_the_ends_of_global_memory_are_zeros():
    def body(x, o, tile, arrived):
        start = lax.axis_index("i") * 3
        plgpu.copy_gmem_to_smem(x.at[tl.ds(start, 3)], tile, arrived)
        plgpu.barrier_wait(arrived)
        o[lax.axis_index("i"), :] = tile[...]

    found = run(body, [plgpu.SMEM((3,), "float32"), plgpu.Barrier()], threads=1, out=(2, 3), grid=(2,),
                grid_names=("i",), given=[np.arange(1, 5, dtype="f")])  # fmt: skip
    np.testing.assert_array_equal(found, [[1, 2, 3], [4, 0, 0]])


def test_past_the_end_of_shared_memory():
    def body(x, o, tile, arrived):
        plgpu.copy_gmem_to_smem(x.at[tl.ds(0, 2)], tile.at[tl.ds(lax.axis_index("i") + 3, 2)], arrived)

    with pytest.raises(OutOfBoundsError, match="the destination of a copy .* of tile, .* is past its end"):
        run(body, [TILE, plgpu.Barrier()], threads=1, grid=(1,), grid_names=("i",), given=[np.ones(4, "f")])


def test_results_combined_with_what_is_there():
    def body(x, o, tile):
        tile[...] = x[...]
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(tile, o)
        plgpu.copy_smem_to_gmem(tile, o, reduction_op="add")
        plgpu.wait_smem_to_gmem(0)

    np.testing.assert_array_equal(run(body, [TILE], threads=1, given=[np.ones(4, "f")]), np.full(4, 2, "f"))


# ---------------------------------------------------------------------------- pipelines and loops


def test_results_that_move_and_results_that_stay():
    x = RNG.standard_normal((4, 8)).astype("f")

    def body(x, o, total):
        def step(indices, x, o, total):
            o[...] = x[...] * 2

            @tl.when(indices[0] == 0)
            def _():
                total[...] = np.zeros(8, np.float32)

            total[...] += x[...]

        row, all_ = plgpu.BlockSpec((None, 8), lambda i: (i, 0)), plgpu.BlockSpec((8,), lambda i: (0,))
        plgpu.emit_pipeline(step, grid=(4,), in_specs=[row], out_specs=[row, all_], max_concurrent_steps=2)(x, o, total)

    outs = [tw.ShapeDtypeStruct((4, 8), "float32"), tw.ShapeDtypeStruct((8,), "float32")]
    doubled, total = plgpu.kernel(body, out_type=outs, interpret=True)(x)
    np.testing.assert_array_equal(np.asarray(doubled), 2 * x)
    np.testing.assert_allclose(np.asarray(total), x.sum(0), rtol=1e-6)


@pytest.mark.parametrize("manual, delay", [(False, 0), (True, 0), (True, 1)])
@pytest.mark.parametrize("mode", MODES, ids=["in turn", "in a random order"])
def test_a_pipeline_that_is_run_twice(mode, manual, delay):
    x = RNG.standard_normal((5, 8)).astype("f")

    def body(x, o):
        def step(ids, x, o, *told):
            mine = tl.ds(lax.axis_index("wg") * 4, 4)
            if manual:
                plgpu.barrier_wait(told[0])
            o[mine] = x[mine] + 1
            if manual:  # of the step before, with a delay
                plgpu.barrier_arrive(told[1], predicate=ids[0] >= delay)

        row = plgpu.BlockSpec((None, 8), lambda i: (i, 0), delay_release=delay)
        run = plgpu.emit_pipeline_warp_specialized(
            step, grid=(5,), memory_registers=40, in_specs=[row], out_specs=[row], wg_axis="wg", num_compute_wgs=2,
            manual_produced_barriers=manual, manual_consumed_barriers=manual,
        )  # fmt: skip
        run(x, o.at[0])
        run(x, o.at[1])

    found = run(body, threads=3, out=(2, 5, 8), given=[x], interpret=mode)
    np.testing.assert_array_equal(found, np.stack([x + 1, x + 1]))


@pytest.mark.parametrize("traced", [False, True])
def test_a_loop_divided_among_blocks(traced):
    def body(x, o):
        @plgpu.nd_loop((x[0].astype("int32") if traced else 2, 4), collective_axes="sm", tiling=(1, 2))
        def _(info):
            o[info.index] = (lax.axis_index("sm") * 10 + info.local_index).astype("float32")

    found = run(body, threads=1, out=(2, 4), grid=(3,), grid_names=("sm",), given=[np.full(4, 2, "f")])
    np.testing.assert_array_equal(found, [[0, 10, 20, 1], [11, 21, 2, 12]])


def test_blocks_that_are_handed_out():
    def body(o):
        @plgpu.dynamic_scheduling_loop(("i", "j"))
        def _(info):
            o[info.index] = (info.index[0] * 10 + info.index[1]).astype("float32")

    found = run(body, threads=1, out=(2, 3), grid=(2, 3), grid_names=("i", "j"))
    np.testing.assert_array_equal(found, [[0, 1, 2], [10, 11, 12]])


def test_there_and_back():
    turns = [tuple(map(int, plgpu.planar_snake(np.int32(i), (5, 3), 0, 2))) for i in range(15)]
    assert turns[:7] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2)]
    assert turns[-3:] == [(4, 0), (4, 1), (4, 2)]
    assert [plgpu.planar_snake(np.int32(i), (3, 5), 1, 2)[::-1] for i in range(15)] == turns


# ---------------------------------------------------------------------------- what is refused


def test_elsewhere_it_is_refused_by_name():
    def f(a, b):
        return kernels.double_buffered(a, b)

    with pytest.raises(UnsupportedError, match="written for the warpgroups .*XLA.*\n.*\n.*interpret"):
        f(A, B)
    types = [tw.ShapeDtypeStruct(x.shape, x.dtype) for x in (A, B)]
    for target in ("tpu:v5e", "rocm:gfx942", "cuda:sm_80"):
        with pytest.raises(UnsupportedError, match=f"written for the warpgroups .*{target}"):
            tw.compile(f, *types, target=target, stop="emit")
    with pytest.raises(UnsupportedError, match="wgmma: cuda:sm_100 has no"):
        tw.compile(f, *types, target="cuda:sm_100", stop="emit")
    with pytest.raises(UnsupportedError, match="tcgen05_mma: cuda:sm_90 has no tensor memory"):
        tw.compile(kernels.blackwell, *types, target="cuda:sm_90", stop="emit")
    types = [tw.ShapeDtypeStruct((2048, 2048), "float16")] * 2
    with pytest.raises(ResourceError, match="SMEM takes .* KiB; a block on cuda:sm_90 has 227"):
        tw.compile(lambda a, b: kernels.double_buffered(a, b, stages=20), *types, target="cuda:sm_90", stop="emit")


def test_what_is_told_of_them():
    types = [tw.ShapeDtypeStruct(x.shape, x.dtype) for x in (A, B)]
    report = tw.explain(kernels.double_buffered, *types, target="cuda:sm_90")
    (one,) = report.kernels
    assert one.flops >= 2 * 128 * 128 * 256 and one.bytes_moved == sum(x.nbytes for x in (A, B)) + 128 * 128 * 2
    assert "kernel matmul: 4 cells" in str(report)


def test_derivatives_and_batches_are_refused_by_name():
    f = lambda a: kernels.double_buffered(a, B, interpret=True).sum()  # noqa: E731
    for transform in (tw.grad, lambda f: lambda a: tw.jvp(f, (a,), (a,))):
        with pytest.raises(DifferentiationError, match="written for warpgroups"):
            transform(f)(A)
    with pytest.raises(UnsupportedError, match="written for warpgroups, and is batched"):
        tw.vmap(f)(np.stack([A, A]))


MISTAKES = [
    (lambda x, o, t, b: plgpu.copy_gmem_to_smem(t, x, b), KernelBodyError, "the source is a Ref in SMEM"),
    (lambda x, o, t, b: plgpu.copy_gmem_to_smem(x.at[tl.ds(0, 2)], t, b), ShapeError, "of f32.2. to f32.4."),
    (lambda x, o, t, b: plgpu.copy_gmem_to_smem(x, t, t), KernelBodyError, "the barrier is a Ref in SMEM"),
    (lambda x, o, t, b: plgpu.copy_gmem_to_smem(x, t), ArgumentError, "without a barrier"),
    (lambda x, o, t, b: plgpu.wgmma(t, t, t), KernelBodyError, "acc is a Ref in SMEM"),
    (lambda x, o, t, b: plgpu.tcgen05_commit_arrive(b), KernelBodyError, "does not order the tensor cores"),
    (lambda x, o, t, b: plgpu.set_max_registers(41, action="increase"), ArgumentError, "n is 41"),
    (lambda x, o, t, b: plgpu.wait_smem_to_gmem(-1), ArgumentError, "n is -1"),
    (lambda x, o, t, b: x.__setitem__(..., t[...]), InputWriteError, "writes operand x"),
    (lambda x, o, t, b: tl.run_scoped(lambda u: None, TILE), KernelBodyError, "collective_axes='wg'"),
    (lambda x, o, t, b: tl.run_scoped(lambda u: None, tl.VMEM((4,), "float32"), collective_axes="wg"), KernelBodyError,
     "is in vmem"),
    (lambda x, o, t, b: tl.sync_copy(x, tl.make_async_copy(x, t, b).start()), KernelBodyError, "dma_start"),
]  # fmt: skip


@pytest.mark.parametrize("body, error, words", MISTAKES[:-1], ids=[m[2] for m in MISTAKES[:-1]])
def test_misuse_is_named_while_it_is_traced(body, error, words):
    def within(x, o, tile, barrier):
        body(x, o, tile, barrier)

    with pytest.raises(error, match=words):
        run(within, [TILE, plgpu.Barrier()], given=[np.ones(4, "f")])


def test_sizes_that_the_tensor_cores_do_not_take():
    small = np.ones((128, 128), "float16")
    with pytest.raises(ShapeError, match="m is a multiple of 64"):
        kernels.double_buffered(small, small, tile=(32, 64, 64), interpret=True)
    with pytest.raises(DtypeError, match="the operands' dtypes"):
        kernels.double_buffered(small.astype("int8"), small.astype("int8"), interpret=True)


def test_operations_of_warpgroups_in_other_kernels():
    with pytest.raises(KernelBodyError, match="wgmma_wait in a kernel that is not written for warpgroups"):
        tl.kernel_call(lambda x, o: plgpu.wgmma_wait(0), SHAPE)(np.ones(4, "f"))


def test_warpgroups_add_to_one_place():
    def body(o, tile, told):
        def together():
            plgpu.barrier_arrive(told)
            plgpu.barrier_wait(told)

        @by(0)
        def _():
            tile[...] = np.ones(4, np.float32)

        together()
        plgpu.atomic_add(tile.at[tl.ds(0, 2)], np.full(2, 3, np.float32))
        together()

        @by(0)
        def _():
            o[...] = tile[...]

    np.testing.assert_array_equal(run(body, [TILE, plgpu.Barrier(num_arrivals=2)]), [7, 7, 1, 1])


def test_a_part_of_barriers_may_be_one():
    def body(o, told):
        plgpu.barrier_arrive(told.at[2:4].at[1:2])
        plgpu.barrier_wait(told.at[3])
        o[...] = np.ones(4, np.float32)

    bars = [plgpu.Barrier(num_barriers=4)]
    np.testing.assert_array_equal(run(body, bars, threads=1), np.ones(4))
    with pytest.raises(ShapeError, match=r"is given \(2,\) barriers"):
        run(lambda o, told: plgpu.barrier_arrive(told.at[2:4]), bars)


@pytest.mark.parametrize("name, words", [
    ("inline_mgpu", "is of a compiler that is not used"), ("semaphore_signal", "let .* meet at a Barrier"),
    ("try_cluster_cancel", "nd_loop"), ("multimem_store", "psum"), ("mma", "before Hopper"),
])  # fmt: skip
def test_names_that_are_not_here_say_why(name, words):
    with pytest.raises(NotAdaptedNameError, match="(?s)" + words):
        getattr(plgpu, name)
    assert not hasattr(plgpu, "no_such_name")


@pytest.mark.parametrize("options, error", [
    ({"grid": (2,)}, ArgumentError), ({"num_threads": 2}, ArgumentError),
    ({"num_threads": 9, "thread_name": "wg"}, ArgumentError),
    ({"cluster": (2,)}, ArgumentError),
], ids=str)  # fmt: skip
def test_meshes_that_are_none(options, error):
    with pytest.raises(error):
        plgpu.kernel(lambda o: None, out_type=SHAPE, **options)
