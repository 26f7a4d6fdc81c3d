"""A program with kernels in it, compiled by libtpu; what libtpu refuses becomes an error of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ..core.support.errors import (
    BlockTilingError,
    CompileError,
    DtypeError,
    ResourceError,
    Source,
    TilewrightError,
    UnsupportedError,
)
from ..lang.kernel.kernel import Block, Kernel
from ..lang.legalize import Legal
from ..lang.targets.target import MIB, Target, target_of
from ..lang.transforms.fit_vmem import in_vmem
from ..lang.verify.target_limits import tiling_faults
from .resources import resources


def compile(text: str, name: str, target: str, kernels: Sequence[Kernel | Legal], build: Callable[..., Any]) -> Any:
    """The text of a StableHLO module with custom calls, as a program for a TPU; `build(text, target, name)` compiles.

    Raises:
      ResourceError: a kernel needs more VMEM than its limit.
      BlockTilingError: a block that does not follow the tiles of its array.
      UnsupportedError: an operation, or a change of layout, that the compiler has no code for.
      DtypeError: a dtype that the generation does not have.
      CompileError: anything else that the compiler refuses.
    """
    machine, given = target_of(target), [k if isinstance(k, Kernel) else k.given for k in kernels]
    try:
        binary = build(text, target, name)
    except CompileError as error:
        raise explained(error, given, machine) from None
    notes = {instruction_name(k.name): in_vmem(k, machine).note(k) for k in given}
    used = resources(binary.as_text(), machine)
    return replace(binary, resources=tuple(replace(r, note=notes.get(instruction_name(r.kernel), "")) for r in used))


class Line(Source):
    """A line of the user's code that the compiler's message names."""

    file: str
    number: int

    def __init__(self, file: str, line: int):
        self.file, self.number = file, line

    def __str__(self) -> str:
        return f"{self.file}:{self.number}"


def explained(error: CompileError, kernels: Sequence[Kernel], target: Target) -> TilewrightError:
    """The compiler's message as an error of the catalogue; the given one if it is none that is known."""
    message = error.what
    kernel = _kernel(message, kernels)
    name = f"kernel {kernel.name}" if kernel is not None else "a kernel"
    for pattern, explain in _FAULTS:
        found = re.search(pattern, message)
        if found:
            kind, what, remedy = explain(found, message, kernel, target)
            return kind(f"{name} on {target.name}: {what}", remedy, _source(message, kernel))
    return error


def _kernel(message: str, kernels: Sequence[Kernel]) -> Kernel | None:
    """The kernel that a message is about: by the module's name, the instruction's, or because there is one."""
    named = re.search(r"MLIR module name `([^`]*)`", message) or re.search(
        r"%([\w\-]+?)(?:\.\d+)? = [^\n]*custom-call\(", message
    )
    named = named or re.search(r"XLA label: ([\w\-]+?)(?:\.\d+)? = custom-call\(", message)
    known = {instruction_name(k.name): k for k in kernels}
    if named and instruction_name(named[1]) in known:
        return known[instruction_name(named[1])]
    return kernels[0] if len(set(kernels)) == 1 else None


def instruction_name(name: str) -> str:
    """What XLA calls the instruction of a kernel, without its number."""
    return re.sub(r"[^\w.\-]", "_", name)


def _source(message: str, kernel: Kernel | None) -> Source | None:
    found = re.search(r'loc\("([^"]+\.py)":(\d+):\d+\)', message)
    if found:
        return Line(found[1], int(found[2]))
    return kernel.source if kernel is not None else None


Fault = tuple[type[TilewrightError], str, str]


def _vmem(found: re.Match[str], message: str, kernel: Kernel | None, target: Target) -> Fault:
    used, limit = found["used"], found["limit"]
    most = target.fast_bytes // MIB
    remedy = "use smaller blocks, fewer buffers or less scratch"
    if limit.endswith("M") and float(limit[:-1]) < most:
        remedy += f"; or raise the limit, CompilerParams(vmem_limit_bytes=...), up to the {most} MiB that there are"
    return ResourceError, f"it needs {_mebibytes(used)} of VMEM, and may take {_mebibytes(limit)}", remedy


