"""Who compiles a kernel: asked for, estimated, refused and failed."""

from dataclasses import dataclass

import numpy as np
import pytest

import tilewright as tw
from tests.support.traced import kernels_in
from tilewright import errors, lax, mosaic_gpu, triton_backend
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.compiler.backend_selection import choice
from tilewright.compiler.pass_manager import up_to, walk
from tilewright.compiler.pipeline import PIPELINE, Request, settings_ahead
from tilewright.core.ir.types import ArrayType
from tilewright.lang import triton
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.mosaic_gpu import CompilerParams
from tilewright.lang.targets.target import CustomCall, target_of
from tilewright.xla_backend.devices import tpu_plugin as tpu

SM_90, HALF = target_of("cuda:sm_90"), np.dtype("float16")


def product(params=None, n=128):
    def body(a, b, o):
        o[...] = tnp.dot(a[...], b[...], preferred_element_type="float32").astype(HALF)

    return tl.kernel_call(body, ArrayType((n, n), HALF), compiler_params=params, name="product")


def kernel_of(params=None, n=128):
    return kernels_in(product(params, n), [ArrayType((n, n), HALF)] * 2)[0]


def names(kernel, machine=SM_90):
    return [route.name for route in choice(kernel, machine).routes]


def generated(n, target="cuda:sm_90", second=HALF):
    """The kernel of a product of matrices."""
    types = [tw.ShapeDtypeStruct((n, n), dtype) for dtype in (HALF, second)]
    unit = tw.compile(lambda a, b: a @ b.astype(HALF), *types, target=target, stop="fuse")
    return next(iter(kernels_of(getattr(unit, "program", unit))))


def test_the_estimate_chooses():
    assert names(generated(8192)) == ["mosaic_gpu", "triton"]
    small = choice(generated(512), SM_90)
    assert [r.name for r in small.routes] == ["triton"]
    assert "an estimate of" in small.passed[0].why


def test_the_estimate_chooses_on_blackwell():
    blackwell = target_of("cuda:sm_100")
    assert names(generated(8192, blackwell.name), blackwell) == ["mosaic_gpu", "triton"]
    small = choice(generated(512, blackwell.name), blackwell)
    assert [r.name for r in small.routes] == ["triton"] and "an estimate of" in small.passed[0].why
    weights = choice(generated(8192, blackwell.name, "int8"), blackwell)
    assert [r.name for r in weights.routes] == ["triton"] and "no figure of Blackwell" in weights.passed[0].why
    with tw.config(kernel_route="mosaic_gpu"):
        assert names(generated(512, blackwell.name), blackwell) == ["mosaic_gpu", "triton"]


def test_what_is_asked_for_is_taken():
    assert names(kernel_of(CompilerParams())) == ["mosaic_gpu"]
    assert names(kernel_of(triton.CompilerParams(4))) == ["triton"]
    for route, wanted in {
        "triton": ["triton", "mosaic_gpu"],
        "mosaic_gpu": ["mosaic_gpu", "triton"],
        "xla": [],
    }.items():
        with tw.config(kernel_route=route):
            assert names(kernel_of()) == wanted
    with tw.config(kernel_route="mosaic_gpu"):
        assert names(kernel_of(), target_of("rocm")) == ["triton"]
    with pytest.raises(errors.ConfigError, match="kernel_route does not take 'cublas'"):
        tw.config.update("kernel_route", "cublas")


def test_the_kernels_of_a_gradient_prefer_what_theirs_asks_for():
    def both(a, b, ct):
        out, pull = tw.vjp(product(CompilerParams()), a, b)
        return out, pull(ct)

    own, *derived = kernels_in(both, [ArrayType((128, 128), HALF)] * 3)
    assert names(own) in (["mosaic_gpu"], ["mosaic_gpu", "triton"]) and derived
    for kernel in derived:
        assert names(kernel) == ["mosaic_gpu", "triton"], kernel.settings


def test_what_the_asked_route_does_not_take_stays_beside_the_kernel():
    def after(n):
        return lambda a, b: product(CompilerParams(), n)(a, b) * 2

    struct = tw.ShapeDtypeStruct((48, 48), HALF)
    with pytest.raises(errors.UnsupportedError, match="kernel product is not for Mosaic GPU"):
        tw.compile(after(48), struct, struct, target="cuda:sm_90", stop="emit")
    struct = tw.ShapeDtypeStruct((128, 128), HALF)
    unit = tw.compile(after(128), struct, struct, target="cuda:sm_90", stop="fuse")
    (joined,) = kernels_of(getattr(unit, "program", unit))
    assert joined.name == "product_mul"  # what it does take goes into the kernel

    def remainder(a, b):
        return lax.rem(product(CompilerParams())(a, b), tnp.ones((128, 128), HALF) * 3)

    unit = tw.compile(remainder, struct, struct, target="cuda:sm_90", stop="fuse")
    own, *_ = kernels_of(getattr(unit, "program", unit))
    assert own.name == "product" and names(own) == ["mosaic_gpu"]


def test_other_targets_have_one_route():
    assert names(generated(4096), target_of("cuda:sm_80")) == ["triton"]
    assert names(generated(4096), target_of("tpu")) == ["mosaic_tpu"]


def fails(kernel, machine):
    raise errors.CompileError(f"kernel {kernel.name}: the compiler fails", "mend it")


