"""One element of every row, read or added to: as a comparison along the row, which fuses with what makes the row.

    gather       out[b] = x[b, i[b]]         becomes   sum over j of x[b, j] where j == i[b]
    scatter-add  x[b, i[b]] += u[b]          becomes   x[b, j] + (u[b] where j == i[b])

So a cross entropy reads its logits once, and its gradient is never a separate array. Only rows that equations of the
Program make are read this way: of an array in memory a gather touches less.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.ir.array import Array
from ...core.ir.program import Eqn, Program
from ...core.ir.types import INT32, ArrayType, is_bool, is_complex, is_key
from ...core.primitives.elementwise.arithmetic import add_p
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import clamp, eq_p, ge_p, lt_p, select_n_p
from ...core.primitives.elementwise.conversion import convert_element_type
from ...core.primitives.movement.gather_dimension_numbers import CLIP, FILL, default_fill
from ...core.primitives.movement.gather_scatter import gather_p, scatter_add_p
from ...core.primitives.movement.shape import broadcast_in_dim, iota_p, reshape_to
from ...core.primitives.reduction.reduce import reduce_or_p, reduce_sum_p
from ...core.tracing.trace import dtype_of, trace_program
from ...lang.kernel.canonicalize import replaced
from ..generate.accumulators import full


def pick_by_comparison(program: Program) -> Program:
    """The Program with such gathers and scatters as comparisons."""
    if not any(e.primitive in (gather_p, scatter_add_p) for e in program.eqns):
        return program
    made = {v for e in program.eqns for v in e.outputs}

    def meaning(eqn: Eqn) -> Program | None:
        axis = _axis(eqn) if eqn.inputs and eqn.inputs[0] in made else None
        return None if axis is None else _compared(eqn, axis)

    return replaced(program, meaning)


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


def _compared(eqn: Eqn, axis: int) -> Program:
    """What one gather or scatter becomes."""
    shape, mode = eqn.inputs[0].type.shape, eqn.params["mode"]
    others = tuple(d for d in range(len(shape)) if d != axis)
    rows = tuple(shape[d] for d in others)

    def placed(indices: Array) -> tuple[Any, Any]:
        """The index of each row, and where a row is at it."""
        index = convert_element_type(reshape_to(indices, rows), INT32)
        if mode is CLIP:
            index = clamp(np.int32(0), index, np.int32(shape[axis] - 1))
        place = iota_p.bind(dtype=INT32, shape=shape, dimension=axis)
        return index, eq_p.bind(place, broadcast_in_dim(index, shape, others))

    def gather(x: Array, indices: Array) -> list[Any]:
        (index, here), dtype = placed(indices), dtype_of(x)
        adding = reduce_or_p if is_bool(dtype) else reduce_sum_p
        found = adding.bind(select_n_p.bind(here, full(dtype.type(0), shape), x), axes=(axis,))
        if mode is FILL:
            fill = eqn.params["fill_value"]
            fill = np.asarray(default_fill(dtype) if fill is None else fill).astype(dtype)[()]
            low, high = (full(np.int32(n), rows) for n in (0, shape[axis]))
            inside = and_p.bind(ge_p.bind(index, low), lt_p.bind(index, high))
            found = select_n_p.bind(inside, full(fill, rows), found)
        return [reshape_to(found, eqn.outputs[0].type.shape)]

    def scatter(x: Array, indices: Array, updates: Array) -> list[Any]:
        _, here = placed(indices)
        values = broadcast_in_dim(reshape_to(updates, rows), shape, others)
        return [add_p.bind(x, select_n_p.bind(here, full(dtype_of(x).type(0), shape), values))]

    function = gather if eqn.primitive is gather_p else scatter
    program = trace_program(function, [a.type for a in eqn.inputs], eqn.primitive.name)
    return program.replace(eqns=[e.replace(source=eqn.source) for e in program.eqns])
