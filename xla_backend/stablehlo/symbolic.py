"""StableHLO of programs with symbolic sizes: what states a size as an attribute takes it as an operand instead.

Sizes are numbers of type i32, computed where they are used from those of the arguments. XLA's refinement of shapes
folds them once the arguments' sizes are known, and the operations become those with attributes again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.ir.primitive import Primitive
from ...core.ir.program import Eqn, Program
from ...core.ir.symbolic.dim import Dim, Operation, Size, is_symbolic
from ...core.ir.types import BOOL, INT32, ArrayType, Dtype
from ...core.primitives.movement.gather_scatter import gather_p
from ...core.primitives.movement.shape import pad_p, slice_p, split_p
from ...core.support.errors import TilewrightError, UnsupportedError
from . import index
from .emit import Emitter, Operand, integers

NUMBER = ArrayType((), INT32)
_DYNAMIC = {"broadcast_in_dim": "dynamic_broadcast_in_dim", "reshape": "dynamic_reshape", "iota": "dynamic_iota"}
_SYMBOL_IN_ATTRIBUTE = re.compile(r"array<i64: [^>]*[a-zA-Z]")
_BINARY = {"max": "maximum", "min": "minimum"}


class SymbolicEmitter(Emitter):
    """Prints a module whose sizes may be symbolic; `sizes` has the value of each symbol."""

    sizes: dict[str, Operand] = {}

    def op(
        self, name: str, operands: Sequence[Operand], out: ArrayType, attributes: str = "", regions: str = ""
    ) -> Operand:
        if isinstance(out, ArrayType) and out.symbolic:
            short = name.removeprefix("stablehlo.")
            if short in _DYNAMIC:
                name, operands = f"stablehlo.{_DYNAMIC[short]}", [*operands, self.vector(out.shape)]
            elif short == "dynamic_slice":
                return self._dynamic_slice(operands[0], operands[1:], out)
        if _SYMBOL_IN_ATTRIBUTE.search(attributes):
            raise UnsupportedError(f"{name.removeprefix('stablehlo.')} takes no symbolic sizes: {attributes}",
                                   "export the function for each size of that axis")  # fmt: skip
        return super().op(name, operands, out, attributes, regions)

    def equation(self, eqn: Eqn, operands: list[Operand]) -> list[Operand]:
        try:
            return super().equation(eqn, operands)
        except TilewrightError as error:
            raise type(error)(f"{eqn.primitive.name}: {error.what}", error.remedy, eqn.source) from None

    def constant(self, value: Any, type: ArrayType) -> Operand:
        if is_symbolic(value):
            return self.broadcast(self.convert(self.size(value), type.dtype), type.shape)
        if not type.symbolic:
            return super().constant(value, type)
        array = np.asarray(value)
        one = array if array.ndim == 0 else array.reshape(-1)[0]
        return self.broadcast(super().constant(one, ArrayType((), type.dtype)), type.shape)

    def call(self, program: Program, operands: Sequence[Operand], more: str = "") -> list[Operand]:
        # A function of its own would have to be given every size. Notes for XLA on the call (`more`) are lost.
        return self.inline(program, operands)

    # ------------------------------------------------------------ sizes

    def size(self, size: Size) -> Operand:
        """A size as a number."""
        if not isinstance(size, Dim):
            return super().constant(size, NUMBER)
        total: Operand | None = None
        for monomial, c in size.terms:
            product: Operand | None = None if c != 1 or not monomial else self._factor(*monomial[0])
            for factor, power in monomial if product is None else monomial[1:]:
                part = self._factor(factor, power)
                product = part if product is None else self.number("multiply", product, part)
            if c != 1 or not monomial:
                scale = super().constant(c, NUMBER)
                product = scale if product is None else self.number("multiply", product, scale)
            assert product is not None
            total = product if total is None else self.number("add", total, product)
        assert total is not None
        return total

    def number(self, name: str, *operands: Operand) -> Operand:
        """An operation of numbers."""
        return super().op(f"stablehlo.{name}", operands, NUMBER)

    def _factor(self, factor: str | Operation, power: int) -> Operand:
        one = self.sizes[factor] if isinstance(factor, str) else self._operation(factor)
        result = one
        for _ in range(power - 1):
            result = self.number("multiply", result, one)
        return result

    def _operation(self, operation: Operation) -> Operand:
        left, right = self.size(operation.left), self.size(operation.right)
        if operation.name in _BINARY:
            return self.number(_BINARY[operation.name], left, right)
        # Division of StableHLO rounds to zero; a remainder of the other sign than the divisor is one too many.
        quotient, rest = self.number("divide", left, right), self.number("remainder", left, right)
        zero = super().constant(0, NUMBER)
        wrong = self.compare("LT", self.number("multiply", rest, right), zero)
        if operation.name == "floordiv":
            return super().op("stablehlo.subtract", [quotient, self.convert(wrong, INT32)], NUMBER)
        return self.number("add", rest, self.number("multiply", self.convert(wrong, INT32), right))

    def compare(self, sign: str, left: Operand, right: Operand) -> Operand:
        """A comparison of numbers: EQ, GE, GT, LE or LT."""
        direction = f"comparison_direction = #stablehlo<comparison_direction {sign}>"
        return super().op("stablehlo.compare", [left, right], ArrayType((), BOOL), direction)

    def vector(self, sizes: Sequence[Size], dtype: Dtype = INT32) -> Operand:
        """Sizes as a vector."""
        out = ArrayType((len(sizes),), dtype)
        if not any(map(is_symbolic, sizes)):
            return super().constant(np.asarray(sizes, np.int64), out)
        one = ArrayType((1,), dtype)
        parts = [super(SymbolicEmitter, self).op("stablehlo.reshape", [self.convert(self.size(s), dtype)], one)
                 for s in sizes]  # fmt: skip
        return super().op("stablehlo.concatenate", parts, out, "dimension = 0 : i64") if len(parts) > 1 else parts[0]

    # ------------------------------------------------------------ operations

    def cut(
        self, x: Operand, starts: Sequence[Size], limits: Sequence[Size], steps: Sequence[int], out: ArrayType
    ) -> Operand:
        """A slice from starts to limits, which are sizes."""
        ends = [self.vector(v) for v in (starts, limits, steps)]
        return super().op("stablehlo.real_dynamic_slice", [x, *ends], out)

    def _dynamic_slice(self, x: Operand, starts: Sequence[Operand], out: ArrayType) -> Operand:
        # In this form, starts and the sum of starts and sizes, the refinement makes a dynamic slice of it again.
        one, many = ArrayType((1,), INT32), ArrayType((len(starts),), INT32)
        op = super().op
        parts = [op("stablehlo.reshape", [self.convert(s, INT32)], one) for s in starts]
        begins = op("stablehlo.concatenate", parts, many, "dimension = 0 : i64") if len(parts) > 1 else parts[0]
        sizes, zero = self.vector(out.shape), self.vector([0] * len(starts))
        highest = op("stablehlo.subtract", [self.vector(x.shape), sizes], many)
        begins = op("stablehlo.clamp", [zero, begins, highest], many)
        ends = op("stablehlo.add", [begins, sizes], many)
        return op("stablehlo.real_dynamic_slice", [x, begins, ends, self.vector([1] * len(starts))], out)

    def require(self, condition: Operand, message: str, *numbers: Operand) -> None:
        """Have the refinement of shapes fail unless a condition holds; `{0}` in the message is the first number."""
        names = ", ".join(o.name for o in (condition, *numbers))
        types = ", ".join(["tensor<i1>", *["tensor<i32>"] * len(numbers)])
        text = message.replace("\\", "\\\\").replace('"', '\\"')
        self.lines.append(
            f'"stablehlo.custom_call"({names}) <{{call_target_name = "shape_assertion", has_side_effect = true}}> '
            f'{{error_message = "{text}"}} : ({types}) -> ()')  # fmt: skip


# ---------------------------------------------------------------------------- rules


def _slice(
    e: SymbolicEmitter,
    operands: list[Operand],
    out: ArrayType,
    *,
    start_indices: Any,
    limit_indices: Sequence[int],
    strides: Sequence[int],
) -> Operand:
    return e.cut(operands[0], start_indices, limit_indices, strides or [1] * len(start_indices), out)


def _split(
    e: SymbolicEmitter, operands: list[Operand], outs: list[Any], *, sizes: Sequence[int], axis: int
) -> list[Operand]:
    shape, start, results = operands[0].shape, 0, []
    for size, out in zip(sizes, outs, strict=True):
        starts = [start if d == axis else 0 for d in range(len(shape))]
        limits = [start + size if d == axis else n for d, n in enumerate(shape)]
        results.append(e.cut(operands[0], starts, limits, [1] * len(shape), out))
        start += size
    return results


def _pad(
    e: SymbolicEmitter, operands: list[Operand], out: ArrayType, *, padding_config: Sequence[tuple[int, int, int]]
) -> Operand:
    if not any(is_symbolic(n) for c in padding_config for n in c):
        low, high, interior = (integers([c[i] for c in padding_config]) for i in range(3))
        attributes = f"edge_padding_low = {low}, edge_padding_high = {high}, interior_padding = {interior}"
        return e.op("stablehlo.pad", operands, out, attributes)
    ends = [e.vector([c[i] for c in padding_config]) for i in range(3)]
    return e.op("stablehlo.dynamic_pad", [*operands, *ends], out)


def _gather(e: SymbolicEmitter, operands: list[Operand], out: ArrayType, **params: Any) -> Operand:
    if not any(map(is_symbolic, params["slice_sizes"])):
        return index.RULES[gather_p](e, operands, out, **params)
    return index.gather(e, operands, out, e.vector(params["slice_sizes"]), **params)


RULES: dict[Primitive, Any] = {
    slice_p: _slice, split_p: _split, pad_p: _pad, gather_p: _gather,
}  # fmt: skip
