"""A proof without a walk over cells: poison in the ragged tails of inputs stays in the ragged tails of outputs.

Each value has a set of sources (input, axis) for each of its axes: its elements may be poison where their index along
that axis is past the end of that input's array, and are clean elsewhere. Sets pass through relations along parallel
factors. A kernel is clean if it has no scratch, overwrites each output before it reads it, and an output's block ends
no later than the blocks of the sources that reach it. Whatever does not fit is left to `uninitialized.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.axis_relation import IDENTITY, PARALLEL, POINTWISE, relate
from ...core.ir.program import Eqn, Program, Var
from ...core.ir.types import RefType
from ...core.primitives.refs.state_primitives import get_p, split_operands, swap_p
from ..kernel.kernel import Block, Kernel
from ..kernel.traverse import CALLS
from .index_maps import map_of, spread

Source = tuple[int, int]  # an input, and an axis of its array
Tails = tuple[frozenset[Source], ...] | None  # by axis of a value; None: clean
NONE: frozenset[Source] = frozenset()


class _Unfit(Exception):
    """The body is outside of what tails describe."""


def _union(tails: Sequence[Tails], rank: int) -> Tails:
    found = [t for t in tails if t is not None]
    if any(len(t) != rank for t in found):
        raise _Unfit
    return tuple(NONE.union(*axis) for axis in zip(*found, strict=True)) if found else None


def _transfer(eqn: Eqn, tails: Sequence[Tails]) -> list[Tails]:
    """The tails of the results of an equation without effects."""
    if eqn.primitive.kind in (POINTWISE, IDENTITY):
        return [_union(tails, len(v.type.shape)) for v in eqn.outputs]
    relation = relate(eqn)
    if relation is None:
        raise _Unfit
    reached: dict[int, frozenset[Source]] = {}
    for axes, operand in zip(relation.operands, tails, strict=True):
        for factors, sources in zip(axes, operand or (), strict=operand is not None):
            if sources:
                if len(factors) != 1 or relation.kinds[factors[0]] != PARALLEL:
                    raise _Unfit
                reached[factors[0]] = reached.get(factors[0], NONE) | sources
    for axes in relation.results:
        if any((f,) not in axes or sum(f in axis for axis in axes) > 1 for f in reached):
            raise _Unfit
    return [tuple(reached.get(axis[0], NONE) if len(axis) == 1 else NONE for axis in axes) for axes in relation.results]


def _run(program: Program, args: Sequence[Tails], refs: dict[Var, Tails]) -> list[Tails]:
    """The tails of a Program's results; `refs` has those of what Refs hold, and is updated."""
    tails: dict[Any, Tails] = dict(zip(program.inputs, args, strict=True))
    used = {a for e in program.eqns for a in e.inputs}
    for eqn in program.eqns:
        operands = [tails.get(a) if type(a) is Var else None for a in eqn.inputs]
        if eqn.primitive in (get_p, swap_p):
            outs = _access(eqn, operands, refs, used)
        elif eqn.effects:
            raise _Unfit
        elif all(t is None for t in operands):
            outs = [None] * len(eqn.outputs)
        elif eqn.primitive in CALLS:
            outs = _run(eqn.params["program"], operands, {})
        else:
            outs = _transfer(eqn, operands)
        tails.update(zip(eqn.outputs, outs, strict=True))
    return [tails.get(a) if type(a) is Var else None for a in program.outputs]


def _access(eqn: Eqn, operands: Sequence[Tails], refs: dict[Var, Tails], used: set[Any]) -> list[Tails]:
    """A read of what a Ref holds, or an unmasked store to the whole of it."""
    ref: Any = eqn.inputs[0]
    index, masked, whole = eqn.params["index"], eqn.params["masked"], eqn.params["index"].is_whole(ref.type.shape)
    if eqn.primitive is swap_p:
        if masked or not whole or eqn.outputs[0] in used:
            raise _Unfit
        refs[ref] = operands[1]
        return [None]
    dynamic, mask, other = split_operands(index, operands[1:], masked)
    if ref not in refs or mask is not None or any(t is not None for t in dynamic) or (refs[ref] and not whole):
        raise _Unfit
    return [_union([refs[ref], other], len(eqn.outputs[0].type.shape))]


def _contained(kernel: Kernel, source: Block, d: int, output: Block, e: int) -> bool:
    """Whether in each cell the ragged tail of an input along an axis is also that of an output along some axis."""
    from_, to = map_of(kernel, source), map_of(kernel, output)
    n, m = source.array.shape[d], output.array.shape[e]
    if from_ is None or to is None:
        return False
    if from_.affine is not None and to.affine is not None and source.axes[d] == output.axes[e]:
        forms = [(f.const[k], f.coefficients[k]) for f, k in ((from_.affine, d), (to.affine, e))]
        if forms[0] == forms[1]:
            return n >= m
    if from_.table is None or to.table is None:
        return False
    size, rank = source.sizes[d], len(kernel.grid)
    one = spread(source.axes[d].start(from_.table[..., d]), from_.axes, rank)
    two = spread(output.axes[e].start(to.table[..., e]), to.axes, rank)
    heads = np.clip(-one, 0, size) <= np.clip(-two, 0, size)
    return bool(heads.all() and (np.clip(one + size - n, 0, size) <= np.clip(two + size - m, 0, size)).all())


def tails_contained(kernel: Kernel, ragged: dict[int, list[int]]) -> bool:
    """Whether it is proved that no output has poison: of the ragged axes of inputs, by number, or unwritten memory."""
    if kernel.scratch or kernel.extents or kernel.symbolic:
        return False
    _, first_in, first_out, end, _ = kernel.splits
    refs: dict[Var, Tails] = dict.fromkeys(v for v in kernel.body.inputs[:first_out] if isinstance(v.type, RefType))
    for i, axes in ragged.items():
        refs[kernel.body.inputs[first_in + i]] = tuple(
            frozenset([(i, d)]) if d in axes else NONE for d in kernel.inputs[i].seen)  # fmt: skip
    try:
        _run(kernel.body, [None] * len(kernel.body.inputs), refs)
        outputs = [refs[v] for v in kernel.body.inputs[first_out:end]]
    except (_Unfit, KeyError):
        return False
    return all(
        _contained(kernel, kernel.inputs[i], d, block, e)
        for block, tails in zip(kernel.outputs, outputs, strict=True)
        for e, sources in zip(block.seen, tails or (), strict=tails is not None) for i, d in sources)  # fmt: skip
