"""The source of a product: CUTLASS's collectives with the tile, the layouts and the epilogue that it has.

One launch does everything. A thread of each block first has CUTLASS make its parameters, which the host does elsewhere,
in the block's own part of scratch memory, with tensor descriptors made on the device (`device.hpp`); then the block
runs CUTLASS's kernel on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..core.ir.printer import identifier
from ..core.support.errors import DtypeError, UnsupportedError
from ..core.support.memo import cached
from ..lang.cutlass import CompilerParams, Source
from ..lang.gpu.code import Module
from ..lang.kernel.kernel import Kernel
from ..lang.legalize import Legal, Unfit, entry
from ..lang.targets.compiler_params import params_of, stated
from ..lang.targets.target import Target
from .epilogue import BACKEND, TYPES
from .gemm_match import Contraction, Factor, Leaf, contraction
from .tiling import Tiling, grid, tiling

SLOT = 2048  # bytes for the parameters of a block
BEFORE, AFTER = (Path(__file__).with_name(name) for name in ("device.hpp", "numbers.hpp"))
# What CUTLASS's products do not take, and C++ of one's own does.
_MORE = {
    "float64": "double", "bool": "bool", "int16": "int16_t", "int32": "int32_t", "int64": "int64_t",
    "uint16": "uint16_t", "uint32": "uint32_t", "uint64": "uint64_t",
}  # fmt: skip
_HEADERS = {
    "common": (
        "cutlass/cutlass.h", "cutlass/float8.h", "cute/tensor.hpp", "cutlass/gemm/gemm.h",
        "cutlass/gemm/dispatch_policy.hpp", "cutlass/gemm/collective/collective_mma_decl.hpp",
        "cutlass/gemm/collective/collective_builder_decl.hpp", "cutlass/gemm/kernel/gemm_universal_decl.h",
        "cutlass/gemm/kernel/tile_scheduler.hpp",
    ),
    "90a": (
        "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp",
        "cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized_fp8.hpp",
        "cutlass/gemm/collective/builders/sm90_gmma_builder.inl",
        "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_cooperative.hpp",
        "cutlass/gemm/kernel/sm90_gemm_tma_warpspecialized_pingpong.hpp",
    ),
    "100a": (
        "cute/atom/copy_traits_sm100_tma.hpp", "cutlass/gemm/collective/sm100_mma_warpspecialized.hpp",
        "cutlass/gemm/collective/builders/sm100_umma_builder.inl",
        "cutlass/gemm/kernel/sm100_gemm_tma_warpspecialized.hpp",
    ),
    "epilogue": (
        "cutlass/epilogue/collective/collective_builder.hpp",
        "cutlass/epilogue/fusion/sm90_callbacks_tma_warpspecialized.hpp",
    ),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class CutlassModule(Module):
    """A kernel as C++ for NVRTC.

    After the results its arguments have a pointer to `scratch` bytes. `stages`, `threads` and `shared` are known once
    it is compiled.
    """

    architecture: str
    scratch: int
    threads: int = 0  # 0: what the source's constants say
    shared: int = 0
    stages: int = 0
    measured: bool = True  # whether the source has constants that say threads, shared memory and stages


def refusal(kernel: Kernel, why: str | Unfit) -> UnsupportedError:
    """The error for a kernel that this backend leaves to others."""
    source = why.source if isinstance(why, Unfit) else None
    return UnsupportedError(
        f"kernel {kernel.name} is not for CUTLASS: {why}",
        'others take it: leave `compiler_params` of `lang.cutlass`, or `kernel_route="cutlass"`, out',
        source or kernel.source,
    )


@entry(BACKEND)
@cached(1024)
def cutlass_module(legal: Legal, target: Target) -> CutlassModule:
    """The source of a kernel on a target.

    Raises:
      UnsupportedError: why the kernel is not for this backend, at the user's line.
    """
    kernel = legal.kernel
    given = stated(kernel)
    if isinstance(given, Source):
        return _given_source(kernel, given, target)
    try:
        product = contraction(kernel)
        cut = tiling(product, target, params_of(kernel, CompilerParams))
    except Unfit as error:
        raise refusal(kernel, error) from None
    blocks = grid(product, cut, target)
    name, architecture = identifier(kernel.name), _architecture(target)
    return CutlassModule(
        name, source(name, product, cut, architecture, target.units), blocks, tuple(kernel.in_types),
        tuple(kernel.out_types), architecture=architecture, scratch=SLOT * math.prod(blocks))  # fmt: skip


def _architecture(target: Target) -> str:
    """A target as NVRTC calls it: with what is of one architecture alone from sm_90 on."""
    arch = target.name.split(":")[1].removeprefix("sm_")
    return f"{arch}a" if int(arch) >= 90 else arch


# ---------------------------------------------------------------------------- an author's own C++


def _given_source(kernel: Kernel, stated: Source, target: Target) -> CutlassModule:
    """The source that an author gives, with the types of its operands before it."""
    if target.kind != "cuda":
        raise refusal(kernel, f"it is CUDA C++, which does not run on {target.name}")
    own = (kernel.name, tuple(kernel.in_types), tuple(kernel.out_types))
    if own != (stated.entry, stated.in_types, stated.out_types):
        raise refusal(kernel, "it was made from CUDA C++ by a transformation, which does not look into that")
    return CutlassModule(
        stated.entry, "\n".join([*_typed(stated), stated.text, ""]), stated.grid, stated.in_types, stated.out_types,
        architecture=_architecture(target), scratch=stated.scratch, threads=stated.threads, shared=stated.shared,
        measured=False)  # fmt: skip


def _typed(stated: Source) -> Iterator[str]:
    """What a source may name of its operands: `In0`, `Out0`, ..., and their sizes `in0_shape`, `out0_shape`, ..."""
    yield BEFORE.read_text()
    yield '#include "cutlass/cutlass.h"\n#include "cutlass/numeric_types.h"'
    for way, types in (("In", stated.in_types), ("Out", stated.out_types)):
        for i, t in enumerate(types):
            kind = (TYPES | _MORE).get(str(t.dtype))
            if kind is None:
                raise DtypeError(f"{stated.entry}: operand {t.show()} has no type in C++",
                                 f"convert it: there are {', '.join([*TYPES, *_MORE])}")  # fmt: skip
            yield f"using {way}{i} = {kind};"
            if t.ndim:
                yield f"constexpr long long {way.lower()}{i}_shape[] = {{{', '.join(map(str, t.shape))}}};"


# ---------------------------------------------------------------------------- the text


def source(name: str, product: Contraction, cut: Tiling, architecture: str, units: int) -> str:
    """The C++ of a product."""
    parts = [*_head(architecture), *_epilogue(product, cut), *_kernel(product, cut, architecture),
             *_entry(name, product, cut, architecture, units)]  # fmt: skip
    return "\n".join(parts) + "\n"


def _head(architecture: str) -> Iterator[str]:
    headers = [*_HEADERS["common"], *_HEADERS[architecture], *_HEADERS["epilogue"]]
    yield BEFORE.read_text()
    yield from (f'#include "{h}"' for h in headers)
    yield AFTER.read_text()
    yield "using cute::get; using cute::make_shape; using cute::Shape; using cute::Stride; using cute::Int;"
    yield "namespace fusion = cutlass::epilogue::fusion;"


def _shape(sizes: tuple[int, ...]) -> str:
    return f"Shape<{', '.join(f'Int<{n}>' for n in sizes)}>"


def _epilogue(product: Contraction, cut: Tiling) -> Iterator[str]:
    """The functions of one element, and the tree that calls them with what they need.

    Results beside the first are stored as they are made, by a branch of the tree whose value the first's does not use.
    """
    names = [f"x{i}" for i in range(len(product.leaves))]
    for n, result in enumerate(product.results):
        yield f"using Result{n} = {TYPES[result.dtype]};"
        yield from _elements(n, product, names)
    yield f"using Tile = {_shape(cut.tile)};"
    yield f"using Block = {_shape(cut.block)};"
    yield f"using Cluster = {_shape((*cut.cluster, 1))};"
    fetched = _fetched(product)
    yield f"using Fetched = {TYPES[fetched.dtype] if fetched else 'void'};"
    for name, leaf in zip(names, product.leaves, strict=True):
        yield f"using Leaf_{name} = {_leaf(product, leaf)};"
    leaves = "".join(f", Leaf_{x}" for x in names)
    others = ""
    for n in range(len(product.results))[:0:-1]:
        aligned = math.gcd(product.columns, 128 // (8 * np.dtype(product.results[n].dtype).itemsize))
        yield f"using Made{n} = {_node(n)}, fusion::Sm90AccFetch{leaves}>;"
        yield (f"using Kept{n} = fusion::Sm90EVT<fusion::Sm90AuxStore<0, void, Result{n}, "
               "cutlass::FloatRoundStyle::round_to_nearest, Stride<int64_t, Int<1>, int64_t>, void, void, "
               f"{aligned}, false>, Made{n}>;")  # fmt: skip
        others = f", Kept{n}{others}"
    yield f"using Tree = {_node(0)}{others}, fusion::Sm90AccFetch{leaves}>;"


def _node(n: int) -> str:
    """The node of a result, up to the nodes that it takes."""
    return (f"fusion::Sm90EVT<fusion::Sm90Compute<Elements{n}, Result{n}, float, "
            "cutlass::FloatRoundStyle::round_to_nearest>")  # fmt: skip


def _elements(n: int, product: Contraction, names: list[str]) -> Iterator[str]:
    """The function of one element of a result, and of several; the first result's is given the others too."""
    others = range(1, len(product.results)) if n == 0 else ()
    unused = "cutlass::Array<float, N> const&, " * len(others)
    floats = "".join(f", float {x}" for x in names)
    arrays = "".join(f", cutlass::Array<float, N> const& {x}" for x in names)
    elements = "".join(f", {x}[i]" for x in names)
    yield f"__device__ inline float element{n}(float acc{floats}) {{"
    yield from (f"  {line}" for line in product.lines)
    yield f"  return {product.results[n].text};\n}}"
    yield f"template <class T> struct Elements{n};"
    yield f"template <int N> struct Elements{n}<cutlass::Array<float, N>> {{"
    yield f"  __device__ cutlass::Array<Result{n}, N> operator()("
    yield f"      {unused}cutlass::Array<float, N> const& acc{arrays}) const {{"
    yield f"    cutlass::Array<Result{n}, N> out;\n    CUTLASS_PRAGMA_UNROLL"
    yield f"    for (int i = 0; i < N; ++i) out[i] = tilewright::to<Result{n}>(element{n}(acc[i]{elements}));"
    yield "    return out;\n  }\n};"


