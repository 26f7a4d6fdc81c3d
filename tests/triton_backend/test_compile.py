"""Kernels compiled to machine code for GPUs that need not be here, and what happens to those that cannot be.

Per commit: the corpus and every template for sm_90, whole programs for an H200. `make test-targets` has the rest.
"""

import functools
import json
import os
import re
import shutil
import subprocess
from dataclasses import replace

import numpy as np
import pytest

import tilewright as tw
from tests.support.authors.attention import flash_window
from tests.support.authors.norms import cross_entropy
from tests.support.cases.conv import case as conv
from tests.support.corpus import conv1d, int4_matmul, matmul_grid
from tests.support.gpu.gpu_cases import FUSED, FUSED_MORE, TEMPLATE_CASES, adamw, corpus, fused, template
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.core.primitives.contraction.dot_general import dot_general_p
from tilewright.core.support.errors import ResourceError
from tilewright.core.support.supported import numbers
from tilewright.kernels import TEMPLATES
from tilewright.lang.gpu.code import check, resources
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import target_of
from tilewright.lang.toolchain.packages import Packages
from tilewright.lang.toolchain.pool import Workers
from tilewright.nn import fused as fused_ops
from tilewright.triton_backend import compiled_kernel, compiler, start, version_compat
from tilewright.triton_backend.fit_resources import fitted
from tilewright.triton_backend.module import TritonModule
from tilewright.xla_backend.devices import cuda_plugin as cuda
from tilewright.xla_backend.host.disk_cache import disk_cache

pytestmark = pytest.mark.skipif(not compiler.installed() or not cuda.installed(), reason="needs tilewright[cuda]")

S = tw.ShapeDtypeStruct
H200 = "cuda:sm_90:h200"
OTHERS = ("cuda:sm_80", "cuda:sm_100", "rocm:gfx942")

# Templates of complex numbers have no kernels on a GPU: a value of Triton's is a number.
COMPLEX = {"complex", "real", "imag", "conj"}
# What sends a block to shared memory: 16 bytes at a time, or the copy engine as a whole.
IN_FLIGHT = re.compile(r"cp\.async\.cg\.shared\.global|cp\.async\.bulk\.tensor")
# Kernels that spill, by target and name: the bytes at most, and why.
SPILLS: dict[tuple[str, str], tuple[int, str]] = {
    ("cuda:sm_80", "swiglu-odd-swiglu_backward"): (8, "ptxas takes 80 registers, for three blocks; of 180 none spills"),
    ("cuda:sm_80", "attention_dkv"): (40, "pointers of every copied element, where there are no descriptors, take 255"),
}


def built(label, kernel, target):
    """A kernel's machine code; it fits, and spills no more than the table says."""
    machine = target_of(target)
    module, compiled = compiled_kernel(kernel, machine)
    found = resources(compiled, machine)
    assert compiled.binary[:4] == b"\x7fELF"
    assert found.fast_bytes <= found.fast_limit == machine.fast_bytes
    assert 0 < found.registers <= (255 if machine.kind == "cuda" else 512)
    assert found.spills is not None
    assert found.spills <= SPILLS.get((target, label), (0, ""))[0], f"{label} spills {found.spills} bytes on {target}"
    return module, compiled, found


def build_all(kernels, target):
    start([k for _, k in kernels], target_of(target))
    for label, kernel in kernels:
        built(label, kernel, target)


def test_the_corpus_for_sm_90():
    build_all(list(corpus(slice(1))), "cuda:sm_90")


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.targets)])
def test_templates_for_sm_90(every):
    machine, names = target_of("cuda:sm_90"), [n for n in TEMPLATE_CASES if n not in COMPLEX]
    build_all([(n, template(n, machine)) for n in names[::every]], "cuda:sm_90")


@pytest.mark.parametrize("k", [65536, 65537 - 64 - 7])
def test_the_template_of_a_split_product_for_sm_90(k):
    """Partial sums on the matrix units by many cells, and their sum; the last run ends early in the second."""
    types = ArrayType((64, k), "bfloat16"), ArrayType((k, 128), "bfloat16")
    params = {"dimension_numbers": (((1,), (0,)), ((), ())), "precision": None, "preferred_element_type": None}
    partial, total = TEMPLATES[dot_general_p].build(*types, target="cuda:sm_90", **params).kernels
    assert "wgmma.mma_async" in built("partial", partial, "cuda:sm_90")[1].assembly
    built("total", total, "cuda:sm_90")


