"""Bodies that cut and join the lanes of values, turned: what all rows do alike is done with the rows along the lanes.

A TPU keeps the last two axes of a value in tiles of 8 x 128. A reshape that splits its last axis in small parts, as in
the stages of a sort or of a Fourier transform, moves each element, and the compiler takes minutes over a few dozens of
them. With the rows along the lanes, and the axis that is cut among those before the last two, it moves nothing.

    (rows, 32) as (rows, 4, 2, 4)      becomes      (32, 1, rows) as (4, 2, 4, 1, rows)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core.ir.axis_relation import IDENTITY, POINTWISE
from ..core.ir.primitive import NAMED, SIZE
from ..core.ir.program import Eqn, Program, Var, run, subprograms
from ..core.ir.types import is_bool
from ..core.primitives.movement.shape import broadcast_in_dim_p, iota_p, pad_p, reshape_p, transpose_p
from ..core.primitives.refs.state_primitives import get_p
from ..core.support.memo import cached
from ..core.tracing.trace import bind_eqn, trace_program
from ..lang.analysis.dead_stores import ACCESSES
from ..lang.kernel.kernel import Kernel
from ..lang.transforms.axis_split import together

SUBLANES, LANES = 8, 128
SHUFFLES = 8  # operations on a register whose elements all move, at the least


@cached(512)
def turned(kernel: Kernel) -> Kernel:
    """A kernel in plain accesses whose body is turned, if it cuts lanes and has less to do so; else as it is."""
    eqns = kernel.body.eqns
    moved = [e.outputs[0].type.shape for e in eqns if e.primitive is reshape_p and _cuts_lanes(e)]
    if not moved:
        return kernel
    values = [v for e in eqns for v in e.outputs if v.type.shape]
    taken = sum(_registers(v.type.shape) for v in values) + SHUFFLES * sum(map(_registers, moved))
    for axes in together(kernel):
        found = [(v, d) for v, d in axes if isinstance(v, Var)]
        turn, sizes = _Turn(dict(found)), {v.type.shape[d] for v, d in found}  # several where rows are part of an axis
        alone = len(sizes) == 1 and len(turn.rows) == len(found) and turn.rows.keys() >= set(values)
        if alone and all(map(turn.may, eqns)):
            if sum(_registers(turn.shape(v)) for v in values) < taken:
                return kernel.replace(body=turn.program(kernel.body))
    return kernel


def _cuts_lanes(eqn: Eqn) -> bool:
    """Whether a reshape's operand and result have other last axes, not both of whole rows of lanes."""
    last = [t.shape[-1] if t.shape else 1 for t in (eqn.inputs[0].type, eqn.outputs[0].type)]
    return last[0] != last[1] and any(n % LANES for n in last) and min(last) > 0


