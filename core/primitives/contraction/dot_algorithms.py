"""How exactly to compute products: what `precision` may be beside a `Precision`.

A result here is never less exact than was asked for: an algorithm is met by the least `Precision` that gives what it
promises.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any

from ...ir.types import as_dtype
from .conv import ConvDimensionNumbers
from .dot_general import Precision


@dataclass(frozen=True)
class DotAlgorithm:
    """How a product is computed: the dtypes that operands are rounded to and sums are kept in, and into how many parts
    of these dtypes an operand is split."""

    lhs_precision_type: Any
    rhs_precision_type: Any
    accumulation_type: Any
    lhs_component_count: int = 1
    rhs_component_count: int = 1
    num_primitive_operations: int = 1
    allow_imprecise_accumulation: bool = False

    @property
    def precision(self) -> Precision:
        """The least precision that gives what the algorithm promises."""
        types = (as_dtype(self.lhs_precision_type), as_dtype(self.rhs_precision_type))
        if min(t.itemsize for t in types) >= 4 or self.num_primitive_operations > 3:
            return Precision.HIGHEST
        return Precision.HIGH if self.num_primitive_operations > 1 else Precision.DEFAULT


class DotAlgorithmPreset(enum.Enum):
    """Algorithms by name: the operands' dtype, twice, the sums' dtype, and the number of products."""

    DEFAULT = enum.auto()
    ANY_F8_ANY_F8_F32 = enum.auto()
    ANY_F8_ANY_F8_F32_FAST_ACCUM = enum.auto()
    ANY_F8_ANY_F8_ANY = enum.auto()
    ANY_F8_ANY_F8_ANY_FAST_ACCUM = enum.auto()
    F16_F16_F16 = enum.auto()
    F16_F16_F32 = enum.auto()
    BF16_BF16_BF16 = enum.auto()
    BF16_BF16_F32 = enum.auto()
    BF16_BF16_F32_X3 = enum.auto()
    BF16_BF16_F32_X6 = enum.auto()
    BF16_BF16_F32_X9 = enum.auto()
    TF32_TF32_F32 = enum.auto()
    TF32_TF32_F32_X3 = enum.auto()
    F32_F32_F32 = enum.auto()
    F64_F64_F64 = enum.auto()

    @property
    def precision(self) -> Precision:
        """The least precision that gives what the algorithm promises."""
        return Precision(self.name)


_Pair = tuple[str, str] | tuple[Precision, Precision]
PrecisionLike = str | Precision | _Pair | DotAlgorithm | DotAlgorithmPreset | None
ConvGeneralDilatedDimensionNumbers = tuple[str, str, str] | ConvDimensionNumbers | None