@pytest.mark.parametrize("case", [
    conv((64, 32, 58, 58), (128, 32, 56, 56), "taps", dtype="bfloat16"),
    conv((8, 256, 30, 30), (256, 8, 3, 3), "groups", dtype="bfloat16", feature_group_count=32),
], ids=str)  # fmt: skip
def test_convolutions_cut_in_taps_and_groups_for_sm_90(case):
    template = TEMPLATES[case.primitive]
    built(case.note, template.kernel(*case.types, target="cuda:sm_90", **case.params), "cuda:sm_90")


def test_a_fused_split_product_for_sm_90():
    """What goes before a product of few cells is in the kernel of its partial sums, what comes after in their sum's."""

    def layer(x, y, b):
        return tnp.tanh(tnp.exp(x) @ y + b)

    types = [S((64, 32768), "bfloat16"), S((32768, 128), "bfloat16"), S((128,), "bfloat16")]
    binary = tw.compile(layer, *types, target=H200)
    assert [r.kernel for r in binary.resources] == ["contract_split_exp", "reduce_sum_tanh"]
    assert all(r.spills == 0 for r in binary.resources)


TRITON = compiler.PACKAGES.versions()["triton"] or ""


def test_as_many_warps_as_may_be_are_halved_where_they_spill():
    """ptxas leaves 512 threads 64 registers each for this sum, though there are 128."""

    def body(x, o, total):
        tl.when(tl.program_id(2) == 0)(lambda: total.__setitem__(..., tnp.zeros((64, 64), "float32")))
        total[...] += x[...].astype("float32").sum(axis=0)
        tl.when(tl.program_id(2) == 1)(lambda: o.__setitem__(..., total[...].astype("bfloat16")))

    call = tl.kernel_call(
        body, S((8, 1024, 64), "bfloat16"), grid=(8, 16, 2), scratch_shapes=[tl.VMEM((64, 64), "float32")],
        in_specs=[tl.BlockSpec((8, None, 64, 64), lambda i, j, k: (k, i, j, 0))],
        out_specs=tl.BlockSpec((None, 64, 64), lambda i, j, k: (i, j, 0)))  # fmt: skip
    (used,) = tw.compile(call, S((16, 8, 1024, 64), "bfloat16"), target="cuda:sm_90").resources
    halved = used.note.startswith("num_warps 8 in place of 16")
    assert used.spills <= 1024 and halved == (numbers(TRITON) < (3, 8)), used  # later ones spill 20 bytes of 16 warps


def test_a_derivative_that_does_not_fit_gets_smaller_blocks():
    """Half of the channels of a convolution at a time; the operands' gradients are as before."""
    gradient = tw.grad(lambda *xs: tnp.sum(conv1d.call(*xs, block=32)))
    found = kernels_of(tw.make_jaxpr(gradient)(S((64, 32), "float32"), S((3, 32, 64), "float32")))
    (kernel,) = [k for k in found if k.name == "conv1d_bwd_x"]
    whole = fitted(kernel, target_of(H200))
    narrow = replace(target_of(H200), fast_bytes=whole.compiled.shared - 1)
    found = fitted(kernel, narrow)
    assert not whole.note and found.compiled.shared <= narrow.fast_bytes
    assert "in place of" in found.note and found.note.startswith("blocks of w ")
    assert found.module.grid != whole.module.grid


def test_a_derivative_that_spills_gets_fewer_rows_than_a_product_may_have():
    """Tensor cores take products from 16 rows on; the gradient of a cross entropy has no product."""
    gradient = tw.grad(functools.partial(lambda *xs, **to: cross_entropy(*xs, **to).sum(), rows=16, columns=2048))
    found = tw.compile(gradient, S((256, 50257), "bfloat16"), S((256, 1), "int32"), target="cuda:sm_90").resources
    assert all(r.spills <= 1024 for r in found)
    assert "blocks of in0 8x2048 in place of 16x2048" in next(r.note for r in found if r.kernel == "cross_entropy_bwd")


