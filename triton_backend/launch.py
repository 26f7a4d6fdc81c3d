"""How many programs there are, which cell each is, what the launch takes and gives, and its settings."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from ..core.errors import ArgumentError
from ..core.ir import Program
from ..core.primitives.contract import dot_general_p
from ..core.trace import trace_program
from ..core.types import INT32, ArrayType
from ..lang.kernel import Kernel
from ..lang.plain import uses
from ..lang.target import Target
from .plan import Plan
from .text import Printer, Value, power
from .values import Int, arith, join_index, mul, split_index, sub

MOST = (2**31 - 1, 65535, 65535)  # programs along x, y, z
PRODUCT = frozenset({dot_general_p})
GROUP = 8  # rows of programs that run through their columns together


@dataclass(frozen=True)
class Launch:
    """What surrounds the text. `arguments` are the names of the pointers and the arrays they point to."""

    plan: Plan
    grid: tuple[int, int, int]
    flat: bool  # all programs along x
    grouped: bool  # in the order that keeps a part of two operands in the cache
    arguments: tuple[tuple[str, ArrayType], ...]
    in_types: tuple[ArrayType, ...]
    out_types: tuple[ArrayType, ...]
    aliases: tuple[tuple[int, int], ...]
    prepare: Program | None
    finish: Program | None

    def place(self, p: Printer) -> tuple[Int, list[Int]]:
        """The number of this program, and its id along each parallel axis."""
        sizes = [self.plan.kernel.grid[a] for a in self.plan.parallel]
        if not sizes:
            return 0, []
        if self.flat:
            number = _program(p, "x")
            if self.grouped:
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


def launch_of(plan: Plan) -> Launch:
    """The launch of a planned kernel.

    Raises:
      ArgumentError: more than 2^31 - 1 programs.
    """
    k = plan.kernel
    sizes = [k.grid[a] for a in plan.parallel]
    if plan.programs > MOST[0]:
        raise ArgumentError(
            f"kernel {k.name}: its grid {k.grid} makes {plan.programs} programs, a GPU launches {MOST[0]} at most",
            "use larger blocks")  # fmt: skip
    grouped = _is_product(plan)
    reverse = sizes[::-1]
    flat = grouped or len(sizes) > 3 or any(n > most for n, most in zip(reverse, MOST, strict=False))
    x, y, z = (*([plan.programs] if flat or not k.cells else reverse), 1, 1, 1)[:3]
    grid = (max(x, 1), max(y, 1), max(z, 1))
    scratch = [
        ArrayType((plan.programs, *s.shape), s.dtype)
        for s, home in zip(k.scratch, plan.scratch_homes, strict=True) if home is None
    ]  # fmt: skip
    copies = [k.inputs[i].array for i in plan.copied]
    ins = [*k.in_types, *copies]
    outs = [*k.out_types, *scratch]
    names = [
        *(f"%scalar{i}" for i in range(len(k.prefetch))), *(f"%in{i}" for i in range(len(k.inputs))),
        *(f"%copy{i}" for i in plan.copied), *(f"%out{i}" for i in range(len(k.outputs))),
        *(f"%scratch{i}" for i in range(len(scratch))),
    ]  # fmt: skip
    first = len(k.prefetch)
    return Launch(
        plan, grid, flat, grouped, tuple(zip(names, [*ins, *outs], strict=True)), tuple(ins), tuple(outs),
        tuple((first + i, o) for i, o in k.aliases), _prepare(k, plan.copied), _finish(k, outs))  # fmt: skip


def _prepare(kernel: Kernel, copied: tuple[int, ...]) -> Program | None:
    """The operands, and once more those that are read after the memory they are in is written."""
    if not copied:
        return None
    first = len(kernel.prefetch)
    return trace_program(lambda *xs: [*xs, *(xs[first + i] for i in copied)], kernel.in_types, f"{kernel.name}_prepare")


def _finish(kernel: Kernel, outs: list[ArrayType]) -> Program | None:
    """The results without the scratch."""
    n, m = len(kernel.in_types), len(kernel.outputs)
    if len(outs) == m:
        return None
    return trace_program(lambda *xs: list(xs[n : n + m]), [*kernel.in_types, *outs], f"{kernel.name}_finish")


def _is_product(plan: Plan) -> bool:
    """Whether two parallel axes each move an operand that the other leaves alone: a product of matrices."""
    from ..lang.maps import map_of

    if len(plan.parallel) != 2 or min(plan.kernel.grid[a] for a in plan.parallel) < 2:
        return False
    if plan.kernel.grid[plan.parallel[0]] <= GROUP:
        return False
    moved: set[int] = set()
    for block in plan.kernel.inputs:
        fact = map_of(plan.kernel, block)
        own = [a for a in plan.parallel if fact is not None and a in fact.axes]
        if len(own) == 1:
            moved.add(own[0])
    return len(moved) == 2 and uses(plan.kernel.body, PRODUCT)


# ---------------------------------------------------------------------------- settings


@dataclass(frozen=True)
class Settings:
    """What a kernel is compiled with; `lang.triton.CompilerParams` says what each is."""

    num_warps: int
    num_stages: int
    tensor_descriptors: bool | None


SETTINGS = tuple(f.name for f in fields(Settings))


def settings_of(plan: Plan, target: Target, num_warps: int | None = None, num_stages: int | None = None,
                tensor_descriptors: bool | None = None) -> Settings:  # fmt: skip
    """The settings as asked, as the kernel says, or by the size of its blocks."""
    stated = dict(plan.kernel.settings).get("compiler_params")
    warps = num_warps or getattr(stated, "num_warps", None) or _warps(plan)
    stages = num_stages or getattr(stated, "num_stages", None) or _stages(plan, target)
    if tensor_descriptors is None:
        tensor_descriptors = getattr(stated, "tensor_descriptors", None)
    if warps < 1 or warps & (warps - 1) or warps > 32:
        raise ArgumentError(f"kernel {plan.kernel.name}: num_warps is {warps}", "give a power of two, 32 at most")
    if stages < 1:
        raise ArgumentError(f"kernel {plan.kernel.name}: num_stages is {stages}", "give 1 or more")
    return Settings(warps, stages, tensor_descriptors)


def _elements(shape: Any) -> int:
    return math.prod(map(power, shape))


def _warps(plan: Plan) -> int:
    k = plan.kernel
    blocks = [b.shape for b in k.blocks if b.index_map is not None or k.cells == 1]
    most = max((_elements(s) for s in (*blocks, *(r.shape for r in k.scratch))), default=1)
    if uses(k.body, PRODUCT):
        return 8 if most >= 128 * 128 else 4
    return int(np.clip(most // 512, 1, 16)) if most <= 512 else 4 if most <= 4096 else 8 if most <= 16384 else 16


def _stages(plan: Plan, target: Target) -> int:
    """As many blocks in flight as the fast memory holds, three at most."""
    if target.kind == "rocm":
        return 2
    k = plan.kernel
    moving = sum(_elements(b.shape) * b.array.dtype.itemsize for b in k.inputs if b.index_map is not None)
    return max(1, min(3, target.fast_bytes // max(moving, 1)))