def _registers(shape: Sequence[int]) -> int:
    """How many registers hold a value."""
    *ahead, rows, columns = (1, 1, *shape)
    return math.prod(ahead) * -(-rows // SUBLANES) * -(-columns // LANES)


class _Turn:
    """The body with one axis of each value along the lanes; `rows` tells which it is."""

    def __init__(self, rows: dict[Any, int]):
        self.rows = rows

    def shape(self, var: Any) -> tuple[int, ...]:
        """The shape of a value that is turned."""
        d, shape = self.rows[var], var.type.shape
        return (*shape[:d], *shape[d + 1 :], 1, shape[d])

    def may(self, eqn: Eqn) -> bool:
        """Whether an equation is one that can be turned: it keeps the axis, and has words of 32 bits or booleans."""
        if any(v.type.shape and not is_bool(v.type.dtype) and v.type.dtype.itemsize != 4 for v in eqn.outputs):
            return False
        if eqn.primitive in ACCESSES:
            return not eqn.params.get("masked") and not eqn.params["index"].dynamic
        primitive = eqn.primitive
        known = primitive.kind in (POINTWISE, IDENTITY) or primitive.axes is not None or primitive in PARAMS
        if not known or eqn.effects or len(eqn.outputs) != 1 or any(True for _ in subprograms(eqn)):
            return False
        return eqn.outputs[0] in self.rows or not any(a in self.rows for a in eqn.inputs)

    def program(self, program: Program) -> Program:
        return trace_program(lambda *xs: run(program, self.bind, xs), program.in_types, program.name)

    def bind(self, eqn: Eqn, values: list[Any]) -> Sequence[Any]:
        primitive = eqn.primitive
        if primitive not in ACCESSES:
            return bind_eqn(eqn.replace(params=self.params(eqn)), values)
        if primitive is not get_p:
            values[1] = self.back(eqn.inputs[1], values[1])
        found = bind_eqn(eqn, values)
        return [self.over(v, x) for v, x in zip(eqn.outputs, found, strict=True)]

    def over(self, var: Any, x: Any) -> Any:
        """A value that was read, turned."""
        if not var.type.shape:
            return x
        d, rank = self.rows[var], len(var.type.shape)
        x = transpose_p.bind(x, permutation=(*(a for a in range(rank) if a != d), d))
        return reshape_p.bind(x, new_sizes=self.shape(var), dimensions=None)

    def back(self, atom: Any, x: Any) -> Any:
        """A value that is turned, as it is stored."""
        if atom not in self.rows:
            return x
        d, shape = self.rows[atom], self.shape(atom)
        x = reshape_p.bind(x, new_sizes=(*shape[:-2], shape[-1]), dimensions=None)
        last = len(shape) - 2
        return transpose_p.bind(x, permutation=(*range(d), last, *range(d, last)))

    def params(self, eqn: Eqn) -> dict[str, Any]:
        """The parameters of an equation on values that are turned."""
        special = PARAMS.get(eqn.primitive)
        if special is not None:
            return eqn.params | special(self, eqn)
        found = dict(eqn.params)
        if not eqn.primitive.axes or eqn.inputs[0] not in self.rows:
            return found
        d, shape = self.rows[eqn.inputs[0]], self.shape(eqn.inputs[0])
        for name, left in eqn.primitive.axes.items():
            given = found[name]
            if given is None:
                continue
            if left is NAMED:
                found[name] = given - (given > d) if isinstance(given, int) else tuple(a - (a > d) for a in given)
            else:
                rest = shape[-2:] if left is SIZE else (left, left)
                found[name] = (*given[:d], *given[d + 1 :], *rest)
        return found


def _broadcast(turn: _Turn, eqn: Eqn) -> dict[str, Any]:
    (x,), (out,), dims = eqn.inputs, eqn.outputs, eqn.params["broadcast_dimensions"]
    shape, d = turn.shape(out), turn.rows[out]
    if x in turn.rows:
        rank = len(shape)
        kept = [a for i, a in enumerate(dims) if i != turn.rows[x]]
        dims = (*(a - (a > d) for a in kept), rank - 2, rank - 1)
    return {"shape": shape, "broadcast_dimensions": dims}


def _iota(turn: _Turn, eqn: Eqn) -> dict[str, Any]:
    (out,), at = eqn.outputs, eqn.params["dimension"]
    shape, d = turn.shape(out), turn.rows[out]
    return {"shape": shape, "dimension": len(shape) - 1 if at == d else at - (at > d)}


def _pad(turn: _Turn, eqn: Eqn) -> dict[str, Any]:
    d, config = turn.rows[eqn.inputs[0]], eqn.params["padding_config"]
    return {"padding_config": (*config[:d], *config[d + 1 :], (0, 0, 0), (0, 0, 0))}


def _reshape(turn: _Turn, eqn: Eqn) -> dict[str, Any]:
    return {"new_sizes": turn.shape(eqn.outputs[0]), "dimensions": None}


PARAMS: dict[Any, Callable[[_Turn, Eqn], dict[str, Any]]] = {
    broadcast_in_dim_p: _broadcast, iota_p: _iota, pad_p: _pad, reshape_p: _reshape,
}  # fmt: skip
