"""What upstream sources say of barriers, copies, products and launches, held against the printer and the emulator.

Where each fact was read: docs/gpu_upstream.md.
"""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilewright as tw
from tests.support.edits import every, without
from tests.support.gpu.hopper_cases import operands, product
from tests.support.gpu.walker import check_hopper
from tilewright.core.support.errors import EmulationError, KernelError
from tilewright.emulator.hopper.barriers import Barrier
from tilewright.emulator.hopper.swizzles import matrix_places, swizzled
from tilewright.emulator.hopper.tensor_memory import TensorMemory
from tilewright.lang.gpu.code import PTX_VERSION
from tilewright.lang.targets.target import target_of
from tilewright.mosaic_gpu import compiler, mma_types, mosaic_gpu_module, ptx, tcgen05
from tilewright.mosaic_gpu.text import Printer

HOPPER, BLACKWELL = "cuda:sm_90", "cuda:sm_100"
PAIR = dict(m=256, n=128, k=384, columns=128, num_stages=2, cluster=2)


def fields(value, **bits):
    """The bit fields of a number, by name: (first, length)."""
    return {name: value >> first & (1 << length) - 1 for name, (first, length) in bits.items()}


def folded(p, name):
    """The number that a printed value is, made of constants alone."""
    (text,) = [line.split(" = ", 1)[1] for line in p.lines if line.startswith(f"{name} = ")]
    if found := re.fullmatch(r"arith\.constant (-?\d+) : i(\d+)", text):
        return int(found[1]) & (1 << int(found[2])) - 1
    if found := re.fullmatch(r"arith\.ori (%\w+), (%\w+) : i64", text):
        return folded(p, found[1]) | folded(p, found[2])
    return folded(p, re.fullmatch(r"arith\.extui (%\w+) : i32 to i64", text)[1])


# ---------------------------------------------------------------------------- barriers


def test_a_parity_is_of_the_phase_under_way_or_of_the_last_one():
    barrier = Barrier(1, 0, 8, (0, 0), 1)
    barrier.awaited(1, 0)  # a producer starts with the parity of a phase that has ended
    barrier.arrive(np.zeros(1, np.int64))
    barrier.awaited(0, 0)
    barrier.arrive(np.zeros(1, np.int64))
    with pytest.raises(EmulationError, match="2 phases have ended"):
        barrier.awaited(0, 0)
    barrier.awaited(1, 1)


@pytest.mark.parametrize("count, address", [(0, 8), (1 << 20, 8), (1, 4)])
def test_a_barrier_counts_arrivals_in_twenty_bits(count, address):
    with pytest.raises(EmulationError, match="mbarrier of"):
        Barrier(count, 0, address, (0, 0), 1)


def test_a_barrier_counts_bytes_in_twenty_bits():
    with pytest.raises(EmulationError, match="bytes are expected in a phase"):
        Barrier(2, 0, 8, (0, 0), 1).arrive(np.zeros(1, np.int64), 1 << 20)


def test_arrivals_at_other_blocks_are_of_cutlass_form():
    """An address by mapa, no result, and no release: that would be a fence of the whole GPU in the loop."""
    text = mosaic_gpu_module(product(**PAIR), target_of(HOPPER)).text
    remote = re.findall(r'"(mbarrier\.arrive\S*shared::cluster\S* [^"]*)", "r" (%\w+)', text)
    assert remote and {ptx for ptx, _ in remote} == {"mbarrier.arrive.shared::cluster.b64 _, [$0];"}
    for _, address in remote:
        assert re.search(rf'{address} = llvm\.inline_asm .*"mapa\.shared::cluster\.u32 ', text)


# ---------------------------------------------------------------------------- copies and matrices


@given(st.integers(0, 1 << 20))
def test_the_swizzle_exchanges_bits_4_to_6_by_bits_7_to_9(at):
    assert swizzled(at) == at ^ (at & 0b111 << 7) >> 3  # CuTe's Swizzle<3, 4, 3>


