"""Kernels of a program as something to tune: what may be chosen, that it is used, that equal programs are told."""

import numpy as np
import pytest

import tilewright as tw
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.tuning import Store, TuningWarning, kernels
from tilewright.tuning.program import kernel_sites
from tilewright.tuning.tables import exported

HALF = tw.ShapeDtypeStruct((1024, 1024), "bfloat16")


def product(x, w):
    return tnp.tanh(x @ w).sum(0)


def written(x, **options):
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2

    spec = tl.BlockSpec((64, 64), lambda i, j: (i, j))
    return tl.kernel_call(body, HALF, grid=(16, 16), in_specs=[spec], out_specs=spec, name="twice", **options)(x)


def fused(f, *args, target):
    return list(kernels_of(tw.compile(f, *args, target=target, stop="fuse")))


@pytest.fixture
def folder(tmp_path):
    with tw.config(cache_dir=str(tmp_path)):
        yield tmp_path


def test_what_may_be_chosen_is_the_targets(folder):
    sites, device = kernel_sites(product, (HALF, HALF), {}, "cuda:sm_90")
    space = sites[0].space()
    assert device == "cuda:sm_90" and space[0] == {} and {c.get("route") for c in space} - {"cutlass"} == {
        None, "triton", "mosaic_gpu", "xla"}  # fmt: skip
    assert len({c.get("tiles") for c in space}) > 10 and {c.get("num_warps") for c in space} == {None, 2, 4, 8}
    (site,), _ = kernel_sites(product, (HALF, HALF), {}, "tpu:v5e")
    assert all(set(c) <= {"tiles"} for c in site.space()) and len(site.space()) > 5
    with pytest.raises(tw.errors.ArgumentError, match="fused kernel"):
        [s.made(c) for s in sites for c in s.space() if c.get("tiles", (0,))[0] >= 256]


def test_what_the_author_says_is_not_chosen(folder):
    """Blocks that somebody wrote stay; parameters that are given too."""
    (site,), _ = kernel_sites(written, (HALF,), {}, "cuda:sm_90")
    assert site.fused is None and not any("tiles" in c for c in site.space())
    (site,), _ = kernel_sites(
        lambda x: written(x, compiler_params=tl.triton.CompilerParams(num_warps=8)), (HALF,), {}, "cuda:sm_90"
    )
    assert {c.get("num_warps") for c in site.space()} == {None} and {c.get("route") for c in site.space()} == {
        None, "triton"}  # fmt: skip
    made = dict(site.made({"route": "triton", "num_stages": 3}).settings)
    assert made["compiler_params"] == tl.triton.CompilerParams(num_warps=8, num_stages=3)


def test_what_was_decided_on_is_used_by_later_compilations(folder):
    sites, device = kernel_sites(product, (HALF, HALF), {}, "cuda:sm_90")
    chosen = {"tiles": (64, 64, 32), "route": "triton", "num_warps": 8}
    assert Store().decide(kernels.problem_of(sites[0].kernel, device, sites[0].fused), chosen)
    first, second = fused(product, HALF, HALF, target=device)
    assert 64 in first.outputs[0].sizes and dict(first.settings)["compiler_params"].num_warps == 8
    assert second == sites[1].kernel, "of the other nothing is known"
    with kernels.by_default():
        assert fused(product, HALF, HALF, target=device)[0] == sites[0].kernel
    assert fused(product, HALF, HALF, target="cuda:sm_80")[0].settings == ()
    assert len(exported(Store())["entries"]) == 0, "nothing was measured"


def test_routes_that_were_decided_on(folder):
    from tilewright.compiler.backend_selection import choice
    from tilewright.lang.targets.target import target_of

    (site,), device = kernel_sites(written, (HALF,), {}, "cuda:sm_90")
    assert [r.name for r in choice(site.made({"route": "triton"}), target_of(device)).routes][0] == "triton"
    assert choice(site.made({"route": "xla"}), target_of(device)).routes == ()
    Store().decide(kernels.problem_of(site.kernel, device, site.fused), {"route": "xla"})
    text = str(tw.compile(written, HALF, target=device, stop="emit"))
    assert "kernel_call" not in text and "custom_call" not in text


def test_tiles_that_compile_to_one_program_are_told(folder):
    x = tnp.asarray(np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32))
    with tw.config(cpu_tiles=True):
        (report,) = tw.tune(product, x, x, progress=False, isolate=False).reports
        assert report.programs < len(report.trials) / 2 and "compiled to the same program" in str(report)
        (site,), device = kernel_sites(product, (x, x), {})
        Store().decide(kernels.problem_of(site.kernel, device, site.fused), {"tiles": (64, 8, 8)})
        (kernel,) = list(kernels_of(tw.compile(product, x, x, stop="fuse")))
        assert kernel != site.kernel and kernel == site.made({"tiles": (64, 8, 8)})
        assert np.allclose(tw.jit(product)(x, x), np.tanh(np.asarray(x) @ np.asarray(x)).sum(0), atol=1e-5)


def test_kernels_of_other_sizes_use_the_nearest_tiles_that_they_can_have(folder):
    x, larger, smaller = tnp.ones((64, 64)), tnp.ones((128, 128)), tnp.ones((32, 32))
    with tw.config(cpu_tiles=True):
        (site,), device = kernel_sites(product, (x, x), {})
        Store().decide(kernels.problem_of(site.kernel, device, site.fused), {"tiles": (64, 8, 8)})
        for array, tiles in (larger, (128, 8, 8)), (smaller, (32, 8, 8)):
            (other,), _ = kernel_sites(product, (array, array), {})
            (kernel,) = list(kernels_of(tw.compile(product, array, array, stop="fuse")))
            assert kernel != other.kernel and kernel == other.made({"tiles": tiles})
            with kernels.by_default():
                assert list(kernels_of(tw.compile(product, array, array, stop="fuse"))) == [other.kernel]


@pytest.mark.parametrize("damaged", [
    {"tiles": [8, 8, 8]}, {"tiles": "8"}, {"tiles": [0, -1, 2]}, {"tiles": [4]}, {"route": "nowhere"},
    {"route": "triton", "num_warps": 3},
])  # fmt: skip
def test_choices_that_do_not_fit_are_passed_over(folder, damaged):
    x = tnp.ones((64, 64))
    with tw.config(cpu_tiles=True):
        (site,), device = kernel_sites(product, (x, x), {})
        Store().decide(kernels.problem_of(site.kernel, device, site.fused), damaged)
        with pytest.warns(TuningWarning, match="a kernel"):
            (kernel,) = list(kernels_of(tw.compile(product, x, x, stop="fuse")))
        assert kernel == site.kernel


def test_a_gradients_kernels_are_found(folder):
    sites, _ = kernel_sites(tw.grad(lambda x, w: product(x, w).sum()), (HALF, HALF), {}, "cuda:sm_90")
    assert [s.name.startswith("contract") for s in sites] == [True, True], "forwards and backwards"
