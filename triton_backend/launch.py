"""Which cell a program is, and what a kernel is compiled with."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..core.ir.program import Program, subprograms
from ..core.ir.types import INT32
from ..core.support.errors import ArgumentError
from ..lang.gpu.launch_plan import GROUP, PRODUCT, Launch
from ..lang.loopnest.plan import Plan
from ..lang.targets.compiler_params import params_of
from ..lang.targets.target import Target
from ..lang.transforms.desugar import uses
from ..lang.transforms.rebuild import INHERITED
from ..lang.triton import CompilerParams
from .builders import Int, arith, join_index, mul, split_index, sub
from .text import Printer, Value, power


def place(launch: Launch, p: Printer) -> tuple[Int, list[Int]]:
    """The number of this program, and its id along each parallel axis."""
    sizes = [launch.plan.kernel.grid[a] for a in launch.plan.parallel]
    if not sizes:
        return 0, []
    if launch.flat:
        number = _program(p, "x")
        if launch.grouped:
            return number, _grouped(p, number, *sizes)
        return number, split_index(p, number, sizes)
    inner_first: list[Int] = [_program(p, axis) for axis in "xyz"[: len(sizes)]]
    ids = inner_first[::-1]
    return join_index(p, ids, sizes), ids


def _program(p: Printer, axis: str) -> Value:
    return p.op(f"tt.get_program_id {axis} : i32", (), INT32)


def _grouped(p: Printer, number: Int, rows: int, columns: int) -> list[Int]:
    """Programs in bands of `GROUP` rows, down each column of a band: neighbours share blocks of both operands."""
    band = arith(p, "divsi", number, GROUP * columns)
    first, rest = mul(p, band, GROUP), arith(p, "remsi", number, GROUP * columns)
    if rows % GROUP == 0:
        height: Int = GROUP
    else:
        height = arith(p, "minsi", sub(p, rows, first), GROUP)
    row = arith(p, "addi", first, arith(p, "remsi", rest, height))
    return [row, arith(p, "divsi", rest, height)]


# ---------------------------------------------------------------------------- settings


@dataclass(frozen=True)
class Settings:
    """What a kernel is compiled with; `lang.triton.CompilerParams` says what each is."""

    num_warps: int
    num_stages: int
    tensor_descriptors: bool | None
    warp_specialize: bool = False


SETTINGS = tuple(f.name for f in fields(Settings))


def settings_of(plan: Plan, target: Target, num_warps: int | None = None, num_stages: int | None = None,
                tensor_descriptors: bool | None = None, warp_specialize: bool | None = None) -> Settings:  # fmt: skip
    """The settings as asked, as the kernel says, or by the size of its blocks."""
    stated = params_of(plan.kernel, CompilerParams)
    if warp_specialize is None:
        warp_specialize = bool(stated.warp_specialize)
    warp_specialize = warp_specialize and target.copy_engine and bool(plan.carry)
    warps = num_warps or stated.num_warps or (4 if warp_specialize else _warps(plan))
    stages = num_stages or stated.num_stages or _stages(plan, target)
    if tensor_descriptors is None:
        tensor_descriptors = stated.tensor_descriptors
    if warps < 1 or warps & (warps - 1) or warps > 32:
        raise ArgumentError(f"kernel {plan.kernel.name}: num_warps is {warps}", "give a power of two, 32 at most")
    if stages < 1:
        raise ArgumentError(f"kernel {plan.kernel.name}: num_stages is {stages}", "give 1 or more")
    return Settings(warps, stages, tensor_descriptors, warp_specialize)


def _elements(shape: Any) -> int:
    return math.prod(map(power, shape))


def _warps(plan: Plan) -> int:
    k = plan.kernel
    blocks = [b.shape for b in k.blocks if b.index_map is not None or k.cells == 1]
    most = max((_elements(s) for s in (*blocks, *(r.shape for r in k.scratch))), default=1)
    if uses(k.body, PRODUCT):
        if dict(k.settings).get(INHERITED):  # a derivative holds several values of the size of its largest at once
            most = max(most, _largest(k.body))
        return 8 if most >= 128 * 128 else 4
    return int(np.clip(most // 512, 1, 16)) if most <= 512 else 4 if most <= 4096 else 8 if most <= 16384 else 16


def _largest(program: Program) -> int:
    """Elements of the largest value in a Program."""
    here = max((_elements(v.type.shape) for e in program.eqns for v in e.outputs), default=1)
    return max([here, *(_largest(p) for e in program.eqns for _, p in subprograms(e))])


def _stages(plan: Plan, target: Target) -> int:
    """As many blocks in flight as the fast memory holds, three at most."""
    if target.kind == "rocm":
        return 2
    k = plan.kernel
    moving = sum(_elements(b.shape) * b.array.dtype.itemsize for b in k.inputs if b.index_map is not None)
    return max(1, min(3, target.fast_bytes // max(moving, 1)))