def _fetched(product: Contraction) -> Leaf | None:
    """The matrix among the epilogue's operands that is copied as CUTLASS's C is; others are read by each thread."""
    return next((x for x in product.leaves if x.rows and x.columns and x.dtype not in ("int8", "uint8")), None)


def _leaf(product: Contraction, leaf: Leaf) -> str:
    """The node of the tree that gives an operand of the epilogue."""
    kind, bits = TYPES[leaf.dtype], 8 * np.dtype(leaf.dtype).itemsize
    aligned = math.gcd(product.columns, 128 // bits)
    if leaf is _fetched(product):
        return "fusion::Sm90SrcFetch<Fetched>"
    if leaf.rows and leaf.columns:
        strides = "Stride<int64_t, Int<1>, int64_t>"
        return f"fusion::Sm90AuxLoad<0, void, {kind}, {strides}, void, void, {aligned}, false>"
    if leaf.columns:
        return f"fusion::Sm90RowBroadcast<0, Block, {kind}, float, Stride<Int<0>, Int<1>, int64_t>, {aligned}, false>"
    if leaf.rows:
        return f"fusion::Sm90ColBroadcast<0, Block, {kind}, float, Stride<Int<1>, Int<0>, int64_t>, 1, false>"
    return f"fusion::Sm90ScalarBroadcast<{kind}, Stride<Int<0>, Int<0>, int64_t>>"


def _layout(factor: Factor, right: bool) -> str:
    """CUTLASS's word for how a factor lies."""
    return "RowMajor" if factor.summed_last != right else "ColumnMajor"


def _kernel(product: Contraction, cut: Tiling, architecture: str) -> Iterator[str]:
    a, b = (TYPES[f.dtype] for f in (product.left, product.right))
    layouts = [f"cutlass::layout::{_layout(f, i == 1)}" for i, f in enumerate((product.left, product.right))]
    stages = (f"cutlass::gemm::collective::StageCount<{cut.stages}>" if cut.stages else
              "cutlass::gemm::collective::StageCountAutoCarveout<int(sizeof(Ending::SharedStorage))>")  # fmt: skip
    row, sums = "cutlass::layout::RowMajor", "int32_t" if product.left.dtype in ("int8", "uint8") else "float"
    yield f"using Arch = cutlass::arch::Sm{architecture[:-1]};"
    yield "template <class T> constexpr int Line = 16 / sizeof(T);\ntemplate <> constexpr int Line<void> = 1;"
    yield "using Ending = typename cutlass::epilogue::collective::CollectiveBuilder<"
    yield "  Arch, cutlass::arch::OpClassTensorOp, Tile, Cluster, cutlass::epilogue::collective::EpilogueTileAuto,"
    yield f"  {sums}, float, Fetched, {row}, Line<Fetched>, Result0, {row}, Line<Result0>,"
    yield f"  cutlass::epilogue::{cut.ending}, Tree>::CollectiveOp;"
    yield "using Main = typename cutlass::gemm::collective::CollectiveBuilder<"
    yield f"  Arch, cutlass::arch::OpClassTensorOp, {a}, {layouts[0]}, Line<{a}>, {b}, {layouts[1]}, Line<{b}>,"
    yield f"  {sums}, Tile, Cluster, {stages}, cutlass::gemm::{cut.schedule}>::CollectiveOp;"
    yield "using Op = cutlass::gemm::kernel::GemmUniversal<Shape<int, int, int, int>, Main, Ending, void>;"


def _entry(name: str, product: Contraction, cut: Tiling, architecture: str, units: int) -> Iterator[str]:
    inputs = product.kernel.inputs
    kinds = [TYPES[str(b.array.dtype)] for b in inputs]
    pointers = ", ".join(f"{kind} const* in{i}" for i, kind in enumerate(kinds))
    yield f'extern "C" __device__ const unsigned {name}_layout[] = {{'
    yield "  Op::SharedStorageSize, Op::MaxThreadsPerBlock, Main::DispatchPolicy::Stages, sizeof(Op::Params)};"
    yield f'extern "C" __global__ void __cluster_dims__({cut.cluster[0]}, {cut.cluster[1]}, 1)'
    yield "__launch_bounds__(Op::MaxThreadsPerBlock, 1)"
    outs = ", ".join(f"Result{n}* out{n}" for n in range(len(product.results)))
    yield f"{name}({pointers}, {outs}, char* scratch) {{"
    yield "  extern __shared__ char shared[];"
    yield "  unsigned long long block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);"
    yield f"  auto params = reinterpret_cast<Op::Params*>(scratch + {SLOT}ull * block);"
    yield f'  static_assert(sizeof(Op::Params) <= {SLOT}, "the parameters of a block");'
    yield "  if (threadIdx.x == 0) {\n    typename Op::Arguments args{};"
    yield from (f"    {line}" for line in _arguments(product, architecture, units))
    yield "    auto made = Op::to_underlying_arguments(args, nullptr);"
    yield "    memcpy(static_cast<void*>(params), &made, sizeof(made));"
    described = _descriptors(product)
    yield from (f"    tilewright::encode({d}, shared);" for d in described)
    yield "    tilewright::release();\n  }\n  __syncthreads();"
    yield from (f"  tilewright::acquire({d});" for d in described)
    yield "  Op op;\n  op(*params, shared);\n}"


def _descriptors(product: Contraction) -> list[str]:
    found = ["mainloop.tma_load_a", "mainloop.tma_load_b", "epilogue.tma_store_d"]
    if _fetched(product):
        found.append("epilogue.tma_load_c")
    return [f"params->{d}.get_tma_descriptor()" for d in found]


def _arguments(product: Contraction, architecture: str, units: int) -> Iterator[str]:
    """What CUTLASS's host would be told."""
    rows, columns, depth, count = product.rows, product.columns, product.depth, product.count
    fetched = _fetched(product)
    yield f"args.mode = cutlass::gemm::GemmUniversalMode::{'kBatched' if count > 1 else 'kGemm'};"
    yield f"args.problem_shape = make_shape({rows}, {columns}, {depth}, {count});"
    for letter, factor, free in (("A", product.left, rows), ("B", product.right, columns)):
        line, at = (depth, 0) if factor.summed_last else (free, 1)
        yield f"args.mainloop.ptr_{letter} = in{factor.number};"
        yield f"get<{at}>(args.mainloop.d{letter}) = {line};"
        yield f"get<2>(args.mainloop.d{letter}) = {free * depth if factor.batched else 0}ll;"
    ends = [("D", "out0", count > 1)] + ([("C", f"in{fetched.number}", fetched.batched)] if fetched else [])
    for letter, pointer, batched in ends:
        yield f"args.epilogue.ptr_{letter} = {pointer};"
        yield f"get<0>(args.epilogue.d{letter}) = {columns};"
        yield f"get<2>(args.epilogue.d{letter}) = {rows * columns if batched else 0}ll;"
    given = "".join(f"{_given(product, i, leaf)}, " for i, leaf in enumerate(product.leaves))
    size = rows * columns if count > 1 else 0
    kept = "".join(f"{{{{{{}}, {given}{{}}}}, {{out{n}, {{{columns}ll, Int<1>{{}}, {size}ll}}}}}}, "
                   for n in range(1, len(product.results)))  # fmt: skip
    yield f"args.epilogue.thread = typename Tree::Arguments{{{kept}{{}}, {given}{{}}}};"
    if architecture == "90a":
        yield f"args.hw_info.sm_count = {units};"
    yield "args.scheduler.raster_order = decltype(args.scheduler.raster_order)::AlongM;"


def _given(product: Contraction, i: int, leaf: Leaf) -> str:
    """The arguments of the node of a leaf."""
    if leaf is _fetched(product):
        return "{}"
    size = (product.rows if leaf.rows else 1) * (product.columns if leaf.columns else 1) if leaf.batched else 0
    kind = f"typename Leaf_x{i}::Arguments"
    if not leaf.rows and not leaf.columns:
        strides = f"{{Int<0>{{}}, Int<0>{{}}, {size}ll}}"
        return f"{kind}{{{{{TYPES[leaf.dtype]}(0)}}, {{in{leaf.number}}}, {{{strides}}}}}"
    steps = [str(product.columns) + "ll" if leaf.columns else "Int<1>{}", "Int<1>{}"] if leaf.rows else ["Int<0>{}"] * 2
    if leaf.rows and not leaf.columns:
        steps[1] = "Int<0>{}"
    if leaf.columns and not leaf.rows:
        steps[1] = "Int<1>{}"
    return f"{kind}{{in{leaf.number}, {TYPES[leaf.dtype]}(0), {{{', '.join(steps)}, {size}ll}}}}"