@pytest.mark.targets
def test_the_gradient_of_attention_in_large_blocks_fits():
    """Of 128 queries and keys each: branches are run again rather than kept, and what does not fit is cut."""
    q, k = S((2, 8, 1024, 64), "bfloat16"), S((2, 2, 1024, 64), "bfloat16")
    call = functools.partial(flash_window, rows=128, columns=128, window=512)
    gradient = tw.grad(lambda *xs: tnp.sum(call(*xs).astype("float32") ** 2), (0, 1, 2))
    found = {r.kernel: r for r in tw.compile(gradient, q, k, k, target="cuda:sm_90").resources}
    assert found["flash_window_bwd"].spills <= 1024


def test_a_derivative_that_does_not_fit_gets_fewer_stages():
    """Unless its author says how many: the parameters of the kernel itself are a start."""
    size = int4_matmul.LARGE
    dtypes = ("float32", *int4_matmul.DTYPES[1:])
    types = [S(x.shape, d) for x, d in zip(int4_matmul.make(np.random.default_rng(0), *size.dims), dtypes)]
    wide, few = tl.triton.CompilerParams(num_stages=3), tl.triton.CompilerParams(num_stages=1)

    def gradient(**options):
        call = functools.partial(int4_matmul.call, **size.blocks, **options)
        return tw.grad(lambda *xs: call(*xs).astype("float32").sum())

    for options in ({}, {"compiler_params": wide}):
        notes = [r.note for r in tw.compile(gradient(**options), *types, target=H200).resources]
        assert any(re.fullmatch(r"num_stages \d in place of 3, for [\d,]+ bytes of shared memory", n) for n in notes)
    assert "to make it fit: num_stages" in str(tw.explain(gradient(), *types, target=H200, compile=True))
    with pytest.raises(ResourceError, match="shared memory"):
        tw.compile(gradient(compiler_params=replace(few, backward=wide)), *types, target=H200)
    assert not any(r.note for r in tw.compile(gradient(compiler_params=few), *types, target=H200).resources)


@pytest.mark.parametrize("name", FUSED)
def test_fused_operations_for_sm_90(name):
    """Forwards and backwards, at sizes of use."""
    build_all(fused(name, "cuda:sm_90"), "cuda:sm_90")


@pytest.mark.parametrize("target", ("cuda:sm_90", *OTHERS))
def test_a_step_of_adamw(target):
    build_all(adamw(target), target)


@pytest.mark.targets
@pytest.mark.parametrize("target", OTHERS)
@pytest.mark.parametrize("name", FUSED)
def test_fused_operations_elsewhere(name, target):
    build_all(fused(name, target), target)


@pytest.mark.targets
@pytest.mark.parametrize("target", ("cuda:sm_90", *OTHERS))
@pytest.mark.parametrize("name", FUSED_MORE)
def test_fused_operations_of_other_sizes_and_dtypes(name, target):
    build_all(fused(name, target), target)


@pytest.mark.targets
@pytest.mark.parametrize("target", ("cuda:sm_90", *OTHERS))
def test_the_corpus_in_every_size(target):
    build_all(list(corpus()), target)


@pytest.mark.targets
@pytest.mark.parametrize("target", OTHERS)
def test_every_template_elsewhere(target):
    machine = target_of(target)
    build_all([(n, template(n, machine)) for n in TEMPLATE_CASES if n not in COMPLEX], target)


@pytest.mark.parametrize("name", sorted(COMPLEX))
def test_complex_numbers_are_refused(name):
    with pytest.raises((tw.errors.DtypeError, tw.errors.UnsupportedError), match="complex64"):
        compiled_kernel(template(name, target_of("cuda:sm_90")), target_of("cuda:sm_90"))


@pytest.mark.parametrize(
    ("dtype", "target", "words"),
    [("float8_e4m3fn", "cuda:sm_80", "no instructions"), ("float8_e4m3fn", "rocm:gfx942", "no instructions"),
     ("int4", "cuda:sm_90", "is a byte"), ("float8_e4m3fn", "cuda:sm_90", None), ("float64", "cuda:sm_90", None)],
)  # fmt: skip
def test_dtypes_that_a_target_lacks_are_refused(dtype, target, words):
    spec = tl.BlockSpec((64,), lambda i: (i,))
    (kernel,) = kernels_in(
        lambda x: tl.kernel_call(double, S((64,), dtype), grid=1, in_specs=[spec], out_specs=spec)(x),
        [ArrayType((64,), dtype)],
    )
    if words is None:
        built("double", kernel, target)
        return
    with pytest.raises((tw.errors.DtypeError, tw.errors.UnsupportedError), match=f"{dtype}.*{words}"):
        compiled_kernel(kernel, target_of(target))


