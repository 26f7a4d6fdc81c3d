"""Convolutions as StableHLO."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...core.ir.types import ArrayType, is_complex, is_float
from ...core.primitives.contraction.conv import conv_general_dilated_p
from ...core.primitives.contraction.dot_general import accumulator
from .contract import precision_config
from .emit import Emitter, Operand, integers


def pads_attribute(padding: Sequence[tuple[int, int]]) -> str:
    """`padding` as a dense integer matrix."""
    rows = ", ".join(f"[{low}, {high}]" for low, high in padding)
    body = f"[{rows}]" if padding else ""
    return f"padding = dense<{body}> : tensor<{len(padding)}x2xi64>"


def _dimensions(spec: Sequence[int], names: str) -> str:
    labels = {spec[0]: names[0], spec[1]: names[1]} | {axis: str(i) for i, axis in enumerate(spec[2:])}
    return "[" + ", ".join(labels[axis] for axis in range(len(spec))) + "]"


def _convolution(e: Emitter, lhs: Operand, rhs: Operand, out: ArrayType, params: dict[str, Any]) -> Operand:
    numbers = params["dimension_numbers"]
    layout = (
        f"#stablehlo.conv<{_dimensions(numbers.lhs_spec, 'bf')}x{_dimensions(numbers.rhs_spec, 'oi')}"
        f"->{_dimensions(numbers.out_spec, 'bf')}>"
    )
    attributes = ", ".join([
        f"window_strides = {integers(params['window_strides'])}",
        pads_attribute(params["padding"]),
        f"lhs_dilation = {integers(params['lhs_dilation'])}",
        f"rhs_dilation = {integers(params['rhs_dilation'])}",
        f"dimension_numbers = {layout}",
        f"feature_group_count = {params['feature_group_count']} : i64",
        f"batch_group_count = {params['batch_group_count']} : i64",
        precision_config(params["precision"]),
    ])  # fmt: skip
    return e.op("stablehlo.convolution", [lhs, rhs], out, attributes)


def conv_general_dilated(e: Emitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
    """On the CPU in the type of the sums; complex products as four real ones; 0 of a kernel without elements."""
    if 0 in operands[1].shape:  # a window of no elements is none of XLA's
        return e.constant(0, out)
    wide = accumulator(out.dtype) if e.platform == "cpu" or not is_float(out.dtype) else out.dtype
    if e.platform == "cpu" or operands[0].dtype != operands[1].dtype or is_complex(out.dtype):
        operands = [e.convert(o, wide) for o in operands]
    if not is_complex(wide):
        return e.convert(_convolution(e, operands[0], operands[1], ArrayType(out.shape, wide), params), out.dtype)
    half = ArrayType((), wide).dtype.type(0).real.dtype
    (lr, li), (rr, ri) = (
        [e.op(f"stablehlo.{part}", [o], ArrayType(o.shape, half)) for part in ("real", "imag")] for o in operands
    )
    result = ArrayType(out.shape, half)

    def combine(name: str, a: tuple[Operand, Operand], b: tuple[Operand, Operand]) -> Operand:
        parts = [_convolution(e, x, y, result, params) for x, y in (a, b)]
        return e.op(f"stablehlo.{name}", parts, result)

    real, imag = combine("subtract", (lr, rr), (li, ri)), combine("add", (lr, ri), (li, rr))
    return e.op("stablehlo.complex", [real, imag], out)


RULES = {conv_general_dilated_p: conv_general_dilated}
