"""Clusters in kernels written for warpgroups: values, mistakes that are named, mistakes in what is printed."""

import functools
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.support.gpu import cluster_kernels as kernels
from tests.support.gpu.mosaic_gpu import floats, printed
from tilewright import lang as tl
from tilewright import lax
from tilewright import numpy as tnp
from tilewright.core.support.errors import (
    ArgumentError,
    DeadlockError,
    EmulationError,
    KernelBodyError,
    RaceError,
    UnsupportedError,
)
from tilewright.emulator.calls import run_mosaic_gpu
from tilewright.lang import InterpretParams
from tilewright.lang import mosaic_gpu as plgpu
from tilewright.mosaic_gpu import compiler

KERNELS = {
    "shared": (kernels.shared, "cuda:sm_90", 128), "paired": (kernels.paired, "cuda:sm_100", 256),
    "two pairs": (functools.partial(kernels.paired, pairs=2), "cuda:sm_100", 512),
}  # fmt: skip
MODES = [True, *(InterpretParams(random_seed=n) for n in range(3))]


@pytest.mark.parametrize("name", KERNELS)
def test_products(name):
    kernel, target, rows = KERNELS[name]
    a, b = floats(rows, 192), floats(192, 128)
    expected = a.astype("f") @ b.astype("f")
    for mode in MODES:
        found = np.asarray(kernel(a, b, interpret=mode)).astype("f")
        np.testing.assert_allclose(found, expected, rtol=2e-3, atol=2e-2)
    walked = tw.emulate(kernel, a, b, target=target).astype("f")
    np.testing.assert_allclose(walked, expected, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("name, wrong, error, words", [
    ("shared", "own barriers", RaceError, "in its phase|is at phase|writes element .* of [ab]_tiles of block"),
    ("paired", "no wait", RaceError, "which a copy counted at full.0. of block .0, 0. writes|a product of warp 1"),
    ("paired", "the second starts", KernelBodyError, "the second block of a pair starts a product of both"),
    ("paired", "one block", DeadlockError, "of block .0, 1..*waits for phase 0 of made of block .0, 1."),
])  # fmt: skip
def test_mistakes(name, wrong, error, words):
    kernel, _, rows = KERNELS[name]
    a, b = floats(rows, 192), floats(192, 128)
    for mode in MODES:
        with pytest.raises(error, match="(?s)" + words) as found:
            kernel(a, b, interpret=mode, wrong=wrong)
        assert "cluster_kernels.py:" in str(found.value)


@pytest.mark.parametrize("name, old, new, error", [
    ("shared", "mbarrier.arrive.release.cluster", "// mbarrier.arrive.release.cluster", DeadlockError),
    ("shared", "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;", "// none", EmulationError),
    ("shared", "_, [$0], 8192;", "_, [$0], 4096;", (EmulationError, RaceError, DeadlockError)),
    ("paired", "_, [$0], 32768;", "_, [$0], 16384;", (EmulationError, RaceError, DeadlockError)),
    ("paired", "arith.constant 3 : i16", "arith.constant 1 : i16", DeadlockError),
    ("shared", "fence.proxy.async.shared::cta;", "// none", EmulationError),
    ("paired", "fence.proxy.async.shared::cta;", "// none", EmulationError),
    ("shared", '"bar.sync $0, 128;"', '"// none"', RaceError),
    ("paired", '"bar.sync $0, 128;"', '"// none"', RaceError),
    ("shared", "wgmma.wait_group.sync.aligned 0;", "// none", EmulationError),
    ("paired", "tcgen05.fence::after_thread_sync;", "// none", EmulationError),
    ("paired", ".cta_group::2 [$0], [$1", " [$0], [$1", EmulationError),
], ids=["arrivals", "meeting", "bytes", "bytes of a pair", "told to one", "proxy fence", "proxy fence of a pair",
        "threads", "threads of a pair", "wait", "fence of tensor memory", "leader"])  # fmt: skip
def test_mistakes_in_what_is_printed(name, old, new, error):
    kernel, target, rows = KERNELS[name]
    a, b = floats(rows, 192), floats(192, 128)
    module = printed(kernel, a, b, target=target)
    assert old in module.text
    with pytest.raises(error):
        run_mosaic_gpu(replace(module, text=module.text.replace(old, new)), [a, b])


@pytest.mark.parametrize("target", ["cuda:sm_90", "cuda:sm_100"])
def test_a_barrier_of_the_first_block_alone(target):
    def f(leader=0, **options):
        def body(o, told):
            plgpu.barrier_arrive(told)

            @tl.when(lax.axis_index("x") == leader)
            def _():
                plgpu.barrier_wait(told)
                o[...] = tnp.full((64, 64), 42, "float32")

        barrier = plgpu.ClusterBarrier(collective_axes=("x",), leader_tracked=True)
        return plgpu.kernel(body, out_type=tw.ShapeDtypeStruct((64, 64), "float32"), scratch_types=[barrier],
                            cluster=(2,), cluster_names=("x",), **options)()  # fmt: skip

    assert (np.asarray(f(interpret=True)) == 42).all() and (tw.emulate(f, target=target) == 42).all()
    with pytest.raises(DeadlockError, match="waits for phase 0"):
        f(leader=1, interpret=True)


@pytest.mark.parametrize("options, error, words", [
    ({"cluster": (3, 3), "cluster_names": ("x", "y")}, UnsupportedError, "give 1 to 8"),
    ({"cluster": (0,), "cluster_names": ("x",)}, ArgumentError, "has no blocks"),
    ({"scratch_types": [plgpu.ClusterBarrier(collective_axes=("z",))]}, ArgumentError, "'z' is no axis of the cluster"),
], ids=["many", "none", "axis"])  # fmt: skip
def test_clusters_that_are_none(options, error, words):
    with pytest.raises(error, match=words):
        plgpu.kernel(lambda o, *s: None, out_type=tw.ShapeDtypeStruct((4,), "float32"), interpret=True, **options)()


@pytest.mark.targets
@pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]")
def test_clusters_compile_and_do_not_spill():
    square = [tw.ShapeDtypeStruct((1024, 1024), "bfloat16")] * 2
    for kernel, options, target, words in (
            (kernels.shared, {"size": 64, "stages": 4}, "cuda:sm_90", (".multicast::cluster", "wgmma.mma_async")),
            (kernels.paired, {"columns": 128, "stages": 4}, "cuda:sm_100", ("tcgen05.mma.cta_group::2",)),
            (kernels.paired, {"columns": 128, "stages": 4, "pairs": 2}, "cuda:sm_100", ("multicast::cluster.b64",)),
    ):  # fmt: skip
        program = tw.compile(lambda *x, k=kernel, o=options: k(*x, **o), *square, target=target)
        (used,) = program.resources
        assert used.spills == 0 and used.registers <= 255 and used.fast_bytes <= used.fast_limit, used
        assert all(word in program.kernels[0].assembly for word in words)