# ------------------------------------------------------------------------------------------------ what is in the code


def matmul(dtype="bfloat16", n=1024, **blocks):
    array = ArrayType((n, n), dtype)
    blocks = {"rows": 128, "columns": 128, "depth": 64} | blocks
    return kernels_in(lambda x, y: matmul_grid.call(x, y, **blocks), [array, array], "matmul")[0]


@pytest.mark.parametrize(
    ("target", "instruction"),
    [("cuda:sm_80", "mma.sync"), ("cuda:sm_90", "wgmma.mma_async"), ("cuda:sm_100", "tcgen05.mma"),
     ("rocm:gfx942", "v_mfma")],
)  # fmt: skip
def test_a_matmul_runs_on_the_matrix_units(target, instruction):
    _, compiled, _ = built("matmul", matmul(), target)
    assert instruction in compiled.assembly


@pytest.mark.parametrize("target", ["cuda:sm_80", "cuda:sm_90", "cuda:sm_100"])
def test_the_loop_of_a_matmul_is_pipelined(target):
    """Blocks of later steps are on their way to shared memory while one is multiplied."""
    module, compiled, found = built("matmul", matmul(), target)
    step = 2 * (128 * 64 + 64 * 128)
    assert IN_FLIGHT.search(compiled.assembly)
    assert found.fast_bytes >= step * (module.num_stages - 1)


@pytest.mark.parametrize("name", ["attention", "attention-causal", "swiglu"])
def test_fused_products_run_on_the_matrix_units_and_their_loops_are_pipelined(name):
    for label, kernel in fused(name, "cuda:sm_90"):
        assembly = built(label, kernel, "cuda:sm_90")[1].assembly
        assert "wgmma.mma_async" in assembly and IN_FLIGHT.search(assembly), label


def test_rows_are_loaded_in_vectors():
    spec = tl.BlockSpec((8, 1024), lambda i: (i, 0))
    array = ArrayType((64, 1024), "float32")
    (kernel,) = kernels_in(
        lambda x: tl.kernel_call(double, S((64, 1024), "float32"), grid=8, in_specs=[spec], out_specs=spec)(x), [array]
    )
    assert "ld.global.v4.b32" in built("double", kernel, "cuda:sm_90")[1].assembly


def test_resources_are_those_of_the_binary(tmp_path):
    """Triton's log, which `resources` reads, against what NVIDIA's tool says of the machine code."""
    _, compiled, found = built("matmul", matmul("float32"), "cuda:sm_80")
    (tmp_path / "k.cubin").write_bytes(compiled.binary)
    tool = cuda._toolkit(False).name
    tool = os.path.join(os.path.dirname(os.path.realpath(os.path.join(tool, "bin", "ptxas"))), "cuobjdump")
    said = subprocess.run([tool, "--dump-resource-usage", tmp_path / "k.cubin"], capture_output=True, text=True)
    registers, stack = re.search(r"REG:(\d+) STACK:(\d+)", said.stdout).groups()
    assert (found.registers, found.spills) == (int(registers), int(stack))


# ------------------------------------------------------------------------------------------------ whole programs


def double(x, o):
    o[...] = x[...] * 2


def sum_and_difference(x, y, s, d):
    s[...] = x[...] + y[...]
    d[...] = x[...] - y[...]


def program(x, y):
    """Two kernels, the second with two results of which one starts as an operand, and array operations around them."""
    spec = tl.BlockSpec((128,), lambda i: (i,))
    shape = S(x.shape, x.dtype)
    doubled = tl.kernel_call(double, shape, grid=tl.cdiv(x.shape[0], 128), in_specs=[spec], out_specs=spec)(x)
    pair = tl.kernel_call(sum_and_difference, (shape, shape), grid=tl.cdiv(x.shape[0], 128), in_specs=[spec, spec],
                          out_specs=[spec, spec], input_output_aliases={0: 1})  # fmt: skip
    s, d = pair(tnp.sort(doubled), y)
    return tnp.sin(s).sum(), d[::2]


