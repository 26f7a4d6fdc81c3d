"""Finding the kernels in Programs, the Programs in equations, and what a kernel's cells hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import NO_EFFECTS, Atom, Eqn, Program, Var, every_eqn, subprograms
from ...core.ir.types import FAR
from ...core.primitives.control_flow.cond import cond_p
from ...core.primitives.control_flow.while_loop import while_p
from .kernel import Block, Kernel


def kernels_of(program: Program) -> Iterator[Kernel]:
    """Every kernel that a Program calls, in order."""
    for eqn in every_eqn(program):
        yield from (value for value in eqn.params.values() if isinstance(value, Kernel))


def inner_programs(eqn: Eqn) -> Iterator[tuple[Program, Sequence[Atom]]]:
    """The Programs of an equation, each with the operands that it takes."""
    if eqn.primitive is cond_p:
        yield from ((branch, eqn.inputs[1:]) for branch in eqn.params["branches"])
    elif eqn.primitive is while_p:
        n, m = eqn.params["cond_nconsts"], eqn.params["cond_nconsts"] + eqn.params["body_nconsts"]
        yield eqn.params["cond_program"], (*eqn.inputs[:n], *eqn.inputs[m:])
        yield eqn.params["body_program"], eqn.inputs[n:]
    else:
        yield from ((program, eqn.inputs) for _, program in subprograms(eqn))


def stays(block: Block) -> bool:
    """Whether an operand stays in far memory, its body reaching it from there: all of it, or of each of a batch."""
    whole = all(a.squeezed or a.size == n for a, n in zip(block.axes, block.array.shape, strict=True))
    return block.space in FAR and (block.index_map is None or whole)


def block_bytes(kernel: Kernel) -> int:
    """Bytes that a cell of a kernel holds: blocks, as often as they are buffered (twice if they move), and scratch."""
    total = 0
    for block in kernel.blocks:
        if stays(block):
            continue
        moves = block.buffers or 2 if block.index_map is not None and kernel.cells > 1 else 1
        total += moves * int(np.prod(block.sizes, dtype=np.int64)) * block.array.dtype.itemsize
    return total + sum(s.array.nbytes for s in kernel.scratch)


def equation(primitive: Primitive, inputs: Sequence[Any], params: dict[str, Any], like: Eqn | None = None) -> Eqn:
    """An equation, at the user's line of another."""
    types = [a.type for a in inputs]
    out = primitive.typing(*types, **params)
    outs = [Var(t) for t in (out if primitive.multiple else [out])]
    effects = primitive.effects(*types, **params) if primitive.effects else NO_EFFECTS
    return Eqn(primitive, inputs, outs, params, effects, like and like.source)
