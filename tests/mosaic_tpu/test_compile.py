"""The corpus, the templates and the fused operations compiled by the real TPU compiler, with their VMEM.

For v5e at every commit; for the other generations, and in all their cases, behind the marker `targets`.
"""

import functools
import importlib.util

import numpy as np
import pytest

import tilewright as tw
from benchmarks import tpu_cycles
from tests.support.corpus.runs import KERNELS, NAMES, over_sizes
from tests.support.corpus.runs import operands as corpus_operands
from tests.support.fused_cases import CASES as FUSED
from tests.support.fused_cases import IDS as FUSED_IDS
from tests.support.fused_cases import arrays, scalar
from tests.support.laws import operands
from tests.support.templates import CASES_OF, by_kind, by_name, first_by
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import is_complex
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.kernels import TEMPLATES
from tilewright.kernels.fused import OPERATIONS
from tilewright.lang import tpu
from tilewright.lang.targets.target import MIB, TARGETS, target_of

pytestmark = pytest.mark.skipif(importlib.util.find_spec("libtpu") is None, reason="the extra `tpu` is not installed")

V5E = "tpu:v5e"
TPUS = [name for name, t in TARGETS.items() if t.kind == "tpu"]
everywhere = pytest.mark.parametrize("target", TPUS)


def compiled(f, *args, target=V5E):
    """The program, with at least one kernel in it, each within its VMEM."""
    binary = tw.compile(f, *args, target=target)
    machine = target_of(target)
    assert binary.resources
    for used in binary.resources:
        assert used.fast_bytes <= used.fast_limit <= machine.fast_bytes
        assert 0 < used.fast_bytes + used.resident <= machine.fast_bytes
    return binary


# ------------------------------------------------------------------------------------------ the corpus


def corpus_kernel(kernel, size, mode, target):
    return compiled(
        functools.partial(kernel.call, **size.blocks, **mode), *corpus_operands(kernel, size), target=target
    )


@over_sizes(NAMES, slice(0, 1))
def test_the_corpus_for_v5e(kernel, size, mode):
    corpus_kernel(kernel, size, mode, V5E)


@pytest.mark.targets
@everywhere
@over_sizes(NAMES)
def test_the_corpus_for_every_tpu(kernel, size, mode, target):
    corpus_kernel(kernel, size, mode, target)


@pytest.mark.targets
@everywhere
@over_sizes([n for n in NAMES if KERNELS[n].DIFFERENTIABLE], slice(1, 2))
def test_gradients_of_the_corpus_for_every_tpu(kernel, size, mode, target):
    def loss(*xs):
        given = dict(zip(kernel.DIFFERENTIABLE, xs))
        args = [given.get(i, x) for i, x in enumerate(everything)]
        return sum(tnp.sum(o) for o in tw.tree.leaves(kernel.call(*args, **size.blocks, **mode)))

    everything = corpus_operands(kernel, size)
    xs = [everything[i] for i in kernel.DIFFERENTIABLE]
    compiled(tw.grad(loss, tuple(range(len(xs)))), *xs, target=target)


# --------------------------------------------------------------------------------------- the templates


def template(case, target):
    made, args = TEMPLATES[case.primitive], operands(case)

    def f(*arrays):
        return made(*arrays, target=target, **case.params)

    outs = made.results([tnp.asarray(a).aval for a in args], case.params)
    if any(is_complex(t.dtype) for t in (*case.types, *outs)):
        with pytest.raises(errors.DtypeError, match="complex64"):
            tw.compile(f, *args, target=target)
    elif all(0 in t.shape for t in outs):
        assert tw.compile(f, *args, target=target).resources == ()  # nothing to compute
    else:
        compiled(f, *args, target=target)


@pytest.mark.law
@pytest.mark.parametrize("case", first_by(by_name))
def test_every_template_for_v5e(case):
    template(case, V5E)