@settings(max_examples=30)
@given(st.integers(0, 200), st.integers(0, 7), st.integers(1, 64), st.integers(1, 64))
def test_descriptors_of_matrices_have_upstream_fields(start, step, leading, stride):
    p = Printer()
    at, given_ = 1024 * start, dict(leading=128 * leading, stride=1024 * stride)
    hopper = folded(p, ptx.matrix(p, at, 16 * step, **given_))
    blackwell = folded(p, tcgen05.matrix(p, at, 16 * step, **given_))
    shared = {"start": (0, 14), "leading": (16, 14), "stride": (32, 14), "base": (49, 3)}
    expected = {"start": (at + 16 * step) // 16, "leading": 8 * leading, "stride": 64 * stride, "base": 0}
    assert fields(hopper, **shared, swizzle=(62, 2), unused=(46, 16)) == expected | {"swizzle": 1, "unused": 0}
    assert fields(blackwell, **shared, version=(46, 2), swizzle=(61, 3)) == expected | {"version": 1, "swizzle": 2}


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("size", [1, 2])
def test_places_of_matrices_are_the_canonical_layouts(size, turned):
    """((8,m),(T,2)):((8T,SBO),(1,T)) along the sum, ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO)) across it."""
    rows, depth, leading, stride = 64, 32 // size, 8192, 2048
    descriptor = 2048 >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | 1 << 62
    places, unit = matrix_places(descriptor, rows, depth, turned, size), 16 // size
    for r in range(0, rows, 7):
        for c in range(depth):
            if turned:
                at = r % unit * size + r // unit % 8 * 16 + r // (8 * unit) * leading + c % 8 * 128 + c // 8 * stride
            else:
                at = r % 8 * 128 + r // 8 * stride + c * size
            assert places[r, c] == swizzled(2048 + at)


def test_matrices_start_where_the_swizzle_does():
    for start, stride, base in ((128, 1024, 0), (0, 512, 0), (0, 1024, 1)):
        with pytest.raises(EmulationError, match="the swizzle repeats after 1024 bytes"):
            matrix_places(start >> 4 | stride >> 4 << 32 | base << 49 | 1 << 62, 64, 16, False)


# ---------------------------------------------------------------------------- tensor memory


@pytest.mark.parametrize("kinds, codes", [
    (("float16", "bfloat16"), (0, 1, 1)), (("float8_e4m3fn", "float8_e5m2"), (0, 1, 1)), (("uint8", "int8"), (0, 1, 2)),
])  # fmt: skip
def test_the_descriptor_of_a_product_has_upstream_fields(kinds, codes):
    p = Printer()
    found = tuple(mma_types.KINDS[k] for k in kinds)
    tcgen05.multiply(p, 0, 0, p.constant(0, "i64"), 256, 224, found, (True, False), "%more", blocks=2)
    (form,) = re.findall(r"%\w+, %\w+, %\w+, (%\w+), %more", p.lines[-1])
    assert fields(
        folded(p, form), sums=(4, 2), left=(7, 3), right=(10, 3), negated=(13, 2), left_turned=(15, 1),
        right_turned=(16, 1), columns=(17, 6), rows=(24, 5), low=(0, 4), high=(29, 3),
    ) == {
        "sums": codes[2], "left": codes[0], "right": codes[1], "negated": 0, "left_turned": 1, "right_turned": 0,
        "columns": 224 // 8, "rows": 256 // 16, "low": 0, "high": 0,
    }  # fmt: skip


@given(st.integers(0, 1024))
def test_tensor_memory_is_taken_in_powers_of_two(columns):
    memory = TensorMemory(1)
    if columns in (32, 64, 128, 256, 512):
        memory.take(columns)
        with pytest.raises(EmulationError, match=f"{columns} are taken"):
            memory.take(columns)
        with pytest.raises(EmulationError, match="are given back"):
            memory.give_back(columns // 2)
        memory.give_back(columns)
    else:
        with pytest.raises(EmulationError, match="columns of tensor memory are taken"):
            memory.take(columns)


# ---------------------------------------------------------------------------- what printed kernels must not do

INIT = r"(.*mbarrier\.init\S* \[\$0\], )\d+(;.*\n)"
BOX = r'(.*tile\.box_dim\S* \[\$0\], 0, \$1;", "r,r" %\w+, )%\w+( : .*\n)'
ALLOC, PERMIT = r"(.*tcgen05\.alloc\S* \[\$0\], )(\d+)(;.*\n)", r".*tcgen05\.relinquish.*\n"
FORBIDDEN = [
    ("a barrier of no arrivals", HOPPER, without(INIT, 0, r"\g<1>0\2"), "mbarrier of 0 arrivals"),
    ("a barrier made twice", HOPPER, without(INIT, 0, r"\g<0>\g<0>"), "where there is one already"),
    ("a box of 512 elements", HOPPER, without(BOX, 0, r"%wide = arith.constant 512 : i32\n\1%wide\2"), "a box of"),
    ("a box beyond the swizzle", HOPPER, without(BOX, 0, r"%wide = arith.constant 128 : i32\n\1%wide\2"), "a box of"),
    ("more groups under way than there are", HOPPER, every(r"wgmma\.wait_group\S* \d+;",
     "wgmma.wait_group.sync.aligned 8;"), "at most 7 groups"),
    ("96 columns", BLACKWELL, without(ALLOC, 0, r"\g<1>96\3"), "96 columns of tensor memory are taken"),
    ("columns taken twice", BLACKWELL, without(ALLOC, 0, r"\g<0>\g<0>"), "where 128 are taken"),
    ("columns after the permit", BLACKWELL, without(f"({ALLOC})({PERMIT})", 0, r"\5\1"), "after the permit"),
    ("columns that are not given back", BLACKWELL, without(r".*tcgen05\.dealloc.*\n"), "128 columns of tensor memory"),
    ("fewer columns given back", BLACKWELL, without(r"(tcgen05\.dealloc\S* \$0, )128;", 0, r"\g<1>64;"),
     "64 columns of tensor memory are given back, of 128"),
]  # fmt: skip


@pytest.mark.parametrize("name, target, edit, said", FORBIDDEN, ids=[name for name, *_ in FORBIDDEN])
def test_the_emulator_refuses(name, target, edit, said):
    kernel = product(k=256, num_stages=2)
    with pytest.raises(KernelError, match=said):
        check_hopper(kernel, *operands(kernel, 1), target=target, edit=edit)


def test_products_that_are_told_of_to_a_block_outside_the_cluster():
    kernel = product(**PAIR)
    with pytest.raises(KernelError, match="products are told of to blocks 0b1011 of 2"):
        check_hopper(kernel, *operands(kernel, 1), target=BLACKWELL, edit=_wider)


def _wider(text):
    found = re.search(r'tcgen05\.commit[^"]*multicast[^"]*", "r,h" %\w+, (%\w+) : ', text)
    line = text.rindex("\n", 0, found.start()) + 1
    named = text[line:].replace(f"{found[1]} : ", "%outside : ", 1)
    return text[:line] + "%outside = arith.constant 11 : i16\n" + named


# ---------------------------------------------------------------------------- XLA's call


@pytest.mark.targets
@pytest.mark.skipif(not compiler.installed(), reason="needs tilewright[cuda]")
@pytest.mark.parametrize("route", ["mosaic_gpu", "triton"])
@pytest.mark.parametrize("target", [HOPPER, BLACKWELL])
def test_what_xla_launches_is_in_the_ptx(target, route):
    """XLA's call has no cluster size, takes shared memory that the launch gives, and lets the driver assemble."""
    square = tw.ShapeDtypeStruct((4096, 4096), "bfloat16")
    with tw.config(kernel_route=route):
        program = tw.compile(lambda a, b: a @ b, square, square, target=target)
        module = str(tw.compile(lambda a, b: a @ b, square, square, target=target, stop="module"))
    (kernel,) = program.kernels
    text = kernel.assembly
    major, minor = re.search(r"(?m)^\.version (\d+)\.(\d+)", text).groups()
    assert 10 * int(major) + int(minor) <= PTX_VERSION
    shared = re.findall(r"(?m)^.*\.shared .*\[.*\];$", text)
    assert kernel.shared > 48 * 1024 and all(".extern" in line for line in shared)
    assert re.search(r"\.(?:req|max)ntid (\d+)", text)[1] == str(kernel.threads)
    cluster = re.search(r"\.reqnctapercluster (\d+)", text)
    assert (cluster is None) == (".explicitcluster" not in text) and (route == "triton" or cluster is not None)
    assert cluster is None or 1 < int(cluster[1]) <= 8 and kernel.grid[0] % int(cluster[1]) == 0
    (entry,) = re.findall(rf"\.entry {kernel.name}\(([^)]*)\)", text)
    (call,) = [line for line in module.splitlines() if "__gpu$xla.gpu.ptx" in line]
    types = re.search(r" : \(([^)]*)\) -> (.*)$", call)
    assert len(re.findall(r"\.param \.u64", entry)) == sum(len(re.findall("tensor<", t)) for t in types.groups())
    for name in ("name", "kernel_type", "kernel_data", *(f"{w}_{a}" for w in ("grid", "block") for a in "xyz"),
                 "shared_mem_bytes"):  # fmt: skip
        assert re.search(rf"\b{name} = ", call), name
