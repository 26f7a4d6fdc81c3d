"""A kernel compiled with settings that fit its target.

Where shared memory is too small, fewer blocks are in flight; where registers spill more than `SPILLS` bytes, more warps
share the work, or a program has smaller blocks (`lang/transforms/split_blocks.py`). What the author of the kernel
stated stays; a derived kernel that has the parameters of the kernel that it was made from takes them as a start.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass, replace
from typing import Any

from ..core.ir.types import ArrayType
from ..core.support.errors import CompileError
from ..core.support.memo import cached
from ..lang.cost.roofline import products
from ..lang.gpu.code import SPILLS, Compiled, check, resources
from ..lang.kernel.kernel import Kernel
from ..lang.legalize import Legal, entry
from ..lang.targets.compiler_params import params_of
from ..lang.targets.target import Resources, Target
from ..lang.transforms.rebuild import INHERITED
from ..lang.transforms.split_blocks import Smaller, smaller
from ..lang.triton import CompilerParams
from . import compiler
from .lower import triton_module
from .module import TritonModule
from .rules import BACKEND
from .text import element, power

WARPS = 8  # as many use up a multiprocessor's registers, with 255 for each thread
ROUNDS, WAYS = 3, 2  # how often blocks are made smaller, and how many ways to do so are tried each time


class SpillWarning(UserWarning):
    """A compiled kernel keeps more in memory, for want of registers, than it should."""


@dataclass(frozen=True)
class Fitted:
    """A kernel's Triton program and machine code, and in words what was changed to make it fit."""

    module: TritonModule
    compiled: Compiled
    note: str = ""

    def resources(self, machine: Target) -> Resources:
        """What it takes of its device."""
        return replace(resources(self.compiled, machine), note=self.note)


def _free(kernel: Kernel, name: str) -> bool:
    """Whether a setting is not its author's."""
    return dict(kernel.settings).get(INHERITED, False) or getattr(params_of(kernel, CompilerParams), name) is None


@entry(BACKEND)
@cached(1024)
def fitted(legal: Legal, machine: Target) -> Fitted:
    """A kernel as machine code that fits the target.

    Raises:
      UnsupportedError, DtypeError: what Triton or the target cannot do.
      CompileError: Triton refused the program.
      ResourceError: it needs more shared memory than there is.
    """
    kernel = legal.given
    found = _settled(kernel, machine)
    shared, spills = _lacks(found, machine)
    if dict(kernel.settings).get(INHERITED) or spills and not shared and _free(kernel, "num_warps"):
        found = _on_smaller_blocks(found, kernel, machine)
    if found.compiled.shared > machine.fast_bytes:
        other = _on_smaller_blocks(found, kernel, machine)
        fits = other.note if other.compiled.shared <= machine.fast_bytes else ""
        check(found.compiled, machine, kernel.source, _holders(found.compiled, kernel), fits)
    return found


