"""StableHLO of the primitives that move elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...core.ir.dimension import dimension_p
from ...core.ir.primitive import Primitive
from ...core.primitives.movement.shape import (
    broadcast_in_dim_p,
    concatenate_p,
    copy_p,
    iota_p,
    pad_p,
    reshape_p,
    rev_p,
    slice_p,
    split_p,
    squeeze_p,
    transpose_p,
)
from .emit import Emitter, Operand, integers

if TYPE_CHECKING:
    from ...core.ir.symbolic.dim import Size
    from ...core.ir.types import ArrayType, Dtype


def _broadcast_in_dim(
    e: Emitter, operands: list[Operand], out: ArrayType, *, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Any:
    return e.broadcast(operands[0], shape, broadcast_dimensions)


def _reshape(e: Emitter, operands: list[Operand], out: ArrayType, **_: Any) -> Operand:
    return e.reshape(operands[0], out.shape)


def _transpose(e: Emitter, operands: list[Operand], out: ArrayType, *, permutation: Sequence[int]) -> Operand:
    moved = e.op("stablehlo.transpose", operands, out, f"permutation = {integers(permutation)}")
    e.transposes[moved.name] = (operands[0], permutation)
    return moved


def _rev(e: Emitter, operands: list[Operand], out: ArrayType, *, dimensions: Sequence[int]) -> Operand:
    return e.op("stablehlo.reverse", operands, out, f"dimensions = {integers(dimensions)}")


def _copy(e: Emitter, operands: list[Operand], out: ArrayType) -> Operand:
    return operands[0]


def slice_attributes(starts: Sequence[int], limits: Sequence[int], strides: Sequence[int] | None) -> str:
    strides = strides or (1,) * len(starts)
    return f"start_indices = {integers(starts)}, limit_indices = {integers(limits)}, strides = {integers(strides)}"


def _slice(
    e: Emitter,
    operands: list[Operand],
    out: ArrayType,
    *,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None,
) -> Operand:
    return e.op("stablehlo.slice", operands, out, slice_attributes(start_indices, limit_indices, strides))


def _split(e: Emitter, operands: list[Operand], outs: list[Any], *, sizes: Sequence[int], axis: int) -> list[Operand]:
    shape, start, results = operands[0].shape, 0, []
    for size, out in zip(sizes, outs, strict=True):
        starts = tuple(start if d == axis else 0 for d in range(len(shape)))
        limits = tuple(start + size if d == axis else n for d, n in enumerate(shape))
        results.append(e.op("stablehlo.slice", operands, out, slice_attributes(starts, limits, None)))
        start += size
    return results


def _iota(
    e: Emitter, operands: list[Operand], out: ArrayType, *, dtype: Dtype, shape: Sequence[int], dimension: int
) -> Operand:
    return e.op("stablehlo.iota", [], out, f"iota_dimension = {dimension} : i64")


def _pad(
    e: Emitter, operands: list[Operand], out: ArrayType, *, padding_config: Sequence[tuple[int, int, int]]
) -> Operand:
    low, high, interior = ([c[i] for c in padding_config] for i in range(3))
    return e.op(
        "stablehlo.pad", operands, out,
        f"edge_padding_low = {integers(low)}, edge_padding_high = {integers(high)}, "
        f"interior_padding = {integers(interior)}")  # fmt: skip


def _concatenate(e: Emitter, operands: list[Operand], out: ArrayType, *, dimension: int) -> Operand:
    return e.op("stablehlo.concatenate", operands, out, f"dimension = {dimension} : i64")


def _dimension(e: Any, operands: list[Operand], out: ArrayType, *, size: Size) -> Operand:
    return e.convert(e.size(size), out.dtype)  # there are none but in what `SymbolicEmitter` prints


RULES: dict[Primitive, Any] = {
    broadcast_in_dim_p: _broadcast_in_dim,
    reshape_p: _reshape,
    squeeze_p: _reshape,
    transpose_p: _transpose,
    rev_p: _rev,
    copy_p: _copy,
    slice_p: _slice,
    split_p: _split,
    iota_p: _iota,
    pad_p: _pad,
    concatenate_p: _concatenate,
    dimension_p: _dimension,
}