def takes(kernel, machine):
    return CustomCall("taken", '""', tuple(kernel.given.in_types), tuple(kernel.given.out_types), name=kernel.name)


def emitted(monkeypatch, function, mosaic, plain, route=None):
    for backend, emit in ((mosaic_gpu, mosaic), (triton_backend, plain)):
        monkeypatch.setattr(backend, "emit", emit, raising=False)
        monkeypatch.setattr(backend, "start", lambda kernels, machine: None, raising=False)
    struct = tw.ShapeDtypeStruct((128, 128), HALF)
    with tw.config(kernel_route=route):
        passes = up_to(PIPELINE, "emit", {})
        request = Request(function, (struct, struct), {})
        return walk(passes, request, settings_ahead("cuda:sm_90")).reports["emit"]


def test_a_route_whose_compiler_fails_leaves_the_kernel_to_the_next(monkeypatch):
    found = emitted(monkeypatch, lambda a, b: a @ b, fails, takes, "mosaic_gpu")
    assert found.compiled == ("triton",) and not found.refused
    (passed,) = found.passed
    assert passed.line() == (
        f"kernel {passed.kernel.name} is not compiled by mosaic_gpu: kernel {passed.kernel.name}: the compiler fails"
    )


def test_at_last_xla_computes_what_no_compiler_takes(monkeypatch):
    found = emitted(monkeypatch, lambda a, b: a @ b, fails, fails, "mosaic_gpu")
    assert not found.compiled and [p.route for p in found.passed] == ["mosaic_gpu"]
    assert "is computed by XLA: the compiler for cuda:sm_90 refused it" in found.refused[0].line()
    with pytest.warns(RuntimeWarning, match="kernel product is computed by XLA"):
        written = emitted(monkeypatch, product(), fails, fails, "triton")
    assert len(written.refused) == 1
    with tw.config(strict_kernels=True), pytest.raises(errors.CompileError, match="the compiler fails"):
        emitted(monkeypatch, product(), fails, fails, "triton")


def test_the_one_route_that_a_kernel_asks_for_fails_by_name(monkeypatch):
    with pytest.raises(errors.CompileError, match="the compiler fails"):
        with monkeypatch.context() as here:
            emitted(here, product(CompilerParams()), fails, takes)
    with pytest.raises(errors.CompileError, match="kernel product_mul: the compiler fails"):
        with monkeypatch.context() as here:
            emitted(here, lambda a, b: product(CompilerParams())(a, b) * 2, fails, takes)
    with pytest.raises(errors.UnsupportedError, match="kernel product is not for Mosaic GPU"):
        struct = tw.ShapeDtypeStruct((48, 48), HALF)
        tw.compile(product(CompilerParams(), 48), struct, struct, target="cuda:sm_90", stop="emit")


@pytest.mark.targets
def test_a_program_with_kernels_of_both_routes():
    pytest.importorskip("triton")
    struct = tw.ShapeDtypeStruct((4096, 4096), HALF)

    def f(a, b):
        return tnp.sort(tnp.exp(a @ b), 0), tnp.cumsum(a, 0)

    binary = tw.compile(f, struct, struct, target="cuda:sm_90")
    assert binary.executable is not None and len(binary.resources) == len(binary.kernels) >= 2
    assert all(r.spills == 0 for r in binary.resources)
    assert any("wgmma" in k.assembly and "cp.async.bulk.tensor" in k.assembly for k in binary.kernels)
    text = str(tw.explain(f, struct, struct, target="cuda:sm_90", compile=True))
    assert "is compiled by mosaic_gpu" in text and "is compiled by triton" in text


@dataclass(frozen=True)
class Binary:
    """A program that a device's compiler took."""

    text: str
    resources: tuple = ()
    target: str = "tpu:v5e"
    here: object = None

    def as_text(self):
        return ""


def test_a_program_that_a_devices_compiler_fails_on_is_compiled_without_kernels(monkeypatch):
    tried = []

    def build(text, target, name, **options):
        tried.append(text)
        if "tpu_custom_call" in text:
            raise errors.CompileError("the compiler ended", "mend it")
        return Binary(text)

    monkeypatch.setattr(tpu, "compile", build)
    struct = tw.ShapeDtypeStruct((256, 256), "float32")
    binary = tw.compile(lambda a: tnp.exp(a) @ a, struct, target="tpu:v5e")
    assert len(tried) == 2 and "tpu_custom_call" in tried[0] and binary.text == tried[1]
    assert "stablehlo.dot_general" in tried[1]
    with pytest.warns(RuntimeWarning, match="kernel product is computed by XLA: the compiler for tpu:v5e refused it"):
        half = tw.ShapeDtypeStruct((128, 128), HALF)
        (left,) = tw.compile(product(), half, half, target="tpu:v5e").resources
    assert left.kernel == "product" and left.left_to_xla == "the compiler ended" and left.spills is None
    with tw.config(strict_kernels=True), pytest.raises(errors.CompileError, match="the compiler ended"):
        tw.compile(product(), half, half, target="tpu:v5e")


def test_a_compiler_that_fails_without_kernels_too_fails(monkeypatch):
    def build(text, target, name, **options):
        raise errors.CompileError("the compiler ended", "mend it")

    monkeypatch.setattr(tpu, "compile", build)
    struct = tw.ShapeDtypeStruct((256, 256), "float32")
    with pytest.raises(errors.CompileError, match="the compiler ended"):
        tw.compile(lambda a: a @ a, struct, target="tpu:v5e")
