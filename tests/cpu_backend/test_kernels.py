"""Kernels as machine code equal the interpreter, with guard pages around every buffer."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import tilewright as tw
from tests.support import random_kernels
from tests.support.corpus.called import kernel_of
from tests.support.corpus.runs import KERNELS, NAMES, SMOOTH, Split, operands, over_sizes
from tests.support.corpus.small import EXAMPLES
from tests.support.machine_code import called, machine_code, needs_llvm
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.support import pytree
from tilewright.core.tracing.trace import eval_program, trace_program, typeof
from tilewright.cpu_backend.lowering.kernel import code_of
from tilewright.cpu_backend.machine.features import features
from tilewright.errors import UnsupportedError
from tilewright.lang.call.primitive import kernel_call_p
from tilewright.lang.interpret.interpreter import interpret
from tilewright.lang.targets.target import CPU

pytestmark = needs_llvm
AVX2 = features().without("avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd", "avx512vnni", "avx512bf16")


def equal(got, wanted):
    for g, w in zip(got, wanted, strict=True):
        assert g.shape == w.shape and g.dtype == w.dtype
        g, w = (x.astype(np.float64) for x in (g, w))
        known = ~np.isnan(w)
        scale = max(1.0, float(np.abs(w[known & np.isfinite(w)]).max(initial=0)))
        few = str(wanted[0].dtype) in ("bfloat16", "float16")
        np.testing.assert_allclose(g[known], w[known], rtol=2e-2 if few else 2e-5, atol=(2e-2 if few else 2e-5) * scale)


def held(function, arrays, machine=None):
    """Hold each kernel that a function calls against the interpreter, at the operands that it has there."""
    leaves, structure = pytree.flatten(tuple(arrays))
    program = trace_program(lambda *xs: pytree.leaves(function(*structure.unflatten(xs))), [typeof(x) for x in leaves])
    values = {**dict(zip(program.inputs, leaves)), **dict(zip(program.constants, program.values))}

    def read(atom):
        return values[atom] if atom in values else atom.value

    for eqn in program.eqns:
        given = [np.asarray(read(a)) for a in eqn.inputs]
        if eqn.primitive is kernel_call_p:
            kernel = eqn.params["kernel"]
            found = interpret(kernel, *given)
            for high in (False, True):
                equal(machine_code(kernel, *given, high=high, machine=machine), found)
        else:
            alone = tw.core.ir.program.Program(
                [v for v in dict.fromkeys(a for a in eqn.inputs if a in values)], [eqn], eqn.outputs
            )
            found = eval_program(alone, *(values[v] for v in alone.inputs))
        values.update(zip(eqn.outputs, map(np.asarray, found)))


@over_sizes(NAMES)
def test_kernels_of_the_corpus(kernel, size, mode):
    held(lambda *xs: kernel.call(*xs, **size.blocks, **mode), operands(kernel, size))


@pytest.mark.skipif(features().architecture != "x86-64", reason="of x86-64")
@pytest.mark.parametrize("name", ["softmax", "layer_norm", "matmul_grid", "flash_attention", "int8_matmul"])
def test_the_corpus_without_avx512(name):
    kernel = KERNELS[name]
    size = kernel.SIZES[0]
    held(lambda *xs: kernel.call(*xs, **size.blocks), operands(kernel, size), AVX2)


@over_sizes(SMOOTH, usual=slice(1))
def test_their_gradients(kernel, size, mode):
    split = Split(kernel, size, mode)
    arrays = [split.all[i] for i in split.places]

    def loss(*given):
        full = list(split.all)
        for i, x in zip(split.places, given, strict=True):
            full[i] = x
        outs = pytree.leaves(kernel.call(*full, **size.blocks, **mode))
        return sum(tnp.sum(o * o) for o in outs if o.dtype.kind == "f")

    held(tw.grad(loss, tuple(range(len(arrays)))), arrays)


@pytest.mark.parametrize("name", sorted(EXAMPLES) if isinstance(EXAMPLES, dict) else range(len(EXAMPLES)))
def test_small_kernels(name):
    example = EXAMPLES[name]
    kernel = kernel_of(example)
    leaves = [np.asarray(x) for x in pytree.leaves(tuple(example.operands))]
    try:
        found = machine_code(kernel, *leaves)
    except UnsupportedError:
        return
    equal(found, interpret(kernel, *leaves))


def random_ones(seeds, machine=None):
    for seed in seeds:
        with tw.config(debug_checks=False):
            drawn = random_kernels.Draw(seed).kernel()
        if not random_kernels.check(drawn, False).endswith("right"):
            continue
        found = machine_code(drawn.kernel, *drawn.arrays, high=bool(seed % 2), machine=machine)
        assert random_kernels.same(found, interpret(drawn.kernel, *drawn.arrays)), drawn.words


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_random_kernels_are_equal_bit_for_bit(first):
    random_ones(range(first, first + 20))


@pytest.mark.skipif(features().architecture != "x86-64", reason="of x86-64")
@pytest.mark.parametrize("first", range(60, 100, 20))
def test_random_kernels_without_avx512(first):
    assert AVX2.bits == 256
    random_ones(range(first, first + 20), AVX2)


@pytest.mark.targets
@pytest.mark.parametrize("first", range(1000, 6000, 100))
def test_many_random_kernels(first):
    random_ones(range(first, first + 100))


# ---------------------------------------------------------------------------- routes


def softmax(rows, columns, block, route, dtype=np.float32):
    def body(x_ref, o_ref):
        x = x_ref[...]
        e = tnp.exp(x - tnp.max(x, axis=1, keepdims=True))
        o_ref[...] = e / tnp.sum(e, axis=1, keepdims=True)

    spec = tl.BlockSpec((block, columns), lambda i: (i, 0))
    return lambda x: tl.kernel_call(
        body, out_shape=tw.ShapeDtypeStruct((rows, columns), dtype), grid=(tl.cdiv(rows, block),), in_specs=[spec],
        out_specs=spec, compiler_params=tl.cpu.CompilerParams(route=route))(x)  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
@pytest.mark.parametrize(("rows", "columns", "block"), [(7, 5, 2), (64, 100, 8), (33, 1000, 8), (512, 1024, 8)])
def test_a_kernel_in_a_program(rows, columns, block, dtype):
    with tw.config(enable_x64=True):
        x = np.random.default_rng(0).standard_normal((rows, columns)).astype(tnp.dtype(dtype))
        run = tw.jit(softmax(rows, columns, block, "machine_code", x.dtype))
        found = np.asarray(run(x))
        assert found.dtype == x.dtype
        few = np.dtype(x.dtype).itemsize == 2
        wanted = np.asarray(softmax(rows, columns, block, "xla", x.dtype)(x)).astype(np.float64)
        np.testing.assert_allclose(
            found.astype(np.float64), wanted, rtol=3e-2 if few else 1e-5, atol=1e-3 if few else 1e-6
        )
        np.testing.assert_array_equal(np.asarray(run(x)), found)


def test_gradients_take_the_route_too():
    x = np.random.default_rng(1).standard_normal((16, 24), np.float32)
    one, two = (
        tw.jit(tw.grad(lambda x, route=route: tnp.sum(softmax(16, 24, 4, route)(x) * x)))(x)
        for route in ("machine_code", "xla")
    )
    np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_results_do_not_depend_on_threads():
    x = np.random.default_rng(2).standard_normal((1024, 512), np.float32)
    (kernel,) = (e.params["kernel"] for e in trace_program(lambda x: [softmax(1024, 512, 8, "machine_code")(x)],
                                                            [typeof(x)]).eqns)  # fmt: skip
    found = np.asarray(tw.jit(softmax(1024, 512, 8, "machine_code"))(x))
    np.testing.assert_array_equal(found, machine_code(kernel, x)[0])


def test_what_has_no_machine_code_is_computed_by_xla_and_explained():
    def body(x_ref, o_ref):
        o_ref[...] = tnp.sort(x_ref[...], axis=1)

    params = tl.cpu.CompilerParams(route="machine_code")
    call = tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct((4, 6), "float32"), compiler_params=params)
    x = np.random.default_rng(3).standard_normal((4, 6), np.float32)
    np.testing.assert_array_equal(tw.jit(call)(x), np.sort(x, 1))
    assert "not machine code" in str(tw.explain(call, x, compile=True))
    assert "machine code of this CPU" in str(tw.explain(softmax(4, 6, 2, "machine_code"), x, compile=True))


def test_a_route_that_there_is_not_is_an_error():
    with pytest.raises(tw.errors.ArgumentError, match="fast"):
        tl.cpu.CompilerParams(route="fast")


# ---------------------------------------------------------------------------- stores that bypass the caches


def doubled(rows, columns, dtype, block=(4, 64), together=False):
    """The kernel of 2 x + 1; with `together` its second grid axis adds to the blocks of its first."""
    def body(x_ref, o_ref):
        o_ref[...] = x_ref[...] * 2 + (tl.program_id(1) if together else 1)

    spec = tl.BlockSpec(block, lambda i, j: (i, j))
    out = tl.BlockSpec(block, lambda i, j: (i, 0)) if together else spec
    shape = (rows, block[1]) if together else (rows, columns)
    grid = tl.cdiv(rows, block[0]), tl.cdiv(columns, block[1])
    call = tl.kernel_call(body, out_shape=tw.ShapeDtypeStruct(shape, dtype), grid=grid, in_specs=[spec], out_specs=out,
                          dimension_semantics=("parallel", "arbitrary"))  # fmt: skip
    program = trace_program(lambda x: [call(x)], [typeof(np.zeros((rows, columns), tnp.dtype(dtype)))])
    return next(e.params["kernel"] for e in program.eqns)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("shape", [(8, 256), (7, 320), (8, 192)])
@pytest.mark.parametrize("high", [False, True])  # not aligned where the end is at a page's
def test_streamed_outputs_are_the_same_aligned_or_not(shape, dtype, high):
    kernel = doubled(*shape, dtype)
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(tnp.dtype(dtype))
    code = code_of(kernel, CPU, threads=1, stream_from=1)
    assert "nontemporal" in code.text and "nontemporal" not in code_of(kernel, CPU, threads=1).text
    (found,) = called(code, [x], high)
    np.testing.assert_array_equal(found, interpret(kernel, x)[0])
    odd = called(code, [x], high, shift=4)[0]
    np.testing.assert_array_equal(odd, found)


def test_what_is_written_again_or_in_place_is_not_streamed():
    for kernel in (doubled(8, 256, "float32", together=True), doubled(8, 250, "float32")):
        assert "nontemporal" not in code_of(kernel, CPU, threads=1, stream_from=1).text
    aliased = dataclasses.replace(doubled(8, 256, "float32"), aliases=((0, 0),))
    assert "nontemporal" not in code_of(aliased, CPU, threads=1, stream_from=1).text