@pytest.mark.parametrize(("target", "tiles"), [(V5E, (128, 128, 256, 3)), ("tpu:v5p", None)])
def test_the_template_of_a_split_product(target, tiles):
    """Five steps in runs of two, and the two TensorCores of a v5p, which share the runs unasked."""
    k, n = (1200, 130) if tiles else (8192, 128)
    left, right = tw.ShapeDtypeStruct((100, k), "bfloat16"), tw.ShapeDtypeStruct((k, n), "bfloat16")
    product = functools.partial(TEMPLATES[dot_general_p], tiles=tiles, target=target, **tpu_cycles.MATMUL)
    assert len(compiled(product, left, right, target=target).resources) == 2


@pytest.mark.targets
@everywhere
@pytest.mark.parametrize("case", first_by(by_kind, tuple(CASES_OF)))
def test_every_template_for_every_tpu(case, target):
    template(case, target)


# -------------------------------------------------------------------------------- the fused operations


def fused(case, target, differentiated):
    name, args, rest, options, tiles = case
    args, rest, options = arrays((args, rest, options))
    f = functools.partial(scalar, OPERATIONS[name].function, rest, options | tiles)()
    numbers = tuple(range(len(args)))
    compiled(tw.grad(f, numbers) if differentiated else f, *args, target=target)


@pytest.mark.law
@pytest.mark.parametrize("case", {c[0]: c for c in FUSED}.values(), ids=lambda c: c[0])
def test_every_fused_operation_with_its_gradient_for_v5e(case):
    fused(case, V5E, True)


@pytest.mark.targets
@everywhere
@pytest.mark.parametrize("case", FUSED, ids=FUSED_IDS)
@pytest.mark.parametrize("differentiated", [False, True], ids=["value", "gradient"])
def test_every_fused_operation_for_every_tpu(case, differentiated, target):
    fused(case, target, differentiated)


# --------------------------------------------------------------------------------------- whole programs


def scaled(x, by, name):
    """`x * by`, by a kernel."""

    def body(x, o):
        o[...] = x[...] * by

    spec = tl.BlockSpec((64, 128), lambda i: (i, 0))
    return tl.kernel_call(
        body, x.aval if hasattr(x, "aval") else x, grid=4, in_specs=[spec], out_specs=spec, name=name
    )(x)


def two_kernels(x, w):
    middle = tnp.sort(scaled(x, 2.0, "first"), axis=0) @ w
    return scaled(tnp.tanh(middle), 3.0, "second").sum()


X, W = tw.ShapeDtypeStruct((256, 128), "float32"), tw.ShapeDtypeStruct((128, 128), "float32")


@pytest.mark.parametrize("target", [V5E, "tpu:v5e:2x2"])
def test_a_program_of_kernels_and_glue(target):
    binary = compiled(two_kernels, X, W, target=target)
    names = [r.kernel for r in binary.resources]
    mine = [n for n in names if n.startswith(("first", "second"))]
    assert mine == ["first", "second_tanh"]  # the glue before the second kernel is fused into it
    text = binary.as_text()
    assert "sort" in text and text.count('custom_call_target="tpu_custom_call"') == len(names)
    assert binary.target == target and binary.serialize() == binary.serialize()
    assert "stablehlo.custom_call" in tw.compile(two_kernels, X, W, target=target, stop="module")


@pytest.mark.targets
@everywhere
def test_a_program_of_kernels_and_glue_everywhere(target):
    compiled(two_kernels, X, W, target=target)


# --------------------------------------------------------------------------------------------- refusals


