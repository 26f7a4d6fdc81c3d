"""One element of every row, read or added to: as a comparison along the row, which fuses with what makes the row.

    gather       out[b] = x[b, i[b]]         becomes   sum over j of x[b, j] where j == i[b]
    scatter-add  x[b, i[b]] += u[b]          becomes   x[b, j] + (u[b] where j == i[b])

So a cross entropy reads its logits once, and its gradient is never a separate array. Only rows that equations of the
Program make are read this way: of an array in memory a gather touches less.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir import Atom, Eqn, Literal, Program, Var
from ...core.primitive import Primitive
from ...core.primitives.compare import and_p, clamp_p, eq_p, ge_p, lt_p, select_n_p
from ...core.primitives.convert import convert_element_type_p
from ...core.primitives.elementwise import add_p
from ...core.primitives.gather import CLIP, FILL, default_fill, gather_p
from ...core.primitives.reduce import reduce_or_p, reduce_sum_p
from ...core.primitives.scatter import scatter_add_p
from ...core.primitives.shape import broadcast_in_dim_p, iota_p, reshape_p
from ...core.types import INT32, ArrayType, is_bool, is_complex, is_key
from ...lang.plain import equation


def pick_by_comparison(program: Program) -> Program:
    """The Program with such gathers and scatters as comparisons."""
    if not any(e.primitive in (gather_p, scatter_add_p) for e in program.eqns):
        return program
    made = {v for e in program.eqns for v in e.outputs}
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        axis = _axis(eqn) if eqn.inputs and eqn.inputs[0] in made else None
        eqns += [eqn] if axis is None else _Rows(eqn, axis).eqns
    return program.replace(eqns=eqns)


def _axis(eqn: Eqn) -> int | None:
    """The axis along which one element of each row is picked; None for anything else."""
    if eqn.primitive not in (gather_p, scatter_add_p):
        return None
    x, indices = eqn.inputs[0].type, eqn.inputs[1].type
    assert isinstance(x, ArrayType) and isinstance(indices, ArrayType)
    numbers = eqn.params["dimension_numbers"]
    numbers = numbers.as_gather() if eqn.primitive is scatter_add_p else numbers
    if len(numbers.start_index_map) != 1 or numbers.offset_dims or is_key(x.dtype) or is_complex(x.dtype):
        return None
    (axis,) = numbers.start_index_map
    others = tuple(d for d in range(x.ndim) if d != axis)
    rows = tuple(x.shape[d] for d in others)
    aligned = (
        numbers.collapsed_slice_dims == (axis,)
        and numbers.operand_batching_dims == others
        and numbers.start_indices_batching_dims == tuple(range(len(others)))
        and indices.shape[: len(others)] == rows
        and all(n == 1 for n in indices.shape[len(others) :])
        and 0 not in x.shape
    )
    return axis if aligned and eqn.params.get("slice_sizes", (1,) * x.ndim) == (1,) * x.ndim else None


class _Rows:
    """The equations that one gather or scatter becomes."""

    def __init__(self, eqn: Eqn, axis: int):
        self.eqn, self.eqns = eqn, []
        self.axis, self.shape = axis, eqn.inputs[0].type.shape
        self.others = tuple(d for d in range(len(self.shape)) if d != axis)
        self.rows = tuple(self.shape[d] for d in self.others)
        index = self.add(reshape_p, [eqn.inputs[1]], new_sizes=self.rows, dimensions=None)
        index = self.add(convert_element_type_p, [index], new_dtype=INT32, weak_type=False)
        (self.gather if eqn.primitive is gather_p else self.scatter)(index)

    def add(self, primitive: Primitive, inputs: Sequence[Atom], **params: Any) -> Var:
        self.eqns.append(equation(primitive, inputs, params, self.eqn))
        return self.eqns[-1].outputs[0]

    def scalar(self, value: Any, dtype: Any) -> Literal:
        return Literal(np.asarray(value).astype(dtype)[()], ArrayType((), dtype))

    def full(self, value: Any, dtype: Any, shape: Sequence[int]) -> Var:
        return self.add(broadcast_in_dim_p, [self.scalar(value, dtype)], shape=tuple(shape), broadcast_dimensions=())

    def clipped(self, index: Var) -> Var:
        if self.eqn.params["mode"] is not CLIP:
            return index
        low, high = self.scalar(0, INT32), self.scalar(self.shape[self.axis] - 1, INT32)
        return self.add(clamp_p, [low, index, high])

    def along(self, value: Var) -> Var:
        return self.add(broadcast_in_dim_p, [value], shape=self.shape, broadcast_dimensions=self.others)

    def here(self, index: Var) -> Var:
        place = self.add(iota_p, [], dtype=INT32, shape=self.shape, dimension=self.axis)
        return self.add(eq_p, [place, self.along(index)])

    def gather(self, index: Var) -> None:
        x = self.eqn.inputs[0]
        dtype = x.type.dtype
        index = self.clipped(index)
        kept = self.add(select_n_p, [self.here(index), self.full(0, dtype, self.shape), x])
        found = self.add(reduce_or_p if is_bool(dtype) else reduce_sum_p, [kept], axes=(self.axis,))
        if self.eqn.params["mode"] is FILL:
            fill = self.eqn.params["fill_value"]
            fill = self.full(default_fill(dtype) if fill is None else fill, dtype, self.rows)
            low = self.add(ge_p, [index, self.full(0, INT32, self.rows)])
            high = self.add(lt_p, [index, self.full(self.shape[self.axis], INT32, self.rows)])
            found = self.add(select_n_p, [self.add(and_p, [low, high]), fill, found])
        self.give(reshape_p, [found], new_sizes=self.eqn.outputs[0].type.shape, dimensions=None)

    def scatter(self, index: Var) -> None:
        x, _, updates = self.eqn.inputs
        index = self.clipped(index)
        values = self.add(reshape_p, [updates], new_sizes=self.rows, dimensions=None)
        zeros = self.full(0, x.type.dtype, self.shape)
        added = self.add(select_n_p, [self.here(index), zeros, self.along(values)])
        self.give(add_p, [x, added])

    def give(self, primitive: Primitive, inputs: Sequence[Atom], **params: Any) -> None:
        """The last equation, whose result is that of the gather or scatter."""
        self.eqns.append(equation(primitive, inputs, params, self.eqn).replace(outputs=self.eqn.outputs))
