"""Shapes: registers stay where they are, positions are looked up elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, Shape
from ...core.primitives.movement.shape import (
    broadcast_in_dim_p,
    concatenate_p,
    iota_p,
    reshape_p,
    slice_p,
    squeeze_p,
    transpose_p,
)
from ...lang.legalize import Unfit
from ..text import Int, Printer
from ..values import Fragment, Lazy, Product, Tile, computed, convert

if TYPE_CHECKING:
    from ..lower import Lowering


def moved(e: Lowering, x: Any, shape: tuple[int, ...], where: dict[int, int]) -> Any:
    """A value whose axis `d` becomes `where[d]` of another shape; other axes are of size 1, or new."""
    if isinstance(x, Product):
        x = e.settled(x)
    if isinstance(x, Fragment):
        e.settle(x)
        return Fragment(x.layout.moved(shape, where), x.dtype, x.regs)

    def at(p: Printer, place: Sequence[Int]) -> str:
        return x.at(p, [place[where[d]] if d in where and n > 1 else 0 for d, n in enumerate(x.shape)])

    varies = frozenset(where[d] for d in x.varies if x.shape[d] > 1)
    if isinstance(x, Tile) and all(a in where and shape[where[a]] == x.shape[a] for a in x.axes):
        return Tile(shape, x.dtype, at, varies, False, x.address, (where[x.axes[0]], where[x.axes[1]]), there=x.there)
    return Lazy(shape, x.dtype, at, varies, x.fixed)


def _broadcast(
    e: Lowering, operands: list[Any], out: ArrayType, shape: Shape, broadcast_dimensions: Sequence[int]
) -> Any:
    return moved(e, operands[0], out.shape, dict(enumerate(broadcast_dimensions)))


def _reshape(e: Lowering, operands: list[Any], out: ArrayType, **params: Any) -> Any:
    (x,) = operands
    old, new = ([d for d, n in enumerate(s) if n > 1] for s in (x.shape, out.shape))
    if [x.shape[d] for d in old] != [out.shape[d] for d in new]:
        raise Unfit(f"a value of {x.shape} becomes one of {out.shape}: rows and columns stay; reshape it before the "
                    "kernel")  # fmt: skip
    return moved(e, x, out.shape, dict(zip(old, new, strict=True)))


def _transpose(e: Lowering, operands: list[Any], out: ArrayType, permutation: Sequence[int]) -> Any:
    return moved(e, operands[0], out.shape, {old: new for new, old in enumerate(permutation)})


def _iota(e: Lowering, operands: list[Any], out: ArrayType, dimension: int, **params: Any) -> Lazy:
    def at(p: Printer, place: Sequence[Int]) -> str:
        return convert(p, p.name(place[dimension]), np.dtype(np.int32), out.dtype)

    computed(out.dtype)
    return Lazy(out.shape, out.dtype, at, frozenset({dimension}), True)


def _slice(e: Any, operands: list[Any], out: ArrayType, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    (x,) = operands
    if isinstance(x, (Fragment, Product)):
        raise Unfit(f"a part of {out.shape} of a value of {x.shape} in registers: read the part from its operand")
    steps = strides or (1,) * len(out.shape)

    def at(p: Printer, place: Sequence[Int]) -> str:
        return x.at(p, [p.add(p.mul(i, s), a) for i, a, s in zip(place, start_indices, steps, strict=True)])

    return Lazy(out.shape, out.dtype, at, frozenset(d for d in x.varies if out.shape[d] > 1), x.fixed)


def _concatenate(e: Lowering, operands: list[Any], out: ArrayType, dimension: int) -> Any:
    """Columns beside each other, in whole groups of 8."""
    whole = e.layout(out.shape)
    if whole.cols != dimension:
        raise Unfit(f"values put together along axis {dimension} of {out.shape}: put them together along the columns")
    parts = [e.fragment(x, replace(whole, shape=x.shape)) for x in operands]
    for part in parts:
        e.extent(part.layout)
        e.settle(part)
    return Fragment(whole, out.dtype, [[x for one in row for x in one] for row in zip(*(part.regs for part in parts))])


RULES: dict[Primitive, Callable[..., Any]] = {
    concatenate_p: _concatenate,
    broadcast_in_dim_p: _broadcast,
    reshape_p: _reshape,
    squeeze_p: _reshape,
    transpose_p: _transpose,
    iota_p: _iota,
    slice_p: _slice,
}
