"""Kernels written for warpgroups, as they are printed: values by the walker, mistakes in the text, what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu import warpgroup_kernels as kernels
from tests.support.gpu.mosaic_gpu import floats, printed
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import DeadlockError, EmulationError, RaceError, ResourceError, UnsupportedError
from tilewright.emulator.calls import run_mosaic_gpu
from tilewright.lang import mosaic_gpu as plgpu
from tilewright.mosaic_gpu import compiler


@pytest.mark.law
@pytest.mark.parametrize("kernel, rows, target", [
    (kernels.double_buffered, 64, "cuda:sm_90"), (kernels.pipelined, 64, "cuda:sm_90"),
    (kernels.specialised, 128, "cuda:sm_90"), (kernels.persistent, 64, "cuda:sm_90"),
    (kernels.blackwell, 128, "cuda:sm_100"), (kernels.by_warps, 128, "cuda:sm_100"),
], ids=["double buffered", "pipelined", "specialised", "persistent", "blackwell", "by warps"])  # fmt: skip
def test_products(kernel, rows, target):
    a, b = floats(rows, 256), floats(256, 128)
    found = tw.emulate(kernel, a, b, target=target)
    interpreted = np.asarray(kernel(a, b, interpret=True)).astype("f")
    np.testing.assert_allclose(found.astype("f"), interpreted, rtol=2e-3, atol=2e-2)
    np.testing.assert_allclose(found.astype("f"), a.astype("f") @ b.astype("f"), rtol=2e-3, atol=2e-2)


def test_products_of_bfloat16():
    a, b = floats(64, 128, dtype="bfloat16"), floats(128, 64, dtype="bfloat16")
    found = tw.emulate(kernels.double_buffered, a, b, target="cuda:sm_90")
    np.testing.assert_allclose(found.astype("f"), a.astype("f") @ b.astype("f"), rtol=2e-2, atol=2e-1)


def test_attention():
    q, k, v = floats(1, 64, 64), floats(1, 128, 64), floats(1, 128, 64)
    found = tw.emulate(kernels.attention, q, k, v, target="cuda:sm_90")
    interpreted = np.asarray(kernels.attention(q, k, v, interpret=True)).astype("f")
    np.testing.assert_allclose(found.astype("f"), interpreted, rtol=2e-3, atol=2e-3)


# ---------------------------------------------------------------------------- registers, shared and global memory

OUT = tw.ShapeDtypeStruct((64, 64), "float32")
TILE = plgpu.SMEM((64, 64), "float32")


def run(body, *args, out=OUT, scratch=(), **options):
    def f(*args, interpret=False):
        return plgpu.kernel(body, out_type=out, scratch_types=scratch, interpret=interpret, **options)(*args)

    found = tw.emulate(f, *args, target=options.pop("target", "cuda:sm_90"))
    expected = np.asarray(f(*args, interpret=True))
    np.testing.assert_allclose(found.astype("f"), expected.astype("f"), rtol=1e-5, atol=1e-5)
    return found


def test_values_go_through_registers_and_shared_memory():
    def body(x, o, tile, arrived):
        plgpu.copy_gmem_to_smem(x, tile, arrived)
        plgpu.barrier_wait(arrived)
        value = tile[...]
        value = tnp.exp(value - tnp.max(value, axis=1, keepdims=True)) / 2
        tile[...] = value + tnp.sum(value, axis=0)[None, :]
        o[...] = tile[...] * 3

    run(body, floats(64, 64, dtype="float32"), scratch=[TILE, plgpu.Barrier()])


@pytest.mark.parametrize("n, target", [(64, "cuda:sm_90"), (128, "cuda:sm_100")])
def test_a_vector_is_along_rows_and_along_columns(n, target):
    def body(x, v, o, line, tile, *sums):
        line[...], tile[...] = v[...], x[...]
        value, each = tile[...], line[...]
        o[...] = value * each[None, :] + each[:, None] * (each + 1)[None, :]

    sums = [plgpu.TMEM((128, 64), "float32")] if n == 128 else []
    run(body, floats(n, n, dtype="float32"), floats(n, dtype="float32"), out=tw.ShapeDtypeStruct((n, n), "float32"),
        scratch=[plgpu.SMEM((n,), "float32"), plgpu.SMEM((n, n), "float32"), *sums], target=target)  # fmt: skip


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_100"])
def test_a_barrier_is_used_again_when_all_warps_have_passed_it(target):
    def body(x, o, tile, arrived, *sums):
        for n in range(4):
            plgpu.copy_gmem_to_smem(x.at[n], tile, arrived)
            plgpu.barrier_wait(arrived)
        o[...] = tile[...]

    sums = [plgpu.TMEM((128, 64), "float32")] if target == "cuda:sm_100" else []  # where warps go their own ways
    x = floats(4, 128, 64, dtype="float32")
    run(body, x, out=tw.ShapeDtypeStruct((128, 64), "float32"), target=target,
        scratch=[plgpu.SMEM((128, 64), "float32"), plgpu.Barrier(), *sums])  # fmt: skip


def test_branches_give_values():
    def body(x, n, o, tile):
        tile[...] = x[...]
        which = n[lax.axis_index("i")]
        value, scale = lax.cond(which > 1, lambda v: (v * 2, 3.0), lambda v: (v, -1.0), tile[...])
        value = lax.switch(which, [lambda v: v, lambda v: v + 1, lambda v: tile[...] * 5, tnp.exp], value)
        o[lax.axis_index("i")] = value * scale

    run(body, floats(64, 64, dtype="float32"), np.arange(4, dtype=np.int32), scratch=[TILE],
        out=tw.ShapeDtypeStruct((4, 64, 64), "float32"), grid=(4,), grid_names=("i",))  # fmt: skip


@pytest.mark.parametrize("rows", [64, 128])
def test_matrices_of_other_rows_beside_each_other(rows):
    def body(x, o, tile):
        tile[...] = x[...]
        value = tnp.concatenate([tile[...], tile[...] * 2], axis=1)
        o[...] = value + value.sum(axis=1, keepdims=True) - value.max(axis=0)[None, :]

    x = floats(rows, 64, dtype="float32").round()
    run(body, x, out=tw.ShapeDtypeStruct((rows, 128), "float32"), scratch=[plgpu.SMEM((rows, 64), "float32")])


def test_two_warpgroups_hand_rows_to_each_other():
    def body(x, o, tile, told):
        wg = lax.axis_index("wg")
        mine, other = tl.ds(wg * 64, 64), tl.ds((1 - wg) * 64, 64)
        tile[mine, :] = x[mine, :] + 1
        plgpu.barrier_arrive(told)
        plgpu.barrier_wait(told)
        o[other, :] = tile[other, :] * 2

    x = floats(128, 32, dtype="float32")
    found = run(body, x, out=tw.ShapeDtypeStruct(x.shape, "float32"), num_threads=2, thread_name="wg",
                scratch=[plgpu.SMEM((128, 32), "float32"), plgpu.Barrier(num_arrivals=2)])  # fmt: skip
    np.testing.assert_array_equal(found, (x + 1) * 2)


def test_parts_of_values_in_registers():
    def body(x, o, tile):
        tile[...] = x[...]
        value = tile[...].astype("float16") + tile[:, 32:40].astype("float16").sum(axis=1, keepdims=True)
        o[:, 0:32] = value[:, 32:64].astype("float32")
        o[:, 32:64] = tile[...][:, 8:40] * 2

    run(body, floats(64, 64, dtype="float32").round(), scratch=[TILE])


def test_rows_and_narrow_matrices_are_copied():
    def body(x, y, o, p, row, narrow, arrived):
        i = lax.axis_index("i")
        plgpu.copy_gmem_to_smem(x.at[i], row.at[1], arrived)
        plgpu.copy_gmem_to_smem(y.at[tl.ds(i * 64, 64)], narrow, arrived)
        plgpu.barrier_wait(arrived)
        row[0, :] = row[1, :] + 1
        narrow[...] = narrow[...] * 2
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(row.at[0], o.at[i])
        plgpu.copy_smem_to_gmem(narrow, p.at[tl.ds(i * 64, 64)])
        plgpu.wait_smem_to_gmem(0)

    x, y = floats(2, 512, dtype="float32"), floats(96, 8, dtype="float32")  # the last rows are past the end
    outs = [tw.ShapeDtypeStruct(a.shape, "float32") for a in (x, y)]
    scratch = [plgpu.SMEM((2, 512), "float32"), plgpu.SMEM((64, 8), "float32"), plgpu.Barrier(num_arrivals=2)]

    def f(x, y):
        return plgpu.kernel(body, out_type=outs, scratch_types=scratch, grid=(2,), grid_names=("i",))(x, y)

    one, two = tw.emulate(f, x, y, target="cuda:sm_90")
    np.testing.assert_array_equal(one, x + 1)
    np.testing.assert_array_equal(two, y * 2)


def test_rows_are_copied_from_anywhere():
    def body(start, x, o, tile):
        first = start[0]
        tile[...] = x[...] + 1
        o[...] = x[...]
        plgpu.commit_smem()
        for rows in (4, 1):
            plgpu.copy_smem_to_gmem(tile.at[tl.ds(first, rows)], o.at[tl.ds(first + 1, rows)])
            plgpu.wait_smem_to_gmem(0)
            first = first + rows

    x = floats(64, 64, dtype="float32")
    found = run(body, np.array([3], np.int32), x, scratch=[TILE])
    np.testing.assert_array_equal(found[4:9], x[3:8] + 1)
    np.testing.assert_array_equal(found[9:], x[9:])


@pytest.mark.parametrize("how, dtype", [("add", "float32"), ("max", "int32"), ("xor", "int32")])
def test_copies_are_combined_with_what_is_there(how, dtype):
    def body(x, o, tile):
        for value, reduction in ((x[...], None), (x[...] * 2 - 3, how)):
            tile[...] = value
            plgpu.commit_smem()
            plgpu.copy_smem_to_gmem(tile, o, reduction_op=reduction)
            plgpu.wait_smem_to_gmem(0)

    x = (10 * floats(64, 64, dtype="float32")).astype(dtype)
    found = run(body, x, out=tw.ShapeDtypeStruct((64, 64), dtype), scratch=[plgpu.SMEM((64, 64), dtype)])
    combine = {"add": np.add, "max": np.maximum, "xor": np.bitwise_xor}[how]
    np.testing.assert_allclose(found, combine(x, x * 2 - 3), rtol=1e-6)


def test_a_loop_whose_length_is_known_on_the_device():
    def body(n, x, o):
        def turn(i, carry):
            return carry + x[...] * (i + 1).astype("float32")

        o[...] = lax.fori_loop(0, n[0], turn, tnp.zeros((64, 64)))

    x = floats(64, 64, dtype="float32")
    np.testing.assert_allclose(run(body, np.array([3], np.int32), x), 6 * x, rtol=1e-5)


def collatz(n, x, o):
    """A loop whose turns only the numbers in it tell, with an array beside them."""

    def turn(carry):
        value, count, rows = carry
        return lax.select(value % 2 == 0, value // 2, 3 * value + 1), count + 1, rows + value.astype("float32")

    value, count, rows = lax.while_loop(lambda carry: carry[0] != 1, turn, (n[lax.axis_index("i")], 0, x[...]))
    o[lax.axis_index("i")] = rows * count


def test_a_loop_as_long_as_something_holds():
    x = floats(64, 64, dtype="float32")
    found = run(collatz, np.array([6, 1, 7], np.int32), x, out=tw.ShapeDtypeStruct((3, 64, 64), "float32"), grid=(3,),
                grid_names=("i",))  # fmt: skip
    np.testing.assert_allclose(found[0], 8 * (x + 6 + 3 + 10 + 5 + 16 + 8 + 4 + 2), rtol=1e-5)
    np.testing.assert_array_equal(found[1], 0 * x)


def test_a_loop_that_waits_and_multiplies_as_long_as_something_holds():
    """What registers hold, and which phase of a barrier comes next, goes through such a loop."""

    def body(n, a, b, o, a_tile, b_tile, o_tile, full):
        def multiply(acc):
            def turn(left):
                plgpu.copy_gmem_to_smem(a, a_tile, full)
                plgpu.copy_gmem_to_smem(b, b_tile, full)
                plgpu.barrier_wait(full)
                plgpu.wgmma(acc, a_tile, b_tile)
                plgpu.wgmma_wait(0)
                return left // 2

            lax.while_loop(lambda left: left > 0, turn, n[0])
            o_tile[...] = acc[...].astype(o.dtype)

        tl.run_scoped(multiply, plgpu.ACC((64, 64)))
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(o_tile, o)
        plgpu.wait_smem_to_gmem(0)

    a, b = floats(64, 64), floats(64, 64)
    tile = plgpu.SMEM((64, 64), "float16")

    def f(n, a, b, interpret=False):
        return plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((64, 64), "float16"), interpret=interpret,
                            scratch_types=[tile, tile, tile, plgpu.Barrier(num_arrivals=2)])(n, a, b)  # fmt: skip

    n = np.array([5], np.int32)  # three turns
    for found in (f(n, a, b, interpret=True), tw.emulate(f, n, a, b, target="cuda:sm_90")):
        expected = 3 * (a.astype("f") @ b.astype("f"))
        np.testing.assert_allclose(np.asarray(found, "f"), expected, rtol=2e-3, atol=5e-2)


def test_several_matrices_in_one_copy():
    def body(x, o, tile, arrived):
        i = lax.axis_index("i")
        plgpu.copy_gmem_to_smem(x.at[tl.ds(2 * i, 2), 1, :, tl.ds(32, 32)], tile, arrived)
        plgpu.barrier_wait(arrived)
        tile[1] = tile[1] * 2
        plgpu.commit_smem()
        plgpu.copy_smem_to_gmem(tile, o.at[i, tl.ds(0, 2)])
        plgpu.wait_smem_to_gmem(0)

    x = floats(4, 2, 64, 64, dtype="float32")
    found = run(body, x, out=tw.ShapeDtypeStruct((2, 2, 64, 32), "float32"), grid=(2,), grid_names=("i",),
                scratch=[plgpu.SMEM((2, 64, 32), "float32"), plgpu.Barrier()])  # fmt: skip
    np.testing.assert_array_equal(found[:, 0], x[::2, 1, :, 32:])
    np.testing.assert_array_equal(found[:, 1], 2 * x[1::2, 1, :, 32:])


def test_probabilities_are_multiplied_in_tensor_memory():
    q, k, v = floats(128, 64), floats(64, 64), floats(64, 64)
    found = tw.emulate(kernels.probabilities, q, k, v, target="cuda:sm_100")
    interpreted = np.asarray(kernels.probabilities(q, k, v, interpret=True)).astype("f")
    np.testing.assert_allclose(found.astype("f"), interpreted, rtol=2e-3, atol=2e-3)
    s = q.astype("f") @ k.astype("f").T / 8
    p = np.exp(s - s.max(1, keepdims=True))
    np.testing.assert_allclose(found.astype("f"), p / p.sum(1, keepdims=True) @ v.astype("f"), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("wrong, words", [
    ("no commit", "a store to TMEM"), ("no wait for products", "a product of")])  # fmt: skip
def test_probabilities_that_are_multiplied_too_early(wrong, words):
    with pytest.raises(RaceError, match=words):
        kernels.probabilities(floats(128, 64), floats(64, 64), floats(64, 64), wrong=wrong, interpret=True)


def test_sums_are_put_back_into_tensor_memory():
    def body(x, o, tile, sums, arrived):
        plgpu.copy_gmem_to_smem(x, tile, arrived)
        plgpu.barrier_wait(arrived)
        plgpu.async_store_tmem(sums, tile[...] + 1)
        plgpu.commit_tmem()
        found, most = plgpu.async_load_tmem(sums, reduce="max")
        o[...] = found - most[:, None]

    out = tw.ShapeDtypeStruct((128, 32), "float32")
    scratch = [plgpu.SMEM((128, 32), "float32"), plgpu.TMEM((128, 32), "float32"), plgpu.Barrier()]

    def f(x, interpret=False):
        return plgpu.kernel(body, out_type=out, scratch_types=scratch, interpret=interpret)(x)

    x = floats(128, 32, dtype="float32")
    found = tw.emulate(f, x, target="cuda:sm_100")
    np.testing.assert_allclose(found, np.asarray(f(x, interpret=True)), rtol=1e-5, atol=1e-5)


# ---------------------------------------------------------------------------- mistakes in the text

A, B = floats(64, 256), floats(256, 64)


@pytest.fixture(scope="module")
def module():
    return printed(kernels.double_buffered, A, B)


@pytest.mark.parametrize("old, new, error", [
    ("fence.proxy.async.shared::cta;", "// nothing", EmulationError),
    ("b64 _, [$0], 8192;", "b64 _, [$0], 8208;", DeadlockError),
    ("wgmma.wait_group.sync.aligned 0;", "// nothing", (EmulationError, RaceError)),
    ("mbarrier.init.shared::cta.b64 [$0], 2;", "mbarrier.init.shared::cta.b64 [$0], 3;", DeadlockError),
], ids=["no fence", "too many bytes", "no wait for products", "an arrival too few"])  # fmt: skip
def test_mistakes_in_the_text_are_found(module, old, new, error):
    assert old in module.text
    with pytest.raises(error):
        run_mosaic_gpu(replace(module, text=module.text.replace(old, new)), [A, B])


# ---------------------------------------------------------------------------- what is refused

REFUSED = [
    (lambda x, o, t, b: plgpu.copy_gmem_to_smem(x.at[:, 0], t.at[0], b), "copy_gmem_to_smem: a copy of a part|a part"),
    (lambda x, o, t, b: plgpu.copy_smem_to_gmem(t, o, reduction_op="max"), "combined with what is there"),
    (lambda x, o, t, b: plgpu.copy_gmem_to_smem(x.at[:, tl.ds(0, 32)], t.at[:, tl.ds(b_at(b), 32)], b),
     "columns are multiples of 32"),
    (lambda x, o, t, b: o.__setitem__(..., tnp.cumsum(x[...], axis=0)), "cumsum"),
]


def b_at(barrier):
    return lax.axis_index("i") * 4


@pytest.mark.parametrize("body, words", REFUSED, ids=[r[1] for r in REFUSED])
def test_what_is_not_printed_is_refused_by_name(body, words):
    def within(x, o, tile, barrier):
        body(x, o, tile, barrier)

    call = plgpu.kernel(within, out_type=OUT, scratch_types=[TILE, plgpu.Barrier()], grid=(2,), grid_names=("i",))
    with pytest.raises(UnsupportedError, match=words) as found:
        printed(call, floats(64, 64, dtype="float32"))
    assert "test_direct.py:" in str(found.value)


def test_products_of_the_other_generation_are_refused_by_name():
    with pytest.raises(UnsupportedError, match="cuda:sm_100 has no `wgmma`"):
        printed(kernels.double_buffered, A, B, target="cuda:sm_100")
    with pytest.raises(UnsupportedError, match="cuda:sm_90 has no tensor memory"):
        printed(kernels.blackwell, floats(128, 128), floats(128, 64), target="cuda:sm_90")


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_100"])
def test_warps_copy_and_store_by_themselves(target):
    def body(x, o, numbers, tile, arrived, *sums):
        @plgpu.warp_map
        def _(warp):
            numbers[warp] = warp * 2
            o[tl.ds(60 + warp, 1), :] = tnp.full((1, 64), 1.5, "float32")

            @tl.when(warp == 1)
            def _():
                plgpu.copy_gmem_to_smem(x, tile, arrived)
                plgpu.barrier_wait(arrived)
                plgpu.copy_smem_to_gmem(tile.at[tl.ds(0, 56)], o.at[tl.ds(0, 56)])
                plgpu.copy_smem_to_gmem(tile.at[tl.ds(0, 4)], o.at[tl.ds(56, 4)])
                plgpu.wait_smem_to_gmem(0)

    def f(x, interpret=False):
        sums = [plgpu.TMEM((128, 64), "float32")] if target == "cuda:sm_100" else []
        return plgpu.kernel(body, out_type=[OUT, tw.ShapeDtypeStruct((4,), "int32")], interpret=interpret,
                            scratch_types=[TILE, plgpu.Barrier(), *sums])(x)  # fmt: skip

    x = floats(64, 64, dtype="float32")
    for rows, numbers in (f(x, interpret=True), tw.emulate(f, x, target=target)):
        np.testing.assert_array_equal(np.asarray(rows), np.concatenate([x[:56], x[:4], np.full((4, 64), 1.5)]))
        np.testing.assert_array_equal(np.asarray(numbers), [0, 2, 4, 6])


def test_where_warps_by_themselves_are_refused():
    def body(x, o, barrier, *sums):
        @plgpu.warp_map
        def _(warp):
            @tl.when(warp == 0)
            def _():
                plgpu.barrier_arrive(barrier)
                plgpu.barrier_wait(barrier)

        plgpu.barrier_wait(barrier)

    for sums, target, words in (((), "cuda:sm_90", "warps by themselves and whole warpgroups"), (
            (plgpu.TMEM((128, 64), "float32"),), "cuda:sm_100", "warps by themselves and whole warpgroups")):
        call = plgpu.kernel(body, out_type=OUT, scratch_types=[plgpu.Barrier(), *sums])
        with pytest.raises(UnsupportedError, match=words):
            printed(call, floats(64, 64, dtype="float32"), target=target)


def test_more_shared_memory_than_there_is():
    with pytest.raises(ResourceError, match="SMEM takes"):
        tw.emulate(lambda a, b: kernels.double_buffered(a, b, stages=16), floats(64, 2048), floats(2048, 64),
                   target="cuda:sm_90")  # fmt: skip


# ---------------------------------------------------------------------------- compiled


@pytest.mark.targets
@pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]")
def test_kernels_take_what_there_is_and_do_not_spill():
    square = [tw.ShapeDtypeStruct((1024, 1024), "bfloat16")] * 2
    heads = [tw.ShapeDtypeStruct((4, 1024, 128), "bfloat16")] * 3
    cases = [
        (kernels.double_buffered, {"tile": (128, 128, 64)}, square, "cuda:sm_90"),
        (kernels.pipelined, {"tile": (64, 256, 64), "stages": 4}, square, "cuda:sm_90"),
        (kernels.specialised, {"tile": (64, 256, 64), "stages": 3}, square, "cuda:sm_90"),
        (kernels.attention, {"keys": 128}, heads, "cuda:sm_90"),
        (kernels.blackwell, {"tile": (128, 128, 64), "stages": 4}, square, "cuda:sm_100"),
        (kernels.by_warps, {"tile": (128, 128, 64), "stages": 4}, square, "cuda:sm_100"),
        (kernels.probabilities, {}, [tw.ShapeDtypeStruct((128, 128), "bfloat16")] * 3, "cuda:sm_100"),
    ]
    for kernel, options, types, target in cases:
        program = tw.compile(lambda *x, k=kernel, o=options: k(*x, **o), *types, target=target)
        (used,) = program.resources
        assert used.spills == 0 and used.registers <= 255 and used.fast_bytes <= used.fast_limit, (kernel, used)
        assembly = program.kernels[0].assembly
        assert "cp.async.bulk.tensor" in assembly
        assert ("tcgen05.mma" if target == "cuda:sm_100" else "wgmma.mma_async") in assembly
