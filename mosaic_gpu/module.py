"""From a kernel to the text of its module: the launch around the program of one block of threads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from ..core.ir.printer import identifier
from ..core.ir.types import MemorySpace
from ..core.support.errors import UnsupportedError
from ..core.support.memo import cached
from ..lang.gpu.code import Module
from ..lang.gpu.launch_plan import Launch, launch_of
from ..lang.gpu.normalize import GPU_LIMITS
from ..lang.kernel.kernel import Kernel
from ..lang.legalize import Legal, Unfit, entry
from ..lang.loopnest.plan import plan
from ..lang.mosaic_gpu import CompilerParams
from ..lang.targets.compiler_params import params_of
from ..lang.targets.target import Target
from ..lang.warpgroups.checks import check_target_of
from ..lang.warpgroups.specs import Mesh, mesh_of
from . import ptx
from .blackwell import Blackwell
from .blackwell_attention import Chained, Held
from .cluster import clustered
from .hopper_program import Nest
from .language import BACKEND
from .ping_pong import ordered, pays
from .schedule import BLACKWELL, Schedule, products, schedule
from .text import Printer
from .warpgroup_kernels.program import REMEDY, Direct, Found

MOST_PAIRED = 2  # products of a body whose blocks are pairs unasked: more of them take too many registers
LEAST_STAGES = 3  # that a block of many tiles keeps beside memory for its results, unless it is asked for
# The forms of an architecture, in the order that they are tried.
FORMS: dict[str, tuple[type[Nest], ...]] = {"90a": (Nest,), "100a": (Blackwell, Chained, Held)}


@dataclass(frozen=True, kw_only=True)
class MosaicGpuModule(Module):
    """A kernel as a module for Mosaic GPU's pipeline.

    `text` launches `grid` blocks of `threads`, each with `shared` bytes of shared memory. After the results its
    arguments have a pointer to `scratch` bytes for tensor descriptors: each block in turn has one for each of `boxes`.
    """

    architecture: str
    threads: int
    shared: int
    scratch: int
    boxes: tuple[ptx.Box, ...] = ()
    stages: int = 0
    form: type[Nest] | None = None  # by which its loops are printed
    divided: bool = False  # whether full blocks have a loop of their own


def refusal(kernel: Legal, why: Unfit) -> UnsupportedError:
    """The error for a kernel that this backend leaves to others."""
    source = why.source or kernel.source
    if mesh_of(kernel.given) is not None:
        return UnsupportedError(f"kernel {kernel.name}: {why}", REMEDY, source)
    return UnsupportedError(
        f"kernel {kernel.name} is not for Mosaic GPU: {why}",
        'Triton takes it as it is: leave `compiler_params` of `lang.mosaic_gpu`, or `kernel_route="mosaic_gpu"`, out',
        source,
    )


@entry(BACKEND)
@cached(1024)
def mosaic_gpu_module(kernel: Legal, target: Target, divided: bool = True) -> MosaicGpuModule:
    """The module of a kernel on a target; `divided`: full blocks have a loop of their own, without masks.

    Raises:
      UnsupportedError: why the kernel is not for this backend, at the user's line.
    """
    mesh = mesh_of(kernel.given)
    try:
        if mesh is None:
            return _module(kernel.kernel, target, divided)
        kernel.check()
        check_target_of(kernel.kernel, target)
        return _direct(kernel.kernel, mesh, target)
    except Unfit as error:
        raise refusal(kernel, error) from None


def _module(kernel: Kernel, target: Target, divided: bool) -> MosaicGpuModule:
    for block in kernel.blocks:
        if (why := BACKEND.dtypes.get(str(block.array.dtype))) is not None:
            raise Unfit(f"{block.name} is {block.array.show()}: {why}; convert it before the kernel")
    planned = plan(kernel, GPU_LIMITS)
    if not planned.kernel.cells:
        raise Unfit("its grid is empty, so that nothing runs: leave the call out")
    launch, asked = launch_of(planned), params_of(kernel, CompilerParams)
    made = schedule(planned, target, asked.num_stages, asked.consumers)
    made = made if divided else replace(made, full=None)
    name = identifier(kernel.name)
    architecture = "100a" if target.name.startswith(BLACKWELL) else "90a"
    ways = [(form, *way) for form in FORMS[architecture] for way in _ways(form, asked, target, made)]
    if not ways:
        raise Unfit("two warpgroups take turns at products on Hopper alone, where they start them: leave `ping_pong` "
                    "out")  # fmt: skip
    for n, (form, many, cluster, turns) in enumerate(ways):
        try:
            tried = made.tiled(target.units, cluster) if many else made
            tried = clustered(tried, cluster, form.joint) if cluster > 1 else tried
            tried = ordered(tried) if turns else tried
            text, final = _printed(name, architecture, launch, tried, form)
            if many and asked.persistent is None and final.stages < min(LEAST_STAGES, made.stages):
                raise Unfit("results leave no memory for stages: take smaller blocks")
        except Unfit:
            if n == len(ways) - 1:
                raise
            continue
        break
    grid = _grid(final, launch)
    scratch = max(final.blocks or planned.programs, 1) * ptx.DESCRIPTOR * max(len(final.described), 1)
    return MosaicGpuModule(
        name, text, grid, launch.in_types, launch.out_types, launch.aliases, launch.prepare, launch.finish,
        architecture=architecture, threads=final.threads, shared=final.shared, scratch=scratch, stages=final.stages,
        boxes=tuple(moved.box for moved in final.described), form=form,
        divided=final.full is not None,
    )  # fmt: skip


def _grid(made: Schedule, launch: Launch) -> tuple[int, int, int]:
    """The blocks of a launch: in pairs they are numbered in a row."""
    if made.blocks or made.cluster > 1:
        return made.blocks or made.plan.programs, 1, 1
    return launch.grid


def _ways(form: type[Nest], asked: CompilerParams, target: Target, made: Schedule) -> list[tuple[bool, int, bool]]:
    """The ways of a form that are tried: whether a block makes many tiles of results, blocks of a cluster, turns.

    They are in the order of what they spare: time in which nothing multiplies, copies of what two blocks read, the
    starts of blocks.
    """
    many = [True, False] if asked.persistent is None else [asked.persistent]
    paired = len(products(made.plan.kernel.body)) <= MOST_PAIRED
    clusters = [asked.cluster] if asked.cluster is not None else [2, 1] if paired else [1]
    turns = [True, False] if form.orders and pays(made, target) else [False]
    turns = turns if asked.ping_pong is None else [asked.ping_pong]
    found = [(m, c, t) for t in turns for c in clusters for m in many]
    return [(m, c, t) for m, c, t in found if (form.persists or (m, c) == (False, 1)) and (form.orders or not t)]


def _printed(name: str, architecture: str, launch: Launch, made: Schedule, form: type[Nest]) -> tuple[str, Schedule]:
    """The text of a module in one form, and its schedule with what the body takes of memory."""
    text, nest = _text(name, architecture, launch, made, form)
    learnt = made.keeping(nest.kept, nest.asked_columns)
    if learnt != made:  # known once it is printed, and it comes before the stages
        text, _ = _text(name, architecture, launch, learnt, form)
    return text, learnt


def _text(name: str, architecture: str, launch: Launch, made: Schedule, form: type[Nest]) -> tuple[str, Nest]:
    """The text of a module in one form, and what has printed it."""
    count = len(launch.arguments) + 1
    p, found = Printer(), list[Nest]()

    def body(names: list[str], shared: str, block: list[str], thread: str) -> None:
        found.append(form(p, launch, made, names))
        found[0].print(shared, block, thread, names[-1])

    printed(p, count, body)
    grid = _grid(made, launch)
    return around(p, name, architecture, count, grid, made.threads, made.shared, made.cluster), found[0]


def printed(p: Printer, count: int, body: Callable[[list[str], str, list[str], str], None]) -> None:
    """Print the program of a block, a kernel of some arguments: `body(names, shared, block, thread)`."""
    names = [f"%a{i}" for i in range(count)]
    for i, a in enumerate(names):  # arguments of the kernel are in the order of their first use
        p.asm(f"// argument {i}", "l", [a], ["!llvm.ptr"])
    memory = p.op("gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>")
    index = p.op("memref.extract_aligned_pointer_as_index "
                 f"{memory} : memref<?xi8, #gpu.address_space<workgroup>> -> index")  # fmt: skip
    start = p.pure(f"arith.index_cast {index} : index to i32")
    block = [p.pure(f"arith.index_cast %b{d} : index to i32") for d in "xyz"]
    body(names, start, block, p.pure("arith.index_cast %tx : index to i32"))


def around(p: Printer, name: str, architecture: str, count: int, grid: tuple[int, int, int], threads: int, shared: int,
           cluster: int = 1) -> str:  # fmt: skip
    """A module that launches what was printed, in clusters of blocks."""
    host: list[str] = ["%tok = builtin.unrealized_conversion_cast %stream : !llvm.ptr to !gpu.async.token"]
    for i in range(count):
        host.append(f"%p{i} = llvm.getelementptr %bufs[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr")
        host.append(f"%a{i} = llvm.load %p{i} : !llvm.ptr -> !llvm.ptr")
    for axis, n in zip(("gx", "gy", "gz", "nx", "ny", "nz"), (*grid, threads, 1, 1), strict=True):
        host.append(f"%{axis} = arith.constant {n} : index")
    host.append(f"%bytes = arith.constant {shared} : i32")
    inside = ""
    if cluster > 1:
        host += [f"%c{axis} = arith.constant {n} : index" for axis, n in zip("xyz", (cluster, 1, 1), strict=True)]
        inside = "clusters(%ix, %iy, %iz) in (%cx_ = %cx, %cy_ = %cy, %cz_ = %cz) "
    host.append(
        f"%done = gpu.launch async [%tok] {inside}blocks(%bx, %by, %bz) in (%gx_ = %gx, %gy_ = %gy, %gz_ = %gz) "
        "threads(%tx, %ty, %tz) in (%nx_ = %nx, %ny_ = %ny, %nz_ = %nz) dynamic_shared_memory_size %bytes {"
    )
    major = int(architecture[:-2])
    body = [*("  " + line for line in p.lines), "  gpu.terminator"]
    head = (f"module @{name} attributes {{mosaic_gpu.arch_major = {major} : i32, mosaic_gpu.arch_minor = 0 : i32}} {{\n"
            f"  func.func @{name}_mosaic_gpu(%stream: !llvm.ptr, %bufs: !llvm.ptr) "
            "attributes {llvm.emit_c_interface} {\n")  # fmt: skip
    lines = [*host, *body, "}", "return"]
    return head + "".join(f"    {line}\n" for line in lines) + "  }\n}\n"


def _direct(kernel: Kernel, mesh: Mesh, target: Target) -> MosaicGpuModule:
    """The module of a kernel that is written for warpgroups."""
    architecture = "100a" if target.name.startswith(BLACKWELL) else "90a"
    tensor = architecture == "100a" and any(s.space is MemorySpace.TMEM for s in kernel.scratch)
    blocks, count = math.prod(mesh.sizes[:-1]), len(kernel.blocks) + 1
    if not 0 < blocks < 2**31:
        raise Unfit(f"its grid has {blocks} blocks: a launch has 1 to {2**31 - 1}")
    known = Found()
    for _ in range(2):  # what it takes of memory, and what is copied, is known once it is printed
        p, made = Printer(), list[Direct]()

        def body(names: list[str], shared: str, block: list[str], thread: str) -> None:
            made.append(Direct(p, kernel, mesh, names, known, tensor))  # noqa: B023  # used at once
            made[0].print(shared, block, thread, names[-1])  # noqa: B023

        printed(p, count, body)
        known, size = made[0].found, made[0].size
    if size > target.fast_bytes:
        raise Unfit(f"it takes {size} bytes of shared memory, and there are {target.fast_bytes}: use fewer or smaller "
                    "buffers")  # fmt: skip
    name, threads = identifier(kernel.name), 128 * mesh.threads
    text = around(p, name, architecture, count, (blocks, 1, 1), threads, size, mesh.blocks)
    scratch = blocks * ptx.DESCRIPTOR * max(len(known.boxes), 1)
    return MosaicGpuModule(name, text, (blocks, 1, 1), tuple(kernel.in_types), tuple(kernel.out_types), threads=threads,
                           architecture=architecture, shared=size, scratch=scratch,
                           boxes=tuple(known.boxes))  # fmt: skip