def copying(shape, block, dtype="float32", **options):
    def copy_blocks(x, o):
        o[...] = x[...]

    spec = tl.BlockSpec(block, lambda i, j: (i, j))
    grid = tuple(-(-n // b) for n, b in zip(shape, block))
    return tl.kernel_call(
        copy_blocks, tw.ShapeDtypeStruct(shape, dtype), grid=grid, in_specs=[spec], out_specs=spec, **options
    )


def test_more_vmem_than_there_is():
    """Blocks are cut where the body allows it; one that reads a block's first element from all of it does not."""
    whole = tw.ShapeDtypeStruct((16384, 8192), "float32")
    (used,) = tw.compile(copying(whole.shape, (8192, 2048)), whole, target=V5E).resources
    assert "x 2048x2048 in place of 8192x2048" in used.note

    def shift(x, o):
        o[...] = x[...] - x[0, 0]

    spec = tl.BlockSpec((8192, 2048), lambda i, j: (i, j))
    with pytest.raises(errors.ResourceError, match="kernel shift: .* of VMEM .*tpu:v5e has 128 MiB") as caught:
        tw.compile(tl.kernel_call(shift, whole, grid=(2, 4), in_specs=[spec], out_specs=spec), whole, target=V5E)
    assert __file__ in str(caught.value)


def test_more_vmem_than_was_asked_for():
    params = tpu.CompilerParams(vmem_limit_bytes=MIB)
    f = copying((2048, 2048), (512, 1024), compiler_params=params)
    with pytest.raises(
        errors.ResourceError, match="kernel copy_blocks on tpu:v5e: it needs .* MiB of VMEM, and may take 1 MiB"
    ):
        tw.compile(f, tw.ShapeDtypeStruct((2048, 2048), "float32"), target=V5E)


def test_a_derivative_that_leaves_vmem_no_room_gets_smaller_blocks():
    """Three blocks of 16 MiB, two of each in flight, are within 128 MiB, and values need as much again."""
    block = tl.BlockSpec((2048, 2048), lambda i: (i, 0))
    f = tl.kernel_call(lambda x, o: o.__setitem__(..., tnp.tanh(x[...])), tw.ShapeDtypeStruct((8192, 2048), "float32"),
                       grid=4, in_specs=[block], out_specs=block, name="bend")  # fmt: skip
    used = compiled(tw.grad(lambda x: f(x).sum()), tw.ShapeDtypeStruct((8192, 2048), "float32")).resources
    (note,) = [r.note for r in used if "bend_bwd" in r.kernel]
    assert "x 1024x2048 in place of 2048x2048" in note or "x 2048x1024 in place of 2048x2048" in note


def test_a_kernel_gets_the_vmem_that_its_blocks_need():
    f, struct = copying((4096, 2048), (1024, 2048)), tw.ShapeDtypeStruct((4096, 2048), "float32")
    (used,) = compiled(f, struct).resources
    assert used.fast_bytes > 16 * MIB and used.fast_limit > 16 * MIB


def test_a_dtype_that_no_tpu_has():
    with tw.config(enable_x64=True), pytest.raises(errors.DtypeError, match="kernel copy_blocks: .*no float64"):
        tw.compile(copying((64, 128), (8, 128), "float64"), tw.ShapeDtypeStruct((64, 128), "float64"), target=V5E)


def test_axes_for_more_cores_than_one():
    params = tpu.CompilerParams(dimension_semantics=(tpu.CORE_PARALLEL, tpu.ARBITRARY))
    f = copying((64, 256), (8, 128), compiler_params=params)
    with pytest.raises(errors.UnsupportedError, match="axis 0 .* one TensorCore"):
        tw.compile(f, tw.ShapeDtypeStruct((64, 256), "float32"), target=V5E)
    compiled(f, tw.ShapeDtypeStruct((64, 256), "float32"), target="tpu:v5p")


@pytest.mark.parametrize("target", ["tpu:v9", "tpu:v5e:3x3", "tpu:v6e:two"])
def test_a_topology_that_there_is_not(target):
    with pytest.raises(errors.ArgumentError, match=target):
        tw.compile(two_kernels, X, W, target=target)


# --------------------------------------------------------------------------------------------- estimates


@pytest.mark.targets
@pytest.mark.parametrize(
    "case, target", [pytest.param(c, t, id=f"{c.name}-{t}") for c in tpu_cycles.CASES for t in tpu_cycles.TPUS]
)
def test_estimated_cycles_are_near_the_bound(case, target):
    found = tpu_cycles.measured(case, target)
    assert found.ratio <= case.limit, f"{found.cycles:,} cycles, bound {found.bound:,.0f} ({found.by})"


def test_an_explanation_has_what_the_compiler_says():
    explained = tw.explain(copying((64, 256), (8, 128)), np.ones((64, 256), np.float32), target=V5E, compile=True)
    (report,) = explained.kernels
    assert report.resources is not None and report.resources.cycles is not None
    assert report.resources.cycles > 0 and report.resources.fast_limit == 16 * MIB
    assert "VMEM" in str(explained) and "cycles" in str(explained)
