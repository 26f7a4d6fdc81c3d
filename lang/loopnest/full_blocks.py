"""Loops without masks: the iterations of a loop in which the masks of a body hold for all elements of a block.

A mask by position, such as that of causal attention, differs within few blocks: those on the diagonal, or at the ragged
end. The loop is divided: iterations before the full blocks, those of full blocks, whose body selects nothing, and those
after them. A mask is one or more comparisons of numbers that grow evenly along the axes of a block (positions, ids): it
holds everywhere in a block where it holds at its corners.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Literal, Program, Var
from ...core.ir.types import ArrayType, is_bool, is_integer
from ...core.primitives.elementwise.arithmetic import mul_p, neg_p, sub_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import ge_p, gt_p, le_p, lt_p, select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type_p
from ...core.primitives.movement.shape import broadcast_in_dim_p, iota_p, reshape_p
from ...core.transforms.structural_primitives import add_p
from ..analysis.affine import MAX_CELLS, slice_of
from ..kernel.canonicalize import rename
from ..kernel.kernel import Kernel
from .loop_bounds import Bounds, bounds_of

COMPARISONS: dict[Primitive, Callable[..., Any]] = {
    ge_p: np.greater_equal, gt_p: np.greater, le_p: np.less_equal, lt_p: np.less,
}  # fmt: skip
AFFINE: dict[Primitive, Callable[..., Any]] = {
    add_p: np.add, sub_p: np.subtract, neg_p: np.negative, and_p: np.logical_and, **COMPARISONS,
}  # fmt: skip
Axes = tuple[int, ...]


@dataclass(frozen=True)
class FullBlocks:
    """The body of the iterations whose masks hold everywhere, and their bounds."""

    body: Program
    bounds: Bounds


def full_blocks(kernel: Kernel, axis: int, body: Program) -> FullBlocks | None:
    """The full blocks of the loop over a grid axis; None where its body has no mask, or they are no such run."""
    if kernel.grid[axis] < 2:
        return None
    table: np.ndarray | None = None
    masks: dict[Eqn, Any] = {}
    for eqn in body.eqns:
        holds = _holds(kernel, body, eqn) if _masks(eqn) else None
        if holds is not None:
            table = holds if table is None else table & holds
            masks[eqn] = eqn.inputs[2]
    if table is None or table.shape[axis] == 1 or not table.any():
        return None
    bounds = bounds_of(kernel, axis, table, empty_runs=True)
    return None if bounds is None else FullBlocks(_without(body, masks), bounds)


def _masks(eqn: Eqn) -> bool:
    """Whether an equation puts something else in place of elements that a mask leaves out."""
    mask: Any = eqn.inputs[0] if eqn.primitive is select_n_p and len(eqn.inputs) == 3 else None
    return mask is not None and isinstance(mask.type, ArrayType) and is_bool(mask.type.dtype) and mask.type.size > 1


def _without(body: Program, masks: dict[Eqn, Any]) -> Program:
    """The body with what masks keep in place of what they give."""
    env: dict[Any, Any] = {}
    eqns = []
    for eqn in body.eqns:
        eqn = eqn.replace(inputs=tuple(env.get(a, a) for a in eqn.inputs)) if any(a in env for a in eqn.inputs) else eqn
        original = next((e for e in masks if e.outputs == eqn.outputs), None)
        if original is not None:
            env[eqn.outputs[0]] = eqn.inputs[2]
        else:
            eqns.append(eqn)
    made = body.replace(eqns=eqns)
    used = {a for e in eqns for a in e.inputs} | set(made.outputs)
    kept: list[Eqn] = []
    for eqn in reversed(eqns):
        if eqn.effects or not eqn.outputs or any(v in used for v in eqn.outputs):
            kept.append(eqn)
    return rename(made.replace(eqns=kept[::-1]), made.inputs)


# ---------------------------------------------------------------------------- where a mask holds


class _Unknown(Exception):
    pass


def _holds(kernel: Kernel, body: Program, eqn: Eqn) -> np.ndarray | None:
    """In which cells a mask holds for all elements: over the grid's axes, of size 1 where it does not depend on one."""
    rank = len(kernel.grid)
    ids: dict[Any, int] = {v: a for a, v in enumerate(body.inputs[:rank])}
    part = slice_of(body, [eqn.inputs[0]])
    used: set[Any] = {a for e in part.eqns for a in e.inputs if type(a) is Var}
    cells = math.prod(n for v, n in zip(body.inputs, kernel.grid, strict=False) if v in used)
    if cells > MAX_CELLS // 4:
        return None
    env: dict[Any, np.ndarray] = {}
    for v in used & ids.keys():
        env[v] = np.arange(kernel.grid[ids[v]]).reshape([-1 if d == ids[v] else 1 for d in range(rank)])
    try:
        for one in part.eqns:
            env[one.outputs[0]] = _corners(one, [_read(a, env, rank) for a in one.inputs], rank)
        found = env[eqn.inputs[0]]
    except (_Unknown, KeyError):
        return None
    return found.all(tuple(range(rank, found.ndim)))


def _read(atom: Literal | Var, env: dict[Any, np.ndarray], rank: int) -> np.ndarray:
    if type(atom) is Literal and not np.ndim(atom.value):
        return np.asarray(atom.value).reshape((1,) * rank)
    return env[atom]


def _corners(eqn: Eqn, xs: Sequence[np.ndarray], rank: int) -> np.ndarray:
    """What an equation gives at the corners of a block: axes of the grid, then two elements along axes of the value."""
    out, params = eqn.outputs[0].type, eqn.params
    whole = is_integer(out.dtype) or is_bool(out.dtype)
    if not whole or any(not (is_integer(a.type.dtype) or is_bool(a.type.dtype)) for a in eqn.inputs):
        raise _Unknown
    shape = tuple(min(n, 2) for n in out.shape)
    if eqn.primitive is iota_p:
        d = params["dimension"]
        ends = np.array([0, out.shape[d] - 1][: shape[d]])
        line = ends.reshape([1] * rank + [-1 if k == d else 1 for k in range(len(shape))])
        return np.broadcast_to(line, (1,) * rank + shape)
    if eqn.primitive is broadcast_in_dim_p:
        (x,) = xs
        sizes = [1] * len(shape)
        for own, d in enumerate(params["broadcast_dimensions"]):
            sizes[d] = x.shape[rank + own]
        x = x.reshape(*x.shape[:rank], *sizes)
        return np.broadcast_to(x, (*x.shape[:rank], *shape))
    if eqn.primitive is reshape_p and [n for n in out.shape if n > 1] == [n for n in eqn.inputs[0].type.shape if n > 1]:
        return xs[0].reshape(*xs[0].shape[:rank], *shape)
    if eqn.primitive is convert_element_type_p and is_integer(out.dtype) and is_integer(eqn.inputs[0].type.dtype):
        return xs[0]
    if eqn.primitive is mul_p and any(not a.type.shape for a in eqn.inputs):
        return np.multiply(*map(lambda x: _spread(x, rank, len(shape)), xs))
    if eqn.primitive in AFFINE:
        if eqn.primitive is and_p and not is_bool(out.dtype):
            raise _Unknown
        return AFFINE[eqn.primitive](*(_spread(x, rank, len(shape)) for x in xs))
    raise _Unknown


def _spread(x: np.ndarray, rank: int, axes: int) -> np.ndarray:
    return x.reshape(*x.shape, *[1] * (rank + axes - x.ndim))
