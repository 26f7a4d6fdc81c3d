"""What a target can take is told before a compiler is asked: tiles, dtypes, memories, cores."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright import errors
from tilewright import lang as tl
from tilewright import numpy as tnp
from tilewright.core.ir.types import ArrayType
from tilewright.lang import tpu
from tilewright.lang.kernel.block_spec import BlockAxis
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.targets.target import MIB, TARGETS, target_of
from tilewright.lang.transforms.fit_vmem import bits_of, in_vmem, padded_bytes, vmem_bytes
from tilewright.lang.verify.target_limits import check_target, tiling_faults

TPUS = [name for name, t in TARGETS.items() if t.kind == "tpu"]
DTYPES = {32: "float32", 16: "bfloat16", 8: "int8"}


def copy_kernel(x, o, *scratch):
    o[...] = x[...]


def sorting(x, o):
    o[...] = tnp.sort(tnp.sort(x[...], axis=0), axis=1)


def copying(shape, block, dtype="float32", **options):
    """A kernel that copies an array block by block."""
    return traced(copy_kernel, shape, block, dtype, **options)


def traced(body, shape, block, dtype="float32", **options):
    """A kernel from an array to one like it, block by block."""
    grid = tuple(-(-n // b) for n, b in zip(shape, block))
    spec = tl.BlockSpec(block, lambda *ids: ids)
    struct = tw.ShapeDtypeStruct(shape, dtype)
    call = tl.kernel_call(body, struct, grid=grid, in_specs=[spec], out_specs=spec, **options)
    (kernel,) = kernels_of(tw.jit(call).trace(struct).jaxpr)
    return kernel


def block_of(shape, block, dtype="float32"):
    return copying(shape, block, dtype).inputs[0]


def test_the_message_names_the_operand_the_tile_and_the_nearest_legal_sizes():
    (fault,) = tiling_faults(block_of((4096, 4100), (128, 100)), target_of("tpu:v5e"))
    assert fault.what == "the last dimension of operand `x` is 100; v5e tiles it by 128"
    assert fault.remedy == "use 128 or the full 4100"
    found = [f for f in check_target(copying((4096, 4100), (128, 100)), "tpu:v5e") if f.verdict == "unknown"]
    assert [f.operand for f in found] == ["x", "o"] and fault.what in found[0].why and fault.remedy in found[0].why
    (rows,) = tiling_faults(block_of((4096, 256), (20, 256)), target_of("tpu:7x"))
    assert rows.what == "the last dimension but one of operand `x` is 20; 7x tiles it by 8"
    assert rows.remedy == "use 16, 24 or the full 4096"


@given(
    st.sampled_from(TPUS),
    st.sampled_from([32, 16, 8]),
    st.tuples(st.integers(1, 300), st.integers(1, 600)),
    st.tuples(st.integers(1, 300), st.integers(1, 600)),
)
def test_the_sizes_that_are_offered_are_legal(target, bits, shape, block):
    machine = target_of(target)
    block = tuple(min(b, n) for b, n in zip(block, shape))
    subject = block_of(shape, block, DTYPES[bits])
    for fault in tiling_faults(subject, machine):
        axis = -1 if fault.what.startswith("the last dimension of") else -2
        for size in fault.legal:
            sizes = list(block)
            sizes[axis] = size
            mended = tiling_faults(dataclasses.replace(subject, axes=tuple(map(BlockAxis, sizes))), machine)
            assert fault.what.partition(" of ")[0] not in [f.what.partition(" of ")[0] for f in mended]


@pytest.mark.parametrize(
    "shape, bits, tile",
    [
        ((4100, 4100), 32, (8, 128)),
        ((4100, 4100), 16, (8, 128)),
        ((64, 512), 8, (32, 128)),
        ((33, 512), 8, (8, 128)),
        ((128, 512), 4, (64, 128)),
        ((1, 512), 32, (1, 128)),
        ((1, 512), 16, (2, 128)),
        ((3, 512), 16, (4, 128)),
        ((2, 512), 8, (4, 128)),
        ((1000,), 32, (128,)),
        ((1000,), 8, (512,)),
        ((), 32, ()),
    ],
)
def test_tiles_are_those_of_libtpu(shape, bits, tile):
    assert target_of("tpu:v5e").tile(shape, bits) == tile


def test_memory_is_counted_in_tiles_and_buffers():
    machine = target_of("tpu:v5e")
    assert padded_bytes((5, 100), np.dtype("float32"), machine) == 8 * 128 * 4
    assert padded_bytes((100,), np.dtype("float32"), machine) == 128 * 4
    kernel = copying((64, 256), (8, 128), scratch_shapes=[tl.VMEM((8, 8), "float32")])
    assert vmem_bytes(kernel, machine) == [("2 of x", 8192), ("2 of o", 8192), ("scratch 0", 4096)]


def test_blocks_that_vmem_does_not_hold_are_split():
    kernel, machine = copying((16384, 8192), (8192, 2048)), target_of("tpu:v5e")
    fitted = in_vmem(kernel, machine)
    assert fitted.note(kernel) == "blocks of x 2048x2048 in place of 8192x2048, o 2048x2048 in place of 8192x2048"
    (finding,) = [f for f in check_target(kernel, "tpu:v5e") if f.operand == "VMEM"]
    assert "64.0 MiB" in finding.why
    fits = copying((8192, 2048), (1024, 2048))
    assert in_vmem(fits, machine).kernel is fits


def test_more_vmem_than_there_is_is_refused_and_more_than_is_given_unasked_is_told():
    with pytest.raises(errors.ResourceError, match=r"kernel sorting: .*256.0 MiB of VMEM .*tpu:v5e has 128 MiB") as e:
        check_target(traced(sorting, (16384, 8192), (8192, 2048), name="sorting"), "tpu:v5e")
    assert "smaller blocks" in str(e.value) and __file__ in str(e.value)
    (finding,) = [f for f in check_target(copying((8192, 2048), (1024, 2048)), "tpu:v5e") if f.operand == "VMEM"]
    assert finding.verdict == "unknown" and "32.0 MiB" in finding.why and "16 MiB" in finding.why
    (finding,) = [f for f in check_target(copying((8192, 2048), (1024, 2048)), "tpu:v6e") if f.operand == "VMEM"]
    assert finding.verdict == "proved"


def test_too_many_scalars_are_refused():
    with pytest.raises(errors.ResourceError, match="SMEM"):
        check_target(copying((8, 128), (8, 128), scratch_shapes=[tl.SMEM((2**19,), "int32")]), "tpu:v5e")


@pytest.mark.parametrize(
    "dtype, target, instead",
    [
        ("complex64", "tpu:v6e", "real and imaginary parts"),
        ("float8_e4m3fn", "cuda:sm_80", "bfloat16"),
        ("float8_e4m3fn", "rocm:gfx942", "bfloat16"),
    ],
)
def test_a_dtype_that_the_target_lacks_is_refused(dtype, target, instead):
    with pytest.raises(errors.DtypeError, match=f"{target} has no {dtype}") as caught:
        check_target(copying((64, 128), (64, 128), dtype), target)
    assert instead in caught.value.remedy


def test_wide_numbers_are_refused_on_a_tpu():
    with tw.config(enable_x64=True):
        kernel = copying((64, 128), (64, 128), "float64")
    with pytest.raises(errors.DtypeError, match="has no float64"):
        check_target(kernel, "tpu:v5p")
    assert check_target(kernel, "cuda:sm_90")


@pytest.mark.parametrize(
    "options",
    [
        {"compiler_params": tpu.CompilerParams(dimension_semantics=(tpu.CORE_PARALLEL, tpu.ARBITRARY))},
        {"dimension_semantics": ("core_parallel", "arbitrary")},
    ],
    ids=["parameters", "argument"],
)
def test_axes_for_several_cores_are_refused_where_there_is_one(options):
    kernel = copying((64, 256), (8, 128), **options)
    for target in ("tpu:v5e", "tpu:v6e", "tpu:7x"):
        with pytest.raises(errors.UnsupportedError, match="axis 0 .* one TensorCore") as caught:
            check_target(kernel, target)
        assert '"parallel"' in caught.value.remedy
    assert check_target(kernel, "tpu:v5p")
    plain = copying((64, 256), (8, 128), dimension_semantics=("parallel", "parallel"))
    assert all(f.verdict == "proved" for f in check_target(plain, "tpu:v5e"))


def test_blocks_of_a_gpu_are_powers_of_two_and_of_limited_size():
    (finding, _) = check_target(copying((100, 100), (10, 100)), "cuda:sm_90")
    assert finding.verdict == "unknown" and "10x100, computed as 16x128" in finding.why
    assert all(f.verdict == "proved" for f in check_target(copying((64, 64), (16, 64)), "cuda:sm_90"))
    (finding, _) = check_target(copying((2048, 2048), (2048, 1024)), "rocm:gfx942")
    assert "at most 1,048,576" in finding.why
    with pytest.raises(errors.KernelError, match="launches at most"):
        check_target(copying((2**16, 2**16), (1, 1)), "cuda:sm_90")


def test_on_the_cpu_everything_goes():
    assert check_target(copying((64, 100), (8, 10)), "cpu") == []


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.name)
def test_figures_of_a_target_agree(target):
    assert target.block_bytes <= target.fast_bytes and target.default_bytes <= target.fast_bytes
    assert target.vector_rate > 0 and target.bandwidth > 0 and target.rate("bfloat16") >= target.rate("float32")
    assert not {d for d, _ in target.peak} & set(target.refused)
    if target.kind == "tpu":
        # The published peak is what the matrix units do: on 256 x 256 units two passes a cycle.
        side, passes = target.matrix[0], target.matrix[0] // 128
        cycle = target.units * target.matrix_units * 2 * side * side * passes
        assert cycle * target.clock == pytest.approx(target.rate("bfloat16"), rel=0.01)
        assert target.fast_bytes in (64 * MIB, 128 * MIB) and bits_of(ArrayType((), "int8").dtype) == 8