def _mebibytes(size: str) -> str:
    if size.isdigit():
        return f"{int(size) / MIB:,.2f} MiB"
    return re.sub(r"([\d.]+?)(?:\.0+)?([KMG])$", r"\1 \2iB", size)


def _tiling(found: re.Match[str], message: str, kernel: Kernel | None, target: Target) -> Fault:
    block = None
    if kernel is not None:
        place = re.search(r"window params for (input|output) (\d+)", message)
        blocks = {"input": kernel.inputs, "output": kernel.outputs}[place[1]] if place else ()
        block = blocks[int(place[2])] if place and int(place[2]) < len(blocks) else None
    faults = tiling_faults(block, target) if isinstance(block, Block) else []
    if faults:
        return BlockTilingError, "; ".join(f.what for f in faults), "; ".join(f.remedy for f in faults)
    return (
        BlockTilingError,
        f"a block of {found['block']} in an array of {found['array']}, which is stored in tiles of {found['tile']}",
        "make the last two sizes of the block multiples of the tile, or the whole axis",
    )


def _relayout(found: re.Match[str], message: str, kernel: Kernel | None, target: Target) -> Fault:
    operation = re.search(r"The MLIR operation involved:\s*\n\s*(.*)", message)
    detail = f" ({re.sub(r'%[0-9]+', '', operation[1]).strip(' =')[:200]})" if operation else ""
    return (
        UnsupportedError,
        f"the compiler has no code for a change of layout: {found[0]}{detail}",
        "keep the last two axes as they are: reshape and transpose outside of the kernel, or only the leading axes",
    )


def _wide(found: re.Match[str], message: str, kernel: Kernel | None, target: Target) -> Fault:
    dtype = re.search(r"\b([fsuc](?:64|128))\[", message)
    named = {"f64": "float64", "s64": "int64", "u64": "uint64", "c64": "complex64", "c128": "complex128"}
    shown = named.get(dtype[1], dtype[1]) if dtype else "a 64-bit dtype"
    return (
        DtypeError,
        f"an operand or result is {shown}, which a TPU's vector unit does not have",
        "convert it to 32 bits before the kernel",
    )


def _vector(found: re.Match[str], message: str, kernel: Kernel | None, target: Target) -> Fault:
    element = re.search(r"vector<[\dx]*x(\w+)>|memref<[\dx]*x(\w+)[,>]", message)
    shown = next(filter(None, element.groups()), "") if element else "this dtype"
    return (
        DtypeError,
        f"there are no vector loads or stores of {shown}",
        "use bfloat16 or float32 in the kernel's operands",
    )


def _operation(found: re.Match[str], message: str, kernel: Kernel | None, target: Target) -> Fault:
    return (
        UnsupportedError,
        f"the compiler has no code for {found['operation']}",
        "compute it outside of the kernel, or from other operations",
    )


_SIZE = r"[\d.]+[KMG]"
_LAYOUT = (
    r"[Uu]nsupported (?:shape cast|relayout|implicit dim change|transpose|target bitwidth[^\n]*)",
    r"[Rr]elayout not implemented[^\n]*",
    r"(?:infer|apply)-vector-layout[^\n]*",
    r"[Nn]ot [Ii]mplemented: [^\n]*",
)
_FAULTS: tuple[tuple[str, Callable[..., Fault]], ...] = (
    (rf"Scoped allocation with size (?P<used>{_SIZE}) and limit (?P<limit>{_SIZE})", _vmem),
    (r"Allocation \(size=(?P<used>\d+)\) would exceed memory \(size=(?P<limit>\d+)\)[^\n]*space=vmem", _vmem),
    (rf"memory space vmem\. Used (?P<used>{_SIZE}) of (?P<limit>{_SIZE})", _vmem),
    (r"Operand of shape (?P<array>\([^)]*\)) has tiling (?P<tile>\([^)]*\)), but its block shape (?P<block>\([^)]*\))",
     _tiling),
    (r"X\{64\|128\} element types", _wide),
    (r"Invalid vector type for (?:load|store)", _vector),
    (r"failed to legalize operation '(?P<operation>[\w.]+)'", _operation),
    ("|".join(_LAYOUT), _relayout),
)  # fmt: skip