@pytest.mark.parametrize("target", ["cuda:sm_90", H200, "cuda"])
def test_a_whole_program(target):
    array = S((1000,), "float32")
    binary = tw.compile(program, array, array, target=target)
    assert {"double", "sum_and_difference"} <= {r.kernel for r in binary.resources}
    assert all(r.spills == 0 and r.registers for r in binary.resources)
    text = binary.as_text()
    assert text.count('custom_call_target="__gpu$xla.gpu.ptx"') == len(binary.resources)
    assert "output_to_operand_aliasing" in text
    assert len(binary.serialize()) > 1000 and binary.memory_analysis().argument_size_in_bytes >= 8000
    with pytest.raises(tw.errors.UnsupportedError, match="not a device of this process"):
        binary(1, 2)


def test_a_program_for_rocm_is_its_kernels():
    array = S((1000,), "float32")
    binary = tw.compile(program, array, array, target="rocm:gfx942")
    assert all(k.binary[:4] == b"\x7fELF" for k in binary.kernels) and len(binary.kernels) == len(binary.resources) >= 2
    assert "__gpu$xla.gpu.triton" in binary.module and "tt.func" in binary.module
    for method in (binary.as_text, binary.serialize, binary.cost_analysis, binary.memory_analysis):
        with pytest.raises(tw.errors.UnsupportedError, match="kernels alone.*not compiled"):
            method()


def test_a_gradient_compiles():
    array = S((64, 64), "float32")

    def loss(x, y):
        return matmul_grid.call(x, y, rows=32, columns=32, depth=32).sum()

    binary = tw.compile(tw.grad(loss, (0, 1)), array, array, target=H200)
    assert len(binary.resources) >= 2


