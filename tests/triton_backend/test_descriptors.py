"""Blocks that the copy engine of sm_90 and later moves: what may be described, and that the numbers stay the same.

The walker runs descriptors by the engine's rules: zeros from outside, nothing written there, aligned strides, and no
order between what the engine and the threads of a program do.
"""

import dataclasses
import functools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support import fused_cases as fused
from tests.support.corpus.runs import KERNELS, NAMES, SMOOTH, Split, operands, over_sizes
from tests.support.gpu.walker import check_all, check_triton, kernels_of
from tests.support.traced import kernels_in
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.kernels.fused import OPERATIONS
from tilewright.lang.gpu.code import resources
from tilewright.lang.kernel.kernel import EDGE
from tilewright.lang.targets.target import TARGETS, target_of
from tilewright.triton_backend import compiled_kernel, compiler
from tilewright.triton_backend.lower import triton_module
from tilewright.xla_backend.devices import cuda_plugin as cuda

S = tw.ShapeDtypeStruct
rng = np.random.default_rng(0)


def moves(text: str) -> tuple[int, int]:
    """How many loads and stores of a program are the copy engine's."""
    return text.count("tt.descriptor_load"), text.count("tt.descriptor_store")


def matmul(dtype: str, shape: tuple[int, int, int], blocks: tuple[int, int, int], **options: Any) -> tl.Kernel:
    (m, k, n), (rows, depth, columns) = shape, blocks
    tiles = {"rows": rows, "columns": columns, "depth": depth}
    call = functools.partial(KERNELS["matmul_grid"].call, **tiles, **options)
    return kernels_in(call, [ArrayType((m, k), dtype), ArrayType((k, n), dtype)], "matmul")[0]


def copies(array: tuple[int, ...], block: tuple[Any, ...], index_map: Any, grid: Any, dtype: str = "float32",
           body: Any = None, **spec: Any) -> tl.Kernel:  # fmt: skip
    """A kernel that doubles an array block by block; `spec` is of the operand's blocks."""

    def double(x, o):
        o[...] = x[...] * 2

    out = tl.BlockSpec(block, index_map)
    call = tl.kernel_call(
        body or double, S(array, dtype), grid=grid, in_specs=[tl.BlockSpec(block, index_map, **spec)], out_specs=out
    )
    return kernels_in(call, [ArrayType(array, dtype)])[0]


def text(kernel: tl.Kernel, asked: bool | None = True, target: str = "cuda:sm_90") -> str:
    return triton_module(kernel, target_of(target), tensor_descriptors=asked).text


# ---------------------------------------------------------------------------- numerics


@pytest.mark.law
@over_sizes(NAMES, usual=slice(0, 2))
def test_corpus(kernel, size, mode):
    call = functools.partial(kernel.call, **size.blocks, **mode)
    assert check_all(check_triton, call, *operands(kernel, size), rtol=1e-3, tensor_descriptors=True)


@pytest.mark.law
@over_sizes(SMOOTH, slice(0, 1))
def test_gradients_of_the_corpus(kernel, size, mode):
    split = Split(kernel, size, mode)
    assert check_all(check_triton, tw.grad(split.loss, split.every), *split.xs, rtol=1e-3, tensor_descriptors=True)


@pytest.mark.parametrize("name", fused.FIRST_OF)
def test_fused_operations_and_their_gradients(name):
    _, args, rest, options, tiles = fused.FIRST_OF[name]
    args, rest, options = fused.arrays((args, rest, options))
    tiles = tiles | ({"target": "cuda:sm_90"} if "target" in tiles else {})
    total = fused.scalar(OPERATIONS[name].function, rest, options | tiles)
    with tw.config(kernel_target="cuda:sm_90"):
        gradients = tw.grad(total, tuple(range(len(args))))
        assert check_all(check_triton, gradients, *args, rtol=1e-3, tensor_descriptors=True)


