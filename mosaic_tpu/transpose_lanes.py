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
from ..lang.analysis.splittable_axes import linked_axes
from ..lang.kernel.kernel import Kernel

SUBLANES, LANES = 8, 128
SHUFFLES = 8  # operations on a register whose elements all move, at the least


@cached(512)
def transpose_lanes(kernel: Kernel) -> Kernel:
    """A kernel with direct accesses and a transposed body, if it reshapes lanes and this takes fewer operations."""
    eqns = kernel.body.eqns
    moved = [e.outputs[0].type.shape for e in eqns if e.primitive is reshape_p and _cuts_lanes(e)]
    if not moved:
        return kernel
    values = [v for e in eqns for v in e.outputs if v.type.shape]
    taken = sum(_registers(v.type.shape) for v in values) + SHUFFLES * sum(map(_registers, moved))
    for axes in linked_axes(kernel):
        found = [(v, d) for v, d in axes if isinstance(v, Var)]
        transposer = _Transposer(dict(found))
        sizes = {v.type.shape[d] for v, d in found}  # several where rows are part of an axis
        alone = len(sizes) == 1 and len(transposer.rows) == len(found) and transposer.rows.keys() >= set(values)
        if alone and all(map(transposer.may, eqns)):
            if sum(_registers(transposer.shape(v)) for v in values) < taken:
                return kernel.replace(body=transposer.program(kernel.body))
    return kernel


def _cuts_lanes(eqn: Eqn) -> bool:
    """Whether a reshape's operand and result have other last axes, not both of whole rows of lanes."""
    last = [t.shape[-1] if t.shape else 1 for t in (eqn.inputs[0].type, eqn.outputs[0].type)]
    return last[0] != last[1] and any(n % LANES for n in last) and min(last) > 0


def _registers(shape: Sequence[int]) -> int:
    """How many registers hold a value."""
    *ahead, rows, columns = (1, 1, *shape)
    return math.prod(ahead) * -(-rows // SUBLANES) * -(-columns // LANES)


class _Transposer:
    """The body with one axis of each value along the lanes, the one in `rows`."""

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
        if eqn.primitive in PARAMS:
            return eqn.params | PARAMS[eqn.primitive](self, eqn)
        x = eqn.inputs[0] if eqn.inputs else None
        if not eqn.primitive.axes or x not in self.rows:
            return eqn.params
        d, sizes = self.rows[x], self.shape(x)[-2:]  # of the two axes that take the place of axis `d`

        def moved(value: Any, kind: Any) -> Any:
            if kind is not NAMED:  # a value for each axis
                return (*value[:d], *value[d + 1 :], *(sizes if kind is SIZE else (kind, kind)))
            return value - (value > d) if isinstance(value, int) else tuple(a - (a > d) for a in value)

        changed = {name: moved(eqn.params[name], kind) for name, kind in eqn.primitive.axes.items()
                   if eqn.params[name] is not None}  # fmt: skip
        return eqn.params | changed


def _broadcast(transposer: _Transposer, eqn: Eqn) -> dict[str, Any]:
    (x,), (out,), dims = eqn.inputs, eqn.outputs, eqn.params["broadcast_dimensions"]
    shape, d = transposer.shape(out), transposer.rows[out]
    if x in transposer.rows:
        rank = len(shape)
        kept = [a for i, a in enumerate(dims) if i != transposer.rows[x]]
        dims = (*(a - (a > d) for a in kept), rank - 2, rank - 1)
    return {"shape": shape, "broadcast_dimensions": dims}


def _iota(transposer: _Transposer, eqn: Eqn) -> dict[str, Any]:
    (out,), at = eqn.outputs, eqn.params["dimension"]
    shape, d = transposer.shape(out), transposer.rows[out]
    return {"shape": shape, "dimension": len(shape) - 1 if at == d else at - (at > d)}


def _pad(transposer: _Transposer, eqn: Eqn) -> dict[str, Any]:
    d, config = transposer.rows[eqn.inputs[0]], eqn.params["padding_config"]
    return {"padding_config": (*config[:d], *config[d + 1 :], (0, 0, 0), (0, 0, 0))}


def _reshape(transposer: _Transposer, eqn: Eqn) -> dict[str, Any]:
    return {"new_sizes": transposer.shape(eqn.outputs[0]), "dimensions": None}


PARAMS: dict[Any, Callable[[_Transposer, Eqn], dict[str, Any]]] = {
    broadcast_in_dim_p: _broadcast, iota_p: _iota, pad_p: _pad, reshape_p: _reshape,
}  # fmt: skip
