"""Window reductions as StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.types import ArrayType, is_bool, is_float
from ...core.primitives.elementwise.comparison import ge_p
from ...core.primitives.reduction.reduce import highest, lowest
from ...core.primitives.reduction.reduce_window import (
    reduce_window_max_p,
    reduce_window_min_p,
    reduce_window_p,
    reduce_window_sum_p,
    select_and_scatter_add_p,
)
from .conv import pads_attribute
from .elementwise import compare
from .emit import Emitter, Operand, Rule, integers

if TYPE_CHECKING:
    from ...core.ir.array import ArrayLike
    from ...core.ir.program import Program

Body = Callable[[Emitter, list[Operand]], Sequence[Operand]]


def _reduce_window(
    e: Emitter, arrays: Sequence[Operand], starts: Sequence[Operand], shape: Sequence[int], body: Body,
    params: dict[str, Any],
) -> list[Operand]:  # fmt: skip
    scalars = [ArrayType((), a.dtype) for a in arrays]
    region = e.region([*scalars, *scalars], lambda values: body(e, values))
    names = ("window_dimensions", "window_strides", "window_dilation")
    attributes = ", ".join([f"{name}s = {integers(params[name])}".replace("dimensionss", "dimensions")
                            .replace("stridess", "strides") for name in names])  # fmt: skip
    attributes += f", base_dilations = {integers(params['base_dilation'])}, {pads_attribute(params['padding'])}"
    outs = [ArrayType(tuple(shape), a.dtype) for a in arrays]
    return e.ops("stablehlo.reduce_window", [*arrays, *starts], outs, attributes, region)


def _binary(name: str) -> Body:
    return lambda e, values: [e.op(name, values, values[0].type)]


def _monoid(operation: str, start: Callable[[Any], Any]) -> Rule:
    def rule(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
        (x,) = operands
        if is_float(x.dtype) and x.dtype.itemsize < 4:
            x = e.convert(x, np.dtype(np.float32))
        first = e.constant(start(x.dtype), ArrayType((), x.dtype))
        if not out.shape:
            return operands[0]
        return e.convert(_reduce_window(e, [x], [first], out.shape, _binary(operation), params)[0], out.dtype)

    return rule


def _generic(
    e: Emitter, operands: list[Operand], outs: Sequence[ArrayType], *, computation: Program, **params: Any
) -> Any:
    count = len(operands) // 2
    body: Body = lambda e, values: e.inline(computation, values)  # noqa: E731
    return _reduce_window(e, operands[:count], operands[count:], outs[0].shape, body, params)


def _pad(e: Emitter, x: Operand, value: ArrayLike, padding: Sequence[tuple[int, int]]) -> Operand:
    shape = tuple(n + low + high for n, (low, high) in zip(x.shape, padding, strict=True))
    fill = e.constant(value, ArrayType((), x.dtype))
    low, high = zip(*padding, strict=True)
    attributes = (
        f"edge_padding_low = {integers(low)}, edge_padding_high = {integers(high)}, "
        f"interior_padding = {integers((0,) * len(shape))}"
    )
    return e.op("stablehlo.pad", [x, fill], ArrayType(shape, x.dtype), attributes)


def _select_and_scatter_add(
    e: Emitter, operands: list[Operand], out: ArrayType, *, select_prim: Any, window_dimensions: Sequence[int],
    window_strides: Sequence[int], padding: Sequence[tuple[int, int]],
) -> Operand:  # fmt: skip
    """The operand is padded beforehand with the value that is never preferred, and the result cropped."""
    source, operand = operands
    if not out.shape:
        return source
    worst, direction = (lowest, "GE") if select_prim is ge_p else (highest, "LE")
    operand = _pad(e, operand, worst(operand.dtype), padding)
    wide = np.dtype(np.float32) if is_float(out.dtype) and out.dtype.itemsize < 4 else out.dtype
    scalar, summed = ArrayType((), operand.dtype), ArrayType((), wide)
    select = e.region([scalar, scalar], lambda v: [compare(e, direction, v[0], v[1])])
    scatter = e.region([summed, summed], lambda v: _binary("stablehlo.or" if is_bool(wide) else "stablehlo.add")(e, v))
    attributes = (
        f"window_dimensions = {integers(window_dimensions)}, window_strides = {integers(window_strides)}, "
        f"{pads_attribute(((0, 0),) * len(padding))}"
    )
    first = e.constant(0, summed)
    # The operand and the sums have one type in this operation.
    operands = [e.convert(operand, wide), e.convert(source, wide), first]
    if operand.dtype != wide:
        select = e.region([summed, summed], lambda v: [compare(e, direction, v[0], v[1])])
    result = ArrayType(operand.shape, wide)
    found = e.op("stablehlo.select_and_scatter", operands, result, attributes, f"{select}, {scatter}")
    return e.convert(_pad(e, found, 0, [(-low, -high) for low, high in padding]), out.dtype)


RULES: dict[Primitive, Rule] = {
    reduce_window_sum_p: _monoid("stablehlo.add", lambda dtype: np.zeros((), dtype)),
    reduce_window_max_p: _monoid("stablehlo.maximum", lowest),
    reduce_window_min_p: _monoid("stablehlo.minimum", highest),
    reduce_window_p: _generic,
    select_and_scatter_add_p: _select_and_scatter_add,
}
