"""What is found out about a body before it is printed: the rows of its products, its barriers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...core.ir.program import Eqn, Program, Var
from ...core.ir.types import MemorySpace
from ...lang.kernel.kernel import Kernel
from ...lang.kernel.traverse import inner_programs
from ...lang.legalize import Unfit
from ...lang.warpgroups.barriers import barrier_init_p
from ...lang.warpgroups.products import tcgen05_commit_p, tcgen05_mma_p


def rows_of(kernel: Kernel) -> int:
    """The rows of a warpgroup's products, of which it has one number."""
    rows = {s.shape[0] for s in kernel.scratch if s.space is MemorySpace.REGS}
    rows |= {s.shape[-2] for s in kernel.scratch if s.space is MemorySpace.TMEM and len(s.shape) > 1}
    if len(rows) > 1:
        raise Unfit(f"its accumulators have {' and '.join(map(str, sorted(rows)))} rows: give them one number, and "
                    "parts of it to products")  # fmt: skip
    if not rows:  # there are no products: those of the matrices that it computes with, if they have one number
        shapes = [v.type.shape for eqn, _ in within(kernel.body, {}) for v in eqn.outputs]
        rows = {shape[0] for shape in shapes if len(shape) == 2 and shape[0] % 64 == 0 < shape[0]}
    return rows.pop() if len(rows) == 1 else 64


def barriers_of(kernel: Kernel) -> dict[Var, dict[str, Any]]:
    """What is known of each barrier, by input of the body: arrivals that end a phase, whether it orders the tensor
    cores, the axes of the cluster along which an arrival counts."""
    found: dict[Var, dict[str, Any]] = {}
    for eqn, env in within(kernel.body, {v: v for v in kernel.body.inputs}):
        if eqn.primitive is barrier_init_p:
            found[env[eqn.inputs[0]]] = dict(eqn.params)
    return found


def paired(kernel: Kernel) -> bool:
    """Whether its products in tensor memory are of pairs of blocks."""
    found = (eqn for eqn, _ in within(kernel.body, {}))
    ways = {eqn.params["joint"] for eqn in found if eqn.primitive in (tcgen05_mma_p, tcgen05_commit_p)}
    if len(ways) > 1:
        raise Unfit("products of one block and of pairs of blocks in one kernel: give all of them `collective_axis`, "
                    "or none")  # fmt: skip
    return ways == {True}


def within(program: Program, env: dict[Any, Any]) -> Iterator[tuple[Eqn, dict[Any, Any]]]:
    """The equations of a Program and those within it, with the Refs of the body that their Refs are."""
    for eqn in program.eqns:
        yield eqn, env
        for inner, given in inner_programs(eqn):
            pairs = zip(inner.inputs, given, strict=False)
            yield from within(inner, {v: env[a] for v, a in pairs if type(a) is Var and a in env})