def block_step(params, state, tokens, labels):
    """A training step of a language model of one transformer block."""
    d, heads = params["out"].shape[0], 4

    def loss(p):
        x = p["embed"][tokens]
        b, t, _ = x.shape
        qkv = (fused_ops.rms_norm(x, p["scale"]) @ p["qkv"]).reshape(b, t, 3, heads, d // heads)
        q, k = (fused_ops.rotary_embedding(qkv[:, :, i]) for i in range(2))
        x = x + fused_ops.dot_product_attention(q, k, qkv[:, :, 2], is_causal=True).reshape(b, t, d) @ p["out"]
        x = x + fused_ops.swiglu(fused_ops.layer_norm(x), p["gate"], p["up"], p["down"])
        return fused_ops.linear_cross_entropy(x, p["embed"].T, labels)

    value, grads = tw.value_and_grad(loss)(params)
    return value, *fused_ops.adamw(params, grads, state, learning_rate=1e-3)


def block_types(d=256, hidden=512, classes=1000, tokens=(2, 256)):
    shapes = {"embed": (classes, d), "scale": (d,), "qkv": (d, 3 * d), "out": (d, d), "gate": (d, hidden),
              "up": (d, hidden), "down": (hidden, d)}  # fmt: skip
    moments = {name: S(shape, "float32") for name, shape in shapes.items()}
    return ({name: S(shape, "bfloat16") for name, shape in shapes.items()},
            {"count": S((), "int32"), "m": moments, "v": moments}, S(tokens, "int32"), S(tokens, "int32"))  # fmt: skip


def compile_block(target):
    binary = tw.compile(block_step, *block_types(), target=target)
    assert {"attention", "attention_dq", "attention_dkv", "swiglu", "swiglu_backward", "cross_entropy", "adamw",
            "rotary"} <= {r.kernel for r in binary.resources}  # fmt: skip
    assert [r for r in binary.resources if r.spills > SPILLS.get((target, r.kernel), (0, ""))[0]] == []
    return binary


def test_a_training_step_of_a_transformer_block():
    binary = compile_block(H200)
    assert len(binary.serialize()) > 1000 and 'custom_call_target="__gpu$xla.gpu.ptx"' in binary.as_text()


@pytest.mark.targets
@pytest.mark.parametrize("target", OTHERS)
def test_a_training_step_of_a_transformer_block_elsewhere(target):
    assert compile_block(target).kernels


# ------------------------------------------------------------------------------------------------ what is refused


def test_too_much_shared_memory_is_named():
    with pytest.raises(tw.errors.ResourceError) as caught:
        compiled_kernel(matmul("float32", 4096, rows=128, columns=64, depth=512), target_of("cuda:sm_90"))
    text = str(caught.value)
    needs = int(re.search(r"kernel matmul needs (\d+) bytes of shared memory", text)[1])
    assert needs > 232448 and "cuda:sm_90 has 232448" in text and "num_stages" in text
    assert "232448: x, 128x512 f32, takes 262,144; y, 512x64 f32, takes 131,072" in text  # the largest first
    assert "blocks of x 128x256 in place of 128x512, y 256x64 in place of 512x64 would fit" in text


def test_a_launch_within_the_limit_passes():
    check(compiled_kernel(matmul(), target_of("cuda:sm_90"))[1], target_of("cuda:sm_90"))


def refused(text, name="k", target="cuda:sm_90", workers=None):
    with pytest.raises(tw.errors.CompileError) as caught:
        compiler.machine_code(module_of(text, name), target_of(target), workers=workers)
    return str(caught.value)


FUNCTION = "module {{ tt.func public @k(%a: !tt.ptr<f32>, %b: !tt.ptr<f32>) {{ {body} tt.return }} }}"
EXTERN = """%x = tt.load %a : !tt.ptr<f32>
 %y = tt.extern_elementwise %x {libname = "", libpath = "", pure = true, symbol = "__nv_nothing"} : (f32) -> f32
 tt.store %b, %y : !tt.ptr<f32>"""


def module_of(text, name="k"):
    return TritonModule(name, text, (1, 1, 1), (), (), num_warps=4, num_stages=3)


def plain(number):
    """A program that does nothing, and is like no other."""
    return FUNCTION.format(body=f"%c = arith.constant {number} : i32 ")


def test_blocks_of_too_many_elements_are_named():
    spec = tl.BlockSpec((3000, 1000), lambda i: (i, 0))
    whole = S((6000, 1000), "float32")
    with pytest.raises(tw.errors.ResourceError) as caught:
        tw.compile(tl.kernel_call(double, whole, grid=2, in_specs=[spec], out_specs=spec), whole, target="cuda:sm_90")
    text = str(caught.value)
    for words in ("kernel double", "4,194,304 elements", "(4096, 1024)", "1,048,576", "smaller blocks", "test_compile"):
        assert words in text, text


def test_what_triton_refuses_is_told_in_its_words():
    assert "custom op 'nonsense' is unknown" in refused("module { nonsense }")
    odd = "%r = tt.make_range {end = 96 : i32, start = 0 : i32} : tensor<96xi32>"
    assert "power-of-two" in refused(FUNCTION.format(body=odd))
    words = "Unresolved extern function '__nv_nothing'" if numbers(TRITON) < (3, 8) else "PTXAS error"
    assert words in refused(FUNCTION.format(body=EXTERN))
    assert "tests/triton_backend/test_compile.py" in refused("module { nonsense }")  # the user's line


def workers_of(folder, code, **options):
    """Workers that run a script."""
    script = folder / "worker.py"
    script.write_text(code)
    return Workers("A compiler", script, **options)


CRASHING = """import os, sys
class Compiler:
    def answer(self, request):
        sys.stderr.write('LLVM ERROR: out of luck\\n')
        sys.stderr.flush()
        os.abort()
"""


def test_a_crash_of_the_compiler_is_an_error_and_the_next_kernel_compiles(tmp_path):
    text = refused(plain(1), workers=workers_of(tmp_path, CRASHING))
    assert "ended with signal 6" in text and "LLVM ERROR: out of luck" in text
    module = module_of(plain(2))
    assert compiler.machine_code(module, target_of("cuda:sm_90")).binary


def test_a_compiler_that_hangs_is_stopped(tmp_path):
    hanging = workers_of(tmp_path, "import time\ntime.sleep(60)\n", seconds=0.2)
    assert "was stopped after" in refused(plain(3), workers=hanging)


ANSWERING = """import itertools
class Compiler:
    def __init__(self):
        self.numbers = itertools.count()
    def answer(self, request):
        return {"asked": request, "number": next(self.numbers), "log": ""}
"""


def test_answers_are_kept_in_memory_and_on_disk(tmp_path):
    kept = {}
    cache = type("Cache", (), {"load": kept.get, "store": kept.__setitem__})()
    workers = workers_of(tmp_path, ANSWERING)
    workers.cache = lambda: cache
    first = workers.start({"text": "a"}).result()
    assert first == {"asked": {"text": "a"}, "number": 0, "log": ""}
    assert workers.start({"text": "b"}).result()["number"] == 1  # the same process
    assert workers.start({"text": "a"}).result() is first
    assert sorted(json.loads(data)["number"] for data in kept.values()) == [0, 1]
    workers.known.clear()
    assert workers.start({"text": "a"}).result() == first  # from the disk: asked again, it would have number 2
    workers.end()
    other = Workers("A compiler", workers.script, version="other")  # of another version: nothing is taken over
    other.cache = lambda: cache
    other.start({"text": "a"}).result()
    assert len(kept) == 3
    other.end()


def test_answers_are_kept_where_the_asking_thread_wants_them(tmp_path):
    workers = workers_of(tmp_path, ANSWERING)
    workers.cache = disk_cache
    for number, folder in enumerate(("one", "other")):
        with tw.config(cache_dir=str(tmp_path / folder)):
            asked = workers.start({"text": folder})
        assert asked.result()["number"] == number
        assert len(list((tmp_path / folder).glob("*.xla"))) == 1, folder
    workers.known.clear()
    with tw.config(cache_dir=str(tmp_path / "other")):
        assert workers.start({"text": "other"}).result()["number"] == 1  # from the disk
    workers.known.clear()
    with tw.config(cache_dir=""):
        assert workers.start({"text": "other"}).result()["number"] == 2  # asked again
    workers.end()


def test_machine_code_is_what_the_workers_answer():
    module = module_of(plain(4))
    first = compiler.machine_code(module, target_of("cuda:sm_90"))
    assert first.num_warps == 4
    compiler.WORKERS.known.clear()
    again = compiler.machine_code(module, target_of("cuda:sm_90"))
    assert replace(again, log="") == replace(first, log="")  # the log tells how long it took


@pytest.mark.parametrize("target", ["cuda:sm_70", "cuda:hopper", "rocm:gfx803"])
def test_an_unknown_architecture_is_named(target):
    with pytest.raises(tw.errors.ArgumentError, match=f"{target}.*\n(.*\n)*.*cuda:sm_90"):
        tw.compile(lambda x: x + 1, S((4,), "float32"), target=target)


def test_a_missing_or_other_triton_is_named(monkeypatch):
    module = module_of(plain(5))
    for version, words in ((None, r"pip install 'tilewright\[cuda\]'"), ("2.1.0", "triton 2.1.0 is installed")):
        monkeypatch.setattr(Packages, "versions", lambda self, version=version: {"triton": version})
        with pytest.raises(tw.errors.VersionError, match=words):
            compiler.machine_code(module, target_of("cuda:sm_90"))


def test_descriptors_are_spelled_as_the_release_of_triton_parses_them():
    line = "%d : !tt.tensordesc<{}> -> tensor<64x32xf16>"
    nested, flat = line.format("tensor<64x32xf16>"), line.format("64x32xf16")
    assert {version_compat.adapted(nested, version) for version in ("3.6.0", "3.7.1")} == {nested}
    assert {version_compat.adapted(nested, version) for version in ("3.8.0", "3.9.0", "3.10.1")} == {flat}


def test_a_missing_or_other_plugin_is_named(monkeypatch):
    monkeypatch.setattr(cuda.importlib.metadata, "version", lambda name: "0.4.30")
    with pytest.raises(tw.errors.VersionError, match="jax-cuda13-pjrt 0.4.30 is installed"):
        cuda.library()
    monkeypatch.setattr(cuda, "installed", lambda: False)
    with pytest.raises(tw.errors.VersionError, match=r"pip install 'tilewright\[cuda\]'"):
        cuda.library()


CALL = """module @m { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %r = stablehlo.custom_call @nobody(%a) {api_version = 4 : i32} : (tensor<4xf32>) -> tensor<4xf32>
  return %r : tensor<4xf32> } }"""


def test_what_xla_refuses_is_named():
    with pytest.raises(tw.errors.CompileError, match="f for cuda:sm_90"):
        cuda.compile(CALL, "cuda:sm_90", "f")


@pytest.mark.skipif(shutil.which("nvidia-smi") is not None, reason="there is a GPU")
def test_a_gpu_that_is_not_here_is_named():
    with pytest.raises(tw.errors.DriverError, match="no GPU here"):
        tw.devices("gpu")
    with pytest.raises(tw.errors.DriverError, match="no GPU here"):
        tw.device_put(1.0, "cuda")
