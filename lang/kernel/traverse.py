"""Finding the kernels in Programs, the Programs in equations, and what a kernel's cells hold."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ...core.ir.dataflow import Body, bodies
from ...core.ir.primitive import Primitive
from ...core.ir.program import NO_EFFECTS, Atom, Eqn, Program, Var, every_eqn, subprograms
from ...core.ir.types import FAR
from ...core.primitives.control_flow.jit_primitive import jit_p
from ...core.primitives.custom.checkpoint import checkpoint_p
from ...core.primitives.custom.custom_derivative_primitives import custom_jvp_call_p, custom_vjp_call_p
from .kernel import Block, Kernel

CALLS = (jit_p, custom_jvp_call_p, custom_vjp_call_p, checkpoint_p)  # run their `program` once, on all operands


def kernels_of(program: Program) -> Iterator[Kernel]:
    """Every kernel that a Program calls, in order."""
    for eqn in every_eqn(program):
        yield from (value for value in eqn.params.values() if isinstance(value, Kernel))


def dataflow(eqn: Eqn) -> list[Body]:
    """The Programs of a branch or loop, with the flows into their inputs and out of their outputs."""
    return bodies(eqn) if eqn.primitive.bodies is not None else []


def inner_programs(eqn: Eqn) -> Iterator[tuple[Program, Sequence[Atom]]]:
    """The Programs of an equation, each with the operands that it takes."""
    found = [(program, [outside for outside, _, _ in taken]) for program, taken, *_ in dataflow(eqn)]
    yield from found or ((program, eqn.inputs) for _, program in subprograms(eqn))


def stays_in_hbm(block: Block) -> bool:
    """Whether an operand stays in HBM, where the body accesses it: all of it, or one element of a batch."""
    whole = all(a.squeezed or a.size == n for a, n in zip(block.axes, block.array.shape, strict=True))
    return block.space in FAR and (block.index_map is None or whole)


def block_bytes(kernel: Kernel) -> int:
    """Bytes that a cell of a kernel holds: blocks, as often as they are buffered (twice if they move), and scratch."""
    total = 0
    for block in kernel.blocks:
        if stays_in_hbm(block):
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
