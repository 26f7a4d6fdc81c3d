"""A launch: how many programs there are, and what it takes and gives."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.ir.program import Program
from ...core.ir.types import ArrayType
from ...core.primitives.contraction.dot_general import dot_general_p
from ...core.support.errors import ArgumentError
from ...core.tracing.trace import trace_program
from ..analysis.index_maps import map_of
from ..kernel.kernel import Kernel
from ..loopnest.plan import Plan
from ..transforms.desugar import uses

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