def _holders(compiled: Compiled, kernel: Kernel) -> list[str]:
    """What has shared memory, largest first: operands or other values, as many as there are stages, and their bytes."""
    found: list[tuple[int, str]] = []
    for *sizes, type_ in compiled.held:
        same = [b for b in kernel.blocks if element(b.array.dtype) == type_]
        names = [b.name for b in same if list(map(power, b.shape)) == sizes[-len(b.shape) :]]
        size = math.prod(sizes) * max(int("".join(filter(str.isdigit, type_.partition("E")[0]))) // 8, 1)
        what = " or ".join(dict.fromkeys(names)) or "a value"
        found.append((size, f"{what}, {'x'.join(map(str, sizes))} {type_}, takes {size:,}"))
    return [text for _, text in sorted(found, reverse=True)]


def _on_smaller_blocks(found: Fitted, kernel: Kernel, machine: Target) -> Fitted:
    """What is found for a kernel, or for it on smaller blocks where these lack less."""
    at, why = Smaller(kernel), ""
    unit = _product_unit if products(kernel.body) else _one
    for _ in range(ROUNDS):
        if not any(_lacks(found, machine)):
            break
        ways = smaller(at.kernel, unit)
        if isinstance(ways, str):
            why = ways
            break
        best, lacks = None, _lacks(found, machine)
        for way in ways[:WAYS]:
            other = _settled(way.kernel, machine, found.module.num_warps)
            if _lacks(other, machine) < lacks:
                best, lacks = (way, other), _lacks(other, machine)
            if not any(lacks):
                break
        if best is None:
            why = f"{ways[0].note(kernel)} are of no help"
            break
        at, found = at.then(best[0]), best[1]
    why = f"not on smaller blocks: {why}" if why else ""
    note = "; ".join(filter(None, [at.note(kernel), found.note, why]))
    module = replace(found.module, finish=at.around(kernel, found.module.out_types, found.module.finish))
    return replace(found, note=note, module=module)


def _lacks(found: Fitted, machine: Target) -> tuple[int, int]:
    """Bytes of shared memory that there are not, and bytes spilled if they are too many."""
    spills = found.resources(machine).spills or 0
    return max(found.compiled.shared - machine.fast_bytes, 0), spills if spills > SPILLS else 0


def _one(array: ArrayType, axis: int) -> int:
    """Without a product any part of an axis will do."""
    return 1


def _product_unit(array: ArrayType, axis: int) -> int:
    """Tensor cores take products from 16 rows, columns and depths on."""
    return 16 if axis >= array.ndim - 2 and array.shape[axis] >= 16 else 1


def _settled(kernel: Kernel, machine: Target, given: int | None = None) -> Fitted:
    """A kernel with the stages, and the warps if those are not given, that lack least."""

    def made(**settings: Any) -> Fitted:
        module = triton_module(kernel, machine, **(plain | settings))
        return Fitted(module, compiler.machine_code(module, machine, kernel.source))

    plain: dict[str, Any] = {"num_warps": given}
    notes = []
    try:
        made()
    except CompileError as error:
        if not triton_module(kernel, machine, **plain).specialised:
            raise
        plain["warp_specialize"] = False
        notes.append(f"its warps are not specialised: {_pass(error.what)}")
    found = made()
    if found.module.divided and (spilled := found.resources(machine).spills):  # two loops may take more registers
        other = made(divided=False)
        if (other.resources(machine).spills or 0) < spilled:
            found, plain["divided"] = other, False
            notes.append(f"one loop of full and of masked blocks, for {spilled:,} bytes spilled")
    first = found
    stages, warps = first.module.num_stages, first.module.num_warps
    while found.compiled.shared > machine.fast_bytes and stages > 1 and _free(kernel, "num_stages"):
        stages -= 1
        found = made(num_stages=stages)
    if found is not first:
        was, needs = first.module.num_stages, first.compiled.shared
        notes.append(f"num_stages {stages} in place of {was}, for {needs:,} bytes of shared memory")
    spilled = least = found.resources(machine).spills or 0
    while given is None and least > SPILLS and _free(kernel, "num_warps"):
        if warps < WARPS:
            warps *= 2
        elif warps > WARPS and found is first and (least < 2 * SPILLS or _leaves(found, machine)):
            warps //= 2
        else:
            break
        try:
            other = made(num_stages=stages, num_warps=warps)
        except CompileError:  # an instruction needs more registers than a thread of so many has
            break
        spills = other.resources(machine).spills or 0
        if other.compiled.shared > machine.fast_bytes or spills >= least:
            break
        found, least = other, spills
    if least < spilled:
        was, now = first.module.num_warps, found.module.num_warps
        notes.append(f"num_warps {now} in place of {was}, for {spilled:,} bytes spilled")
    return replace(found, note="; ".join(notes))


def _leaves(found: Fitted, machine: Target) -> bool:
    """Whether the assembler left registers to nobody, as it does with many threads."""
    return (found.resources(machine).registers or 0) * found.module.num_warps < 255 * WARPS


def _pass(text: str) -> str:
    """What failed, out of what the compiler said."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error:" in line), lines[0])


def warn(used: Resources) -> None:
    """Warn of a kernel that spills more than it should."""
    if (used.spills or 0) > SPILLS:
        warnings.warn(
            f"kernel {used.kernel} spills {used.spills:,} bytes of each thread to memory: use smaller blocks, or more "
            "warps, `lang.triton.CompilerParams(num_warps=...)`; those of a derivative are its `backward`",
            SpillWarning, stacklevel=2)  # fmt: skip
