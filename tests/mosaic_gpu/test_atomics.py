"""Atomic updates by Mosaic GPU: of shared and global memory, in kernels for warpgroups and in those of blocks."""

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu.mosaic_gpu import floats
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import RaceError, UnsupportedError
from tilewright.lang import mosaic_gpu as plgpu
from tilewright.mosaic_gpu import compiler

TARGETS = ["cuda:sm_90", "cuda:sm_100"]
MATRIX = tw.ShapeDtypeStruct((64, 64), "float32")


def counted(x, interpret=False, together=True):
    """Two warpgroups update a matrix, extrema of floats, and words by each operation; one gives what came of it."""

    def body(x, o, tile, ends, words, told):
        wg, (top, least) = lax.axis_index("wg"), (ends.at[0], ends.at[1])

        def meet():
            plgpu.barrier_arrive(told)
            plgpu.barrier_wait(told)

        @tl.when(wg == 0)
        def _():
            tile[...], ends[...] = tnp.zeros((64, 64), "float32"), tnp.zeros((2,), "float32")
            words[...] = tnp.zeros((8,), "int32")

        meet()
        plgpu.atomic_add(tile, x[tl.ds(wg * 64, 64), :])
        plgpu.atomic_max(top, x[wg * 64, 0])
        plgpu.atomic_min(least, x[wg * 64, 1])
        ticket = tl.atomic_add(words, (0,), tnp.int32(1))
        for n, update in enumerate((tl.atomic_or, tl.atomic_xor, tl.atomic_max)):
            update(words, (n + 1,), wg + 1)
        tl.atomic_min(words, (4,), -wg)
        tl.atomic_cas(words.at[5], tnp.int32(0), tnp.int32(7))
        tl.atomic_add(words, (6,), ticket, mask=ticket > 0)
        tl.atomic_xchg(words, (7,), tnp.int32(3), sem="relaxed", scope="cta")
        if together:
            meet()

        @tl.when(wg == 0)
        def _():
            o[...] = tile[...] + ends[0] * 3 + ends[1] * 5
            for n in range(8):
                o[n, 0] = words[n].astype("float32")

    scratch = [plgpu.SMEM((64, 64), "float32"), plgpu.SMEM((2,), "float32"), plgpu.SMEM((8,), "int32"),
               plgpu.Barrier(num_arrivals=2)]  # fmt: skip
    return plgpu.kernel(body, out_type=MATRIX, scratch_types=scratch, num_threads=2, thread_name="wg",
                        interpret=interpret)(x)  # fmt: skip


def split(a, b, o):
    """A product whose sums are divided among blocks, each of which adds its part."""
    rows = 128

    def body(a, b, _, o):
        place = tuple(tl.ds(tl.program_id(d) * n, n) for d, n in enumerate((rows, 64)))
        tl.atomic_add(o, place, tl.triton.dot(a[...], b[...]))

    anywhere = tl.BlockSpec(memory_space=tl.ANY)
    specs = [tl.BlockSpec((rows, 64), lambda i, j, s: (i, s)), tl.BlockSpec((64, 64), lambda i, j, s: (s, j)), anywhere]
    return tl.kernel_call(
        body, tw.ShapeDtypeStruct(o.shape, "float32"), grid=(o.shape[0] // rows, o.shape[1] // 64, a.shape[1] // 64),
        in_specs=specs, out_specs=anywhere, input_output_aliases={2: 0}, compiler_params=plgpu.CompilerParams(),
    )(a, b, o)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
def test_two_warpgroups_update_shared_memory(target):
    x = floats(128, 64, dtype="float32")
    np.testing.assert_allclose(tw.emulate(counted, x, target=target), counted(x, interpret=True), rtol=1e-6, atol=1e-6)


def test_what_is_updated_is_read_before_it_is_waited_for():
    with pytest.raises(RaceError, match="race: (an atomic update|a thread reads)"):
        tw.emulate(lambda x: counted(x, together=False), floats(128, 64, dtype="float32"), target="cuda:sm_90")


@pytest.mark.parametrize("target", TARGETS)
def test_blocks_add_their_parts_of_a_product(target):
    a, b, o = floats(128, 256), floats(256, 128), floats(128, 128, dtype="float32")
    found = tw.emulate(split, a, b, o, target=target)
    np.testing.assert_allclose(found, o + a.astype("f") @ b.astype("f"), rtol=2e-3, atol=2e-2)


def test_dtypes_that_hardware_does_not_update():
    def f(x):
        out = tw.ShapeDtypeStruct((64, 64), "int8")
        return plgpu.kernel(lambda x, o: plgpu.atomic_add(o, x[...]), out_type=out)(x)

    with pytest.raises(UnsupportedError, match="atomic_add of int8: they are on 32 bits"):
        tw.emulate(f, np.zeros((64, 64), np.int8), target="cuda:sm_90")


@pytest.mark.targets
@pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]")
@pytest.mark.parametrize("target", TARGETS)
def test_they_compile(target):
    struct = tw.ShapeDtypeStruct
    program = tw.compile(split, *[struct((128, 128), "float16")] * 2, struct((128, 128), "float32"), target=target)
    assert "red.relaxed.gpu.global.add.f32" in program.kernels[0].assembly and program.resources[0].spills == 0
    text = tw.compile(counted, struct((128, 64), "float32"), target=target).kernels[0].assembly
    assert all(one in text for one in ("red.relaxed.gpu.shared::cta.max.s32", "atom.relaxed.gpu.shared::cta.cas.b32"))
