"""From a kernel to the text of its module: the launch around the program of one block of threads."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.caches import cached
from ..core.errors import UnsupportedError
from ..core.ir import Program
from ..core.show import identifier
from ..core.types import ArrayType
from ..lang.gpu.launch import Launch, launch_of
from ..lang.gpu.plan import plan
from ..lang.kernel import Kernel
from ..lang.legalize import Legal, entry
from ..lang.mosaic_gpu import CompilerParams
from ..lang.target import Target
from . import ptx
from .blackwell import Blackwell
from .chained import Chained
from .nest import Nest
from .rules import BACKEND
from .schedule import BLACKWELL, Schedule, schedule
from .text import Printer
from .values import Unfit

# The forms of an architecture, in the order that they are tried.
FORMS: dict[str, tuple[type[Nest], ...]] = {"90a": (Nest,), "100a": (Blackwell, Chained)}


@dataclass(frozen=True)
class MosaicGpuModule:
    """A kernel as a module for Mosaic GPU's pipeline.

    `text` launches `grid` blocks of `threads`, each with `shared` bytes of shared memory. Arguments are pointers to
    `in_types`, to `out_types` and to `scratch` bytes for tensor descriptors. `prepare` and `finish` are as a
    `CustomCall`'s.
    """

    name: str
    text: str
    architecture: str
    grid: tuple[int, int, int]
    threads: int
    shared: int
    stages: int
    scratch: int
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    aliases: tuple[tuple[int, int], ...] = ()
    prepare: Program | None = None
    finish: Program | None = None


def refusal(kernel: Legal, why: str) -> UnsupportedError:
    """The error for a kernel that this backend leaves to others."""
    return UnsupportedError(
        f"kernel {kernel.name} is not for Mosaic GPU: {why}",
        'Triton takes it: leave `compiler_params` of `lang.mosaic_gpu`, or `route="mosaic_gpu"`, out',
        kernel.source,
    )


@entry(BACKEND)
@cached(1024)
def mosaic_gpu_module(kernel: Legal, target: Target) -> MosaicGpuModule:
    """The module of a kernel on a target.

    Raises:
      UnsupportedError: why the kernel is not for this backend, at the user's line.
    """
    try:
        return _module(kernel.kernel, target)
    except Unfit as error:
        raise refusal(kernel, str(error)) from None


def settings_of(kernel: Kernel) -> CompilerParams:
    """What the kernel says of its compilation."""
    stated = dict(kernel.settings).get("compiler_params")
    return stated if isinstance(stated, CompilerParams) else CompilerParams()


def _module(kernel: Kernel, target: Target) -> MosaicGpuModule:
    planned = plan(kernel)
    if not planned.kernel.cells:
        raise Unfit("its grid is empty")
    launch, asked = launch_of(planned), settings_of(kernel)
    made = schedule(planned, target, asked.num_stages, asked.consumers)
    name = identifier(kernel.name)
    architecture = "100a" if target.name.startswith(BLACKWELL) else "90a"
    for form in FORMS[architecture]:
        try:
            text, nest = _text(name, architecture, launch, made, form)
        except Unfit:
            if form is FORMS[architecture][-1]:
                raise
            continue
        break
    learnt = made.keeping(nest.kept, nest.asked_columns)
    if learnt != made:  # what the body takes of memory is known once it is printed, and comes before the stages
        made = learnt
        text, _ = _text(name, architecture, launch, made, form)
    scratch = max(planned.programs, 1) * ptx.DESCRIPTOR * max(len(made.described), 1)
    return MosaicGpuModule(
        name, text, architecture, launch.grid, made.threads, made.shared, made.stages, scratch, launch.in_types,
        launch.out_types, launch.aliases, launch.prepare, launch.finish)  # fmt: skip


def _text(name: str, architecture: str, launch: Launch, made: Schedule, form: type[Nest]) -> tuple[str, Nest]:
    """The text of a module in one form, and what has printed it."""
    p = Printer()
    count = len(launch.arguments) + 1
    names = [f"%a{i}" for i in range(count)]
    host: list[str] = ["%tok = builtin.unrealized_conversion_cast %stream : !llvm.ptr to !gpu.async.token"]
    for i, a in enumerate(names):
        host.append(f"%p{i} = llvm.getelementptr %bufs[{i}] : (!llvm.ptr) -> !llvm.ptr, !llvm.ptr")
        host.append(f"{a} = llvm.load %p{i} : !llvm.ptr -> !llvm.ptr")
    for axis, n in zip(("gx", "gy", "gz", "nx", "ny", "nz"), (*launch.grid, made.threads, 1, 1), strict=True):
        host.append(f"%{axis} = arith.constant {n} : index")
    host.append(f"%bytes = arith.constant {made.shared} : i32")
    host.append(
        "%done = gpu.launch async [%tok] blocks(%bx, %by, %bz) in (%gx_ = %gx, %gy_ = %gy, %gz_ = %gz) "
        "threads(%tx, %ty, %tz) in (%nx_ = %nx, %ny_ = %ny, %nz_ = %nz) dynamic_shared_memory_size %bytes {"
    )
    for i, a in enumerate(names):  # arguments of the kernel are in the order of their first use
        p.asm(f"// argument {i}", "l", [a], ["!llvm.ptr"])
    memory = p.op("gpu.dynamic_shared_memory : memref<?xi8, #gpu.address_space<workgroup>>")
    index = p.op("memref.extract_aligned_pointer_as_index "
                 f"{memory} : memref<?xi8, #gpu.address_space<workgroup>> -> index")  # fmt: skip
    start = p.pure(f"arith.index_cast {index} : index to i32")
    block = [p.pure(f"arith.index_cast %b{d} : index to i32") for d in "xyz"]
    thread = p.pure("arith.index_cast %tx : index to i32")
    major = int(architecture[:-2])
    nest = form(p, launch, made, names)
    nest.print(start, block, thread, names[-1])
    body = [*("  " + line for line in p.lines), "  gpu.terminator"]
    head = (f"module @{name} attributes {{mosaic_gpu.arch_major = {major} : i32, mosaic_gpu.arch_minor = 0 : i32}} {{\n"
            f"  func.func @{name}_mosaic_gpu(%stream: !llvm.ptr, %bufs: !llvm.ptr) "
            "attributes {llvm.emit_c_interface} {\n")  # fmt: skip
    lines = [*host, *body, "}", "return"]
    return head + "".join(f"    {line}\n" for line in lines) + "  }\n}\n", nest
