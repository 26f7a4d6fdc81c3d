"""`Body`: the Programs of a kernel printed as one function. Rules call its methods; `RULES` is the table of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..core.ir.program import Eqn
from ..core.ir.types import INT32, ArrayType, is_bool, is_float, is_integer, is_unsigned
from ..core.support.errors import Source, UnsupportedError
from ..lang.legalize import Backend
from ..lang.mlir.program_printer import ProgramPrinter
from ..lang.targets.target import Target
from . import vector_layout
from .text import SSA, Mem, Shape, Writer
from .values import Value, physical, stored, wide

Rule = Callable[..., Any]


def location(source: Source) -> str:
    """The place of an operation in the user's code, as MLIR prints it."""
    file = source.code.co_filename.replace("\\", "\\5C").replace('"', "\\22")
    return f' loc("{file}":{source.line}:0)'


class Body(ProgramPrinter):
    """One function being printed."""

    target: Target
    backend: Backend
    name: str

    def __init__(self, backend: Backend, kernel: str, target: Target, windows: bool = False):
        self.w: Writer = Writer()
        self.backend, self.name, self.target = backend, kernel, target
        self.windows = windows  # whether rows in HBM are accessed through the tiles around them
        self.extra: list[Mem] = []  # scratch that rules ask for

    # ------------------------------------------------------------ forms of values

    def vector(self, x: Value) -> SSA:
        """A value as a vector of 32-bit numbers (or a mask)."""
        if x.vector is None:
            shape, element = physical(x.shape), wide(x.dtype, self.source)
            if x.known is not None:
                x.vector = self.w.constant(x.known, element, shape)
            elif x.scalar is not None:
                x.vector = self._spread_scalar(x.scalar, shape)
            else:
                assert x.narrow is not None
                x.vector = self.widen(x.narrow, x.dtype)
        return x.vector

    def _spread_scalar(self, x: SSA, shape: Shape) -> SSA:
        if x.element != "i1":
            return self.w.op("vector.broadcast", [x], shape, x.element)
        word = self.w.op("arith.extui", [x], None, "i32")
        return vector_layout.as_mask(self.w, self.w.op("vector.broadcast", [word], shape, "i32"), "i1")

    def widen(self, x: SSA, dtype: np.dtype[Any]) -> SSA:
        """What memory holds as what is computed with."""
        if is_bool(dtype):
            return vector_layout.as_mask(self.w, x, "i1")
        if x.element in ("f32", "i32"):
            return x
        name = "arith.extf" if is_float(dtype) else "arith.extui" if is_unsigned(dtype) else "arith.extsi"
        return self.w.op(name, [x], x.shape, wide(dtype))

    def narrow(self, x: Value) -> SSA:
        """A value as memory holds it."""
        if x.narrow is None:
            x.narrow = self.narrowed(self.vector(x), x.dtype)
        return x.narrow

    def narrowed(self, x: SSA, dtype: np.dtype[Any]) -> SSA:
        element = stored(dtype, self.source)
        if is_bool(dtype):
            return vector_layout.as_words(self.w, x)
        if element == x.element:
            return x
        return self.w.op("arith.truncf" if is_float(dtype) else "arith.trunci", [x], x.shape, element)

    def scalar(self, x: Value) -> SSA:
        """A value of one element in the scalar unit."""
        if x.scalar is None:
            if x.known is not None:
                x.scalar = self.w.constant(x.known, wide(x.dtype))
            else:
                x.scalar = self.first(self.vector(x))
        return x.scalar

    def first(self, x: SSA) -> SSA:
        """The only element of a vector."""
        y = vector_layout.as_words(self.w, x)
        rank = len(x.shape or ())
        place = f"static_position = array<i64: {', '.join('0' * rank)}>"
        y = self.w.op("vector.extract", [y], None, y.element, place)
        if x.element != "i1":
            return y
        return self.w.op("arith.cmpi", [y, self.w.constant(0, "i32")], None, "i1", "predicate = 1 : i64")

    def in_scalar_unit(self, x: Value) -> bool:
        return x.scalar is not None or x.known is not None

    # ------------------------------------------------------------ making values

    def value(self, type: ArrayType, x: SSA, rounded: bool = True) -> Value:
        """A vector in physical shape (or a scalar) as a value; `rounded`: it may have more bits than its dtype."""
        assert x.shape is None or x.shape == physical(type.shape), (x, type)
        x = self.rounded(x, type.dtype) if rounded else x
        if x.shape is None:
            return Value(type, scalar=x)
        if x.element not in ("f32", "i32", "i1"):
            return Value(type, narrow=x)
        return Value(type, vector=x)

    def rounded(self, x: SSA, dtype: np.dtype[Any]) -> SSA:
        """A 32-bit number brought to the values that a narrower dtype has."""
        name = str(dtype)
        if x.element == "f32" and name != "float32":
            if name == "float16":
                return self.w.op("tpu.reduce_precision", [x], x.shape, "f32",
                                 "exponent_bits = 5 : i32, mantissa_bits = 10 : i32")  # fmt: skip
            if x.shape is None:
                x = self._spread_scalar(x, (1, 1))
            return self.w.op("arith.truncf", [x], x.shape, stored(dtype, self.source))
        if x.element == "i32" and is_integer(dtype):
            bits = ml_dtypes.iinfo(dtype).bits
            if bits < 32:
                return self._wrapped(x, bits, is_unsigned(dtype))
        return x

    def _wrapped(self, x: SSA, bits: int, unsigned: bool) -> SSA:
        if unsigned:
            return self.w.op("arith.andi", [x, self.w.constant(2**bits - 1, "i32", x.shape)], x.shape, "i32")
        by = self.w.constant(32 - bits, "i32", x.shape)
        up = self.w.op("arith.shli", [x, by], x.shape, "i32")
        return self.w.op("arith.shrsi", [up, by], x.shape, "i32")

    def known(self, value: Any, type: ArrayType) -> Value:
        """A constant value, one number over a shape."""
        return Value(ArrayType(type.shape, type.dtype), known=np.asarray(value).astype(type.dtype)[()],
                     multiple=abs(int(value)) if is_integer(type.dtype) else 1)  # fmt: skip

    def array(self, array: np.ndarray) -> Value:
        """A constant array."""
        type = ArrayType(array.shape, array.dtype)
        if array.size and (array == array.flat[0]).all():
            return self.known(array.flat[0], type)
        raise UnsupportedError(f"a constant array of {type.show()} in a kernel", "hand it to the kernel as an operand")

    def integer(self, value: int) -> Value:
        return self.known(value, ArrayType((), INT32))

    def spread(self, x: Value, shape: Shape) -> Value:
        """A scalar over a shape; other values themselves."""
        if x.shape == shape:
            return x
        type = ArrayType(shape, x.dtype)
        if x.known is not None:
            return Value(type, known=x.known)
        vector = (
            self.vector(Value(x.type, scalar=x.scalar)) if x.vector is None and x.narrow is None else self.vector(x)
        )
        return Value(type, vector=vector_layout.broadcast(self.w, vector, physical(shape)))

    # ------------------------------------------------------------ small arithmetic on scalars

    def scalar_op(self, name: str, *xs: SSA) -> SSA:
        return self.w.op(name, xs, None, "i32")

    def int_constant(self, value: int) -> SSA:
        return self.w.constant(value, "i32")

    def as_index(self, x: Any) -> SSA:
        """An integer, value or scalar as an `index`."""
        if isinstance(x, int):
            return self.w.index(x)
        word = self.scalar(x) if isinstance(x, Value) else x
        return self.w.op("arith.index_cast", [word], None, "index")

    def modulo(self, x: SSA, n: int) -> SSA:
        """A scalar brought to 0 .. n - 1."""
        size = self.int_constant(n)
        rest = self.scalar_op("arith.remsi", x, size)
        return self.scalar_op("arith.remsi", self.scalar_op("arith.addi", rest, size), size)

    # ------------------------------------------------------------ programs

    def literal(self, value: Any, type: Any) -> Value:
        return self.known(value, type)

    def constant_array(self, value: np.ndarray, type: Any) -> Value:
        """An array among a Program's constants, built of its elements."""
        type = ArrayType(value.shape, value.dtype)
        if value.size == 0 or (value == value.flat[0]).all():
            return self.known(value.flat[0] if value.size else 0, type)
        shape, element = physical(value.shape), wide(value.dtype, self.source)
        place = self.linear_iota(shape)
        out = self.w.constant(value.flat[0], element, shape)
        for i, number in enumerate(value.flat):
            if number != value.flat[0] or number != number:
                here = self.w.op("arith.cmpi", [place, self.w.constant(i, "i32", shape)], shape, "i1",
                                 "predicate = 0 : i64")  # fmt: skip
                out = self.select(here, self.w.constant(number, element, shape), out)
        return Value(type, vector=out)

    def linear_iota(self, shape: Shape) -> SSA:
        """The row-major position of every element."""
        total, step = self.w.constant(0, "i32", shape), 1
        for axis in reversed(range(len(shape))):
            if shape[axis] > 1:
                place = vector_layout.iota(self.w, shape, axis)
                if step > 1:
                    place = self.w.op("arith.muli", [place, self.w.constant(step, "i32", shape)], shape, "i32")
                total = place if step == 1 else self.w.op("arith.addi", [total, place], shape, "i32")
            step *= shape[axis]
        return total

    def select(self, mask: SSA, on_true: SSA, on_false: SSA) -> SSA:
        if on_true.element != "i1":
            return self.w.op("arith.select", [mask, on_true, on_false], on_true.shape, on_true.element)
        words = [vector_layout.as_words(self.w, x) for x in (on_true, on_false)]
        return vector_layout.as_mask(self.w, self.w.op("arith.select", [mask, *words], on_true.shape, "i32"), "i1")

    def equation(self, eqn: Eqn, operands: list[Any]) -> list[Any]:
        """Print one equation at its source line; an array without elements is 0, as no vector is empty."""
        outer = self.source, self.w.location
        if eqn.source is not None:
            self.source, self.w.location = eqn.source, location(eqn.source)
        try:
            arrays = [v.type for v in eqn.outputs if isinstance(v.type, ArrayType)]
            for type in arrays:
                wide(type.dtype, self.source)
            if arrays and not eqn.effects and len(arrays) == len(eqn.outputs) and not any(t.size for t in arrays):
                return [self.known(0, t) for t in arrays]
            return self.ruled(eqn, operands)
        finally:
            self.source, self.w.location = outer

    def scratch(self, shape: Shape, element: str, space: str) -> Mem:
        """Memory of the kernel that a rule works in."""
        mem = Mem(f"%w{len(self.extra)}", shape, element, space)
        self.extra.append(mem)
        return mem
