"""The threefry hash as StableHLO. (`core.random.key_lowering.physicalize` removes key primitives earlier.)"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.ir.types import UINT32, ArrayType
from ...core.primitives.keys.threefry import threefry2x32_p, threefry_rounds
from .emit import Emitter, Operand


class _Word:
    """A uint32 operand with operators, for `threefry_rounds`."""

    __slots__ = ("emitter", "operand")

    def __init__(self, emitter: Emitter, operand: Operand):
        self.emitter, self.operand = emitter, operand

    def _op(self, name: str, other: _Word) -> _Word:
        out = self.emitter.op(f"stablehlo.{name}", [self.operand, other.operand], self.operand.type)
        return _Word(self.emitter, out)

    def __add__(self, other: _Word) -> _Word:
        return self._op("add", other)

    def __xor__(self, other: _Word) -> _Word:
        return self._op("xor", other)


def threefry2x32(e: Emitter, operands: list[Operand], outs: list[ArrayType]) -> list[Operand]:
    """The rounds unrolled: XLA fuses them into one loop over the elements with what follows."""
    constants: dict[int, _Word] = {}
    type_ = ArrayType(outs[0].shape, UINT32)

    def number(value: Any) -> _Word:
        found = constants.get(value)
        if found is None:
            found = constants[value] = _Word(e, e.constant(np.uint32(value), type_))
        return found

    def rotate(x: _Word, by: int) -> _Word:
        left, right = x._op("shift_left", number(by)), x._op("shift_right_logical", number(32 - by))
        return left._op("or", right)

    k1, k2, x1, x2 = (_Word(e, e.broadcast(o, type_.shape)) for o in operands)
    return [w.operand for w in threefry_rounds(k1, k2, x1, x2, rotate, number)]


def behind_barrier(e: Emitter, operands: list[Operand], outs: list[ArrayType]) -> list[Operand]:
    """The rounds with a barrier behind them: what takes the words does not hash again."""
    return e.ops("stablehlo.optimization_barrier", threefry2x32(e, operands, outs), outs)


RULES = {threefry2x32_p: threefry2x32}