def test_much_of_the_corpus_is_described():
    """So that the tests above are of something."""
    found = set()
    for name in NAMES:
        size = KERNELS[name].SIZES[0]
        for kernel, _ in kernels_of(functools.partial(KERNELS[name].call, **size.blocks),
                                    *operands(KERNELS[name], size)):  # fmt: skip
            found |= {name} if any(moves(text(kernel))) else set()
    assert found >= {"matmul_grid", "matmul_loop", "batched_matmul", "fused_matmul", "flash_attention", "transpose"}


DTYPES = ("float32", "bfloat16", "float16", "int8", "uint32", "bool")


def power(most: int) -> st.SearchStrategy[int]:
    return st.integers(0, most).map(lambda e: 2**e)


@settings(max_examples=80)
@given(st.data())
def test_any_blocks(data):
    """Ragged arrays of any rank, blocks that the body sees in part, element offsets: as interpreted, and described."""
    dtype = np.dtype(tnp.dtype(data.draw(st.sampled_from(DTYPES))))
    truth = dtype.kind == "b"
    rank = data.draw(st.integers(1, 4))
    block = [*(data.draw(power(3)) for _ in range(rank - 1)), data.draw(power(6))]
    shape = [data.draw(st.integers(1, 2 * n + 1)) for n in block[:-1]]
    unit = max(16 // dtype.itemsize, 1)
    shape.append(data.draw(st.one_of(st.integers(1, 5 * unit), st.integers(1, 5).map(lambda n: n * unit))))
    squeezed = [data.draw(st.booleans()) and n == 1 for n in block[:-1]] + [False]
    fill = data.draw(st.sampled_from([None, 0, 1]))
    sizes = tuple(None if gone else n for gone, n in zip(squeezed, block))
    grid = tuple(-(-n // size) for n, size in zip(shape, block))
    assume(int(np.prod(grid)) <= 64)

    def body(x, o):
        o[...] = ~x[...] if truth else x[...] * 2

    kernel = copies(tuple(shape), sizes, lambda *ids: ids, grid, dtype.name, body, fill=fill)
    x = (rng.normal(size=shape) * 50).astype(np.float32)
    check_triton(kernel, (x > 0 if truth else x.astype(dtype)), tensor_descriptors=True)
    aligned = (rank == 1 or shape[-1] * dtype.itemsize % 16 == 0) and block[-1] * dtype.itemsize >= 16
    ragged = any(n % size for n, size in zip(shape, block))
    assert moves(text(kernel)) == (int(aligned and not (fill == 1 and ragged)), int(aligned))


@settings(max_examples=15)
@given(st.tuples(*[st.integers(1, 40)] * 2, st.integers(1, 10)), st.tuples(*[power(4)] * 3), st.booleans())
def test_products_of_any_size(sizes, blocks, wide):
    (m, n, depth), dtype = sizes, "float32" if wide else "float16"
    shape, blocks = (m, depth * 8, n), (blocks[0], max(blocks[1], 8), blocks[2])
    kernel = matmul(dtype, shape, blocks)
    x, y = rng.normal(size=shape[:2]).astype(dtype), rng.normal(size=shape[1:]).astype(dtype)
    check_triton(kernel, x, y, tensor_descriptors=True)
    right = n % (16 // x.itemsize) == 0 and blocks[2] * x.itemsize >= 16  # rows of x always fit
    assert moves(text(kernel))[0] == 1 + right
    assert moves(text(kernel, None))[0] == (0 if wide else (blocks[0] > 1) + right)


def test_windows_that_overlap_and_start_before_the_array():
    def body(x, o):
        o[...] = x[0:8, :] + x[2:10, :] + x[tl.ds(tl.program_id(0) % 2, 8), :]

    spec = tl.BlockSpec((tl.Element(10, (1, 1)), 16), lambda i, j: (i * 8, j), fill=0)
    call = tl.kernel_call(body, S((32, 64), "float32"), grid=(4, 4), in_specs=[spec],
                          out_specs=tl.BlockSpec((8, 16), lambda i, j: (i, j)))  # fmt: skip
    ((kernel, arrays),) = kernels_of(call, rng.normal(size=(32, 64)).astype(np.float32))
    assert moves(text(kernel)) == (3, 1)
    check_triton(kernel, *arrays, tensor_descriptors=True)


# ---------------------------------------------------------------------------- when


def test_by_default_products_alone():
    """Their operands of 16-bit floats. Others, and results, are described when asked, none when refused."""
    product = matmul("bfloat16", (256, 128, 256), (64, 32, 64))
    assert moves(text(product, None)) == (2, 0) and moves(text(product, False)) == (0, 0)
    wide = matmul("float32", (256, 128, 256), (64, 32, 64))
    assert moves(text(wide, None)) == (0, 0) and moves(text(wide)) == (2, 1)
    plain = copies((64, 64), (16, 32), lambda i, j: (i, j), (4, 2))
    assert moves(text(plain, None)) == (0, 0) and moves(text(plain)) == (1, 1)


def test_of_a_product_only_what_goes_into_it():
    def body(x, y, bias, o):
        o[...] = x[...] @ y[...] + bias[...]

    whole = [tl.BlockSpec((16, 16), lambda i: (0, 0))] * 3
    call = tl.kernel_call(body, S((16, 16), "float16"), grid=1, in_specs=whole, out_specs=whole[0])
    (kernel,) = kernels_in(call, [ArrayType((16, 16), "float16")] * 3)
    assert moves(text(kernel, None)) == (2, 0) and moves(text(kernel)) == (3, 1)


def test_the_kernel_may_ask():
    params = tl.triton.CompilerParams(tensor_descriptors=False)
    kernel = matmul("bfloat16", (256, 128, 256), (64, 32, 64), compiler_params=params)
    assert moves(text(kernel, None)) == (0, 0) and moves(text(kernel, True)) == (2, 1)


@pytest.mark.parametrize("target", [t for t in TARGETS if t.startswith(("cuda", "rocm"))])
def test_only_targets_with_a_copy_engine(target):
    kernel = matmul("bfloat16", (256, 128, 256), (64, 32, 64))
    for asked in (None, True):
        assert ("descriptor" in text(kernel, asked, target)) == target.startswith(("cuda:sm_90", "cuda:sm_100"))


def test_descriptors_are_made_once_before_the_loop():
    lines = text(matmul("bfloat16", (256, 128, 256), (64, 32, 64))).splitlines()
    made = [i for i, line in enumerate(lines) if "make_tensor_descriptor" in line]
    (loop,) = (i for i, line in enumerate(lines) if "scf.for" in line)
    assert len(made) == 3 and max(made) < loop


def test_squeezed_axes_are_sizes_of_one():
    kernel = copies((2, 32, 3, 16), (None, 16, None, 16), lambda b, i, h: (b, i, h, 0), (2, 2, 3))
    assert "<tensor<1x1x16x16xf32>>" in text(kernel) and moves(text(kernel)) == (1, 1)
    check_triton(kernel, rng.normal(size=(2, 32, 3, 16)).astype(np.float32), tensor_descriptors=True)


NOT_DESCRIBED = {
    "rows of 200 bytes": lambda: copies((64, 100), (16, 32), lambda i, j: (i, j), (4, 4), "bfloat16"),
    "8 bytes of a row": lambda: copies((64, 64), (16, 4), lambda i, j: (i, j), (4, 16), "bfloat16"),
    "the last axis squeezed": lambda: copies((64, 64), (16, None), lambda i, j: (i, j), (4, 64)),
    "a block that is no power of two": lambda: copies((48, 64), (24, 32), lambda i, j: (i, j), (2, 2)),
    "a block too long": lambda: copies((8, 1024), (8, 512), lambda i: (0, i), 2),
    "six axes": lambda: copies((1,) * 4 + (8, 8), (1,) * 4 + (8, 8), lambda i: (0,) * 6, 1),
    "a map that is not affine": lambda: copies((64, 64), (16, 32), lambda i, j: (i ^ 1, j), (4, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_DESCRIBED)
def test_what_cannot_be_described_has_pointers(name):
    kernel = NOT_DESCRIBED[name]()
    assert "descriptor" not in text(kernel)
    check_triton(kernel, *(rng.normal(size=t.shape).astype(t.dtype) for t in kernel.in_types), tensor_descriptors=True)


def twice(x, o):
    o[...] = x[...]

    @tl.when(tl.program_id(0) == 1)
    def _():
        o[...] = x[...] * 3


def in_a_loop(x, o):
    tw.lax.fori_loop(0, 2, lambda i, _: o.__setitem__(..., x[...] * i), None)


@pytest.mark.parametrize("body", [twice, in_a_loop])
def test_what_is_written_twice_is_written_by_threads(body):
    kernel = copies((64, 64), (16, 32), lambda i, j: (i, j), (4, 2), body=body)
    assert moves(text(kernel))[0] > 0 and moves(text(kernel))[1] == 0
    check_triton(kernel, rng.normal(size=(64, 64)).astype(np.float32), tensor_descriptors=True)


def test_what_shares_memory_with_a_result_has_pointers():
    def body(x, y, o):
        o[...] = x[...] + y[...]

    spec = tl.BlockSpec((16, 32), lambda i, j: (i, j))
    call = tl.kernel_call(body, S((64, 64), "float32"), grid=(4, 2), in_specs=[spec, spec], out_specs=spec,
                          input_output_aliases={0: 0})  # fmt: skip
    ((kernel, arrays),) = kernels_of(call, *rng.normal(size=(2, 64, 64)).astype(np.float32))
    assert moves(text(kernel)) == (1, 0)
    check_triton(kernel, *arrays, tensor_descriptors=True)


def test_maps_through_prefetched_scalars_have_pointers():
    kernel = KERNELS["embedding"]
    size = kernel.SIZES[0]
    ((found, _), *_) = kernels_of(functools.partial(kernel.call, **size.blocks), *operands(kernel, size))
    assert moves(text(found))[0] == 0


@pytest.mark.parametrize("edge", [False, True])
@pytest.mark.parametrize(("fill", "columns", "expected"), [
    (0, 40, 1), (-0.0, 40, 0), (1.5, 40, 0), (1.5, 64, 1), (None, 40, 1),
])  # fmt: skip
def test_outside_is_zero(fill, columns, expected, edge):
    expected = expected if not edge or columns == 64 else 0

    def body(x, o):
        o[...] = tnp.broadcast_to(x[...].sum(1, keepdims=True), o.shape)

    spec = tl.BlockSpec((8, 64), lambda i: (i, 0), fill=fill)
    out = tl.BlockSpec((8, 64), lambda i: (i, 0))
    call = tl.kernel_call(body if fill is not None else (lambda x, o: o.__setitem__(..., x[...])),
                          S((16, columns), "float32"), grid=2, in_specs=[spec], out_specs=out)  # fmt: skip
    (kernel,) = kernels_in(call, [ArrayType((16, columns), "float32")])
    if edge:
        kernel = kernel.replace(inputs=(dataclasses.replace(kernel.inputs[0], fill=EDGE),))
    assert moves(text(kernel)) == (expected, 1)
    check_triton(kernel, rng.normal(size=(16, columns)).astype(np.float32), tensor_descriptors=True)


# ---------------------------------------------------------------------------- as machine code

compiled_here = pytest.mark.skipif(
    not compiler.installed() or not cuda.installed(), reason="needs tilewright[cuda]"
)
ENGINE = "cp.async.bulk.tensor"


def built(kernel: tl.Kernel, target: str, asked: bool | None = True) -> tuple[Any, Any]:
    """Machine code, and what it takes; nothing spills."""
    machine = target_of(target)
    compiled = compiler.machine_code(triton_module(kernel, machine, tensor_descriptors=asked), machine)
    found = resources(compiled, machine)
    assert found.spills == 0 and found.fast_bytes <= found.fast_limit
    assert compiled.scratch_align <= 128 and compiled.scratch % 128 == 0
    return compiled, found


def loops(assembly: str) -> list[str]:
    """The parts of a program from a label to the last jump back to it."""
    found = []
    for label in re.finditer(r"^(\$L__BB\d+_\d+):", assembly, re.M):
        jumps = [m.end() for m in re.finditer(rf"bra[.a-z]*\s+{re.escape(label[1])};", assembly)]
        found += [assembly[label.end() : max(jumps)]] if max(jumps, default=0) > label.end() else []
    return found


PRODUCTS = {"cuda:sm_90": "wgmma.mma_async", "cuda:sm_100": "tcgen05.mma"}


@compiled_here
@pytest.mark.parametrize("sizes", [(1024, 1024, 1024), (1000, 1000, 1016)], ids=["even", "ragged"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize("target", PRODUCTS)
def test_a_product_keeps_its_matrix_units_and_its_pipeline(target, dtype, sizes):
    """The loop waits for one tile, multiplies it, and sends for a later one; by default this costs no resources."""
    kernel = matmul(dtype, sizes, (128, 64 if dtype != "float32" else 32, 128))
    compiled, _ = built(kernel, target)
    (inner,) = (part for part in loops(compiled.assembly) if PRODUCTS[target] in part)
    assert ENGINE in inner and "mbarrier.try_wait" in inner and "cp.async.cg" not in compiled.assembly
    assert compiled.scratch == 3 * 128
    if dtype != "float32":
        (default, takes), (_, before) = built(kernel, target, None), built(kernel, target, False)
        assert ENGINE in default.assembly and default.scratch == 2 * 128
        assert takes.registers <= before.registers and takes.fast_bytes <= before.fast_bytes + 64


@compiled_here
@pytest.mark.parametrize("target", PRODUCTS)
@pytest.mark.parametrize("name", ["matmul_grid", "matmul_loop", "batched_matmul", "fused_matmul", "flash_attention"])
def test_products_of_the_corpus_compile(name, target):
    size = KERNELS[name].SIZES[0]
    call = functools.partial(KERNELS[name].call, **size.blocks)
    for kernel, _ in kernels_of(call, *operands(KERNELS[name], size)):
        assert ENGINE in built(kernel, target)[0].assembly


@compiled_here
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int32", "int64", "float8_e5m2", "bfloat16", "float64"])
def test_tiles_of_every_width_compile(dtype):
    def body(x, o):
        o[...] = x[...]

    with tw.config(enable_x64=True):
        for array, block in (((512,), (256,)), ((64, 512), (8, 64)), ((3, 2, 2, 40, 64), (None, 2, None, 8, 32))):
            grid = tuple(-(-n // (size or 1)) for n, size in zip(array, block))
            compiled, _ = built(copies(array, block, lambda *ids: ids, grid, dtype, body), "cuda:sm_90")
            assert compiled.assembly.count(ENGINE) >= 2


@compiled_here
def test_tiles_that_fill_shared_memory_are_named():
    kernel = copies((512, 512), (256, 256), lambda i, j: (i, j), (2, 2))
    kernel = kernel.replace(settings=(("compiler_params", tl.triton.CompilerParams(tensor_descriptors=True)),))
    with pytest.raises(tw.errors.ResourceError, match="shared memory"):
        compiled_kernel(kernel, target_of("cuda:sm_90"))


@compiled_here
@pytest.mark.parametrize("target", ["cuda:sm_80", "rocm:gfx942"])
def test_no_other_target_has_them_as_machine_code(target):
    compiled, _ = built(matmul("float16", (256, 256, 256), (64, 64, 64)), target)
    assert ENGINE not in compiled.assembly and compiled.scratch == 0


@compiled_here
def test_a_whole_program_has_scratch_memory():
    kernel = matmul("float16", (512, 512, 512), (128, 64, 128))
    binary = tw.compile(
        lambda x, y: KERNELS["matmul_grid"].call(x, y, rows=128, columns=128, depth=64),
        *(S(t.shape, t.dtype) for t in kernel.in_types), target="cuda:sm_90:h200",
    )  # fmt: skip
    assert f"u8[{2 * 128 * 16}]" in binary.as_text() and len(binary.serialize()) > 1000
