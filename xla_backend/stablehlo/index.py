"""StableHLO of dynamic slices, gathers and scatters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import BOOL, INT32, INT64, ArrayType
from ...core.primitives.elementwise.arithmetic import max_p, min_p
from ...core.primitives.movement.dynamic_slice import dynamic_slice_p, dynamic_update_slice_p
from ...core.primitives.movement.gather_dimension_numbers import GatherDimensionNumbers, default_fill, window_sizes
from ...core.primitives.movement.gather_scatter import (
    gather_p,
    scatter_add_p,
    scatter_apply_p,
    scatter_max_p,
    scatter_min_p,
    scatter_mul_p,
    scatter_p,
    scatter_sub_p,
)
from ...core.primitives.movement.index_functions import GatherScatterMode
from .elementwise import RULES as ELEMENTWISE
from .emit import Emitter, Operand, integers

if TYPE_CHECKING:
    from ...core.ir.array import ArrayLike
    from ...core.ir.program import Program

_INT32_MAX = np.iinfo(np.int32).max


def _index_dtype(operands: Sequence[Operand]) -> Any:
    return INT64 if any(str(o.dtype) in ("int64", "uint64") for o in operands) else INT32


def _starts(e: Emitter, starts: list[Operand], shape: Sequence[int]) -> list[Operand]:
    """Start indices as one signed type, which XLA asks for."""
    largest = max((n for n in shape if type(n) is int), default=0)
    dtype = INT64 if largest > _INT32_MAX else _index_dtype(starts)
    limit = np.iinfo(dtype).max
    bounded = []
    for s in starts:
        if str(s.dtype) in ("uint32", "uint64"):  # values past the signed range stay past the end
            s = e.op("stablehlo.minimum", [s, e.constant(min(limit, np.iinfo(s.dtype).max), s.type)], s.type)
        bounded.append(e.convert(s, dtype))
    return bounded


def _dynamic_slice(e: Emitter, operands: list[Operand], out: ArrayType, *, slice_sizes: Sequence[int]) -> Operand:
    x, *starts = operands
    return e.op(
        "stablehlo.dynamic_slice", [x, *_starts(e, starts, x.shape)], out, f"slice_sizes = {integers(slice_sizes)}"
    )


def _dynamic_update_slice(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    x, update, *starts = operands
    return e.op("stablehlo.dynamic_update_slice", [x, update, *_starts(e, starts, x.shape)], out)


# ---------------------------------------------------------------------------- gather


def _axes(dims: Sequence[int]) -> str:
    return f"[{', '.join(map(str, dims))}]"


def _signed(e: Emitter, indices: Operand, shape: Sequence[int]) -> Operand:
    return _starts(e, [indices], shape)[0]


def _vector(e: Emitter, values: Sequence[int], like: Operand) -> Operand:
    """A constant vector spread over the index arrays `like`."""
    if any([type(v) is not int for v in values]):
        return e.broadcast(e.vector(values, like.dtype), like.shape)
    vector = e.constant(np.asarray(values), ArrayType((len(values),), like.dtype))
    return e.broadcast(vector, like.shape)


def _limits(shape: Sequence[int], sizes: Sequence[int], mapped: Sequence[int]) -> list[int]:
    return [max(shape[i] - sizes[i], 0) for i in mapped]


def _inside(e: Emitter, indices: Operand, limits: list[int]) -> Operand:
    """Which windows are entirely in bounds."""
    flags = ArrayType(indices.shape, BOOL)

    def compare(a: Operand, b: Operand) -> Operand:
        direction = "comparison_direction = #stablehlo<comparison_direction GE>"
        return e.op("stablehlo.compare", [a, b], flags, direction)

    low, high = _vector(e, [0] * len(limits), indices), _vector(e, limits, indices)
    both = e.op("stablehlo.and", [compare(indices, low), compare(high, indices)], flags)
    scalar, last = ArrayType((), BOOL), len(indices.shape) - 1
    region = e.region([scalar, scalar], lambda pair: [e.op("stablehlo.and", pair, scalar)])
    return e.ops(
        "stablehlo.reduce", [both, e.constant(True, scalar)], [ArrayType(indices.shape[:-1], BOOL)],
        f"dimensions = {integers([last])}", region)[0]  # fmt: skip


def gather(
    e: Emitter, operands: list[Operand], out: ArrayType, sizes: Operand | None = None, *,
    dimension_numbers: GatherDimensionNumbers, slice_sizes: Sequence[int], indices_are_sorted: bool,
    unique_indices: bool, mode: GatherScatterMode, fill_value: ArrayLike,
) -> Operand:  # fmt: skip
    """A gather; `sizes` are those of the slices, where they are not all numbers."""
    x, d = operands[0], dimension_numbers
    if 0 in out.shape:
        return e.constant(np.zeros(out.shape), out)
    indices = _signed(e, operands[1], x.shape)
    attributes = (
        f"dimension_numbers = #stablehlo.gather<offset_dims = {_axes(d.offset_dims)}, "
        f"collapsed_slice_dims = {_axes(d.collapsed_slice_dims)}, "
        f"operand_batching_dims = {_axes(d.operand_batching_dims)}, "
        f"start_indices_batching_dims = {_axes(d.start_indices_batching_dims)}, "
        f"start_index_map = {_axes(d.start_index_map)}, index_vector_dim = {len(indices.shape) - 1}>, "
        f"indices_are_sorted = {str(indices_are_sorted).lower()}"
    )
    if sizes is None:
        result = e.op("stablehlo.gather", [x, indices], out, f"{attributes}, slice_sizes = {integers(slice_sizes)}")
    else:
        result = e.op("stablehlo.dynamic_gather", [x, indices, sizes], out, attributes)
    if mode is not GatherScatterMode.FILL_OR_DROP or not d.start_index_map:
        return result
    inside = _inside(e, indices, _limits(x.shape, slice_sizes, d.start_index_map))
    batch = [i for i in range(len(out.shape)) if i not in d.offset_dims]
    inside = e.broadcast(inside, out.shape, batch) if inside.shape != out.shape else inside
    fill = e.constant(default_fill(x.dtype) if fill_value is None else fill_value, out)
    return e.op("stablehlo.select", [inside, result, fill], out)


# ---------------------------------------------------------------------------- scatter


Combine = Callable[[Emitter, Operand, Operand], Operand]


def _by(name: str) -> Combine:
    return lambda e, old, new: e.op(f"stablehlo.{name}", [old, new], old.type)


def _extreme(primitive: Primitive) -> Combine:
    """The lesser or greater of two, complex numbers by their real parts first."""
    return lambda e, old, new: ELEMENTWISE[primitive](e, [old, new], old.type)


def _emit_scatter(
    e: Emitter, operands: list[Operand], out: ArrayType, combine: Combine, params: dict[str, Any]
) -> Operand:
    x, indices, updates = operands
    d, mode = params["dimension_numbers"], params["mode"]
    if 0 in updates.shape or 0 in x.shape:
        return x
    indices = _signed(e, indices, x.shape)
    if mode is GatherScatterMode.CLIP and d.scatter_dims_to_operand_dims:
        limits = _limits(x.shape, window_sizes(x.shape, updates.shape, d), d.scatter_dims_to_operand_dims)
        low, high = _vector(e, [0] * len(limits), indices), _vector(e, limits, indices)
        indices = e.op("stablehlo.clamp", [low, indices, high], indices.type)
    attributes = (
        f"scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {_axes(d.update_window_dims)}, "
        f"inserted_window_dims = {_axes(d.inserted_window_dims)}, "
        f"input_batching_dims = {_axes(d.operand_batching_dims)}, "
        f"scatter_indices_batching_dims = {_axes(d.scatter_indices_batching_dims)}, "
        f"scatter_dims_to_operand_dims = {_axes(d.scatter_dims_to_operand_dims)}, "
        f"index_vector_dim = {len(indices.shape) - 1}>, "
        f"indices_are_sorted = {str(params['indices_are_sorted']).lower()}, "
        f"unique_indices = {str(params['unique_indices']).lower()}"
    )
    scalar = ArrayType((), x.dtype)
    region = e.region([scalar, scalar], lambda pair: [combine(e, *pair)])
    return e.ops("stablehlo.scatter", [x, indices, updates], [out], attributes, region)[0]


def _scatter(combine: Combine) -> Any:
    def rule(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
        return _emit_scatter(e, operands, out, combine, params)

    return rule


def _scatter_apply(e: Emitter, operands: list[Operand], out: ArrayType, *, update: Program, **params: Any) -> Operand:
    return _emit_scatter(e, operands, out, lambda e, old, new: e.inline(update, [old])[0], params)


RULES: dict[Primitive, Any] = {
    dynamic_slice_p: _dynamic_slice,
    dynamic_update_slice_p: _dynamic_update_slice,
    gather_p: gather,
    scatter_p: _scatter(lambda e, old, new: new),
    scatter_add_p: _scatter(_by("add")),
    scatter_sub_p: _scatter(_by("subtract")),
    scatter_mul_p: _scatter(_by("multiply")),
    scatter_min_p: _scatter(_extreme(min_p)),
    scatter_max_p: _scatter(_extreme(max_p)),
    scatter_apply_p: _scatter_apply,
}
