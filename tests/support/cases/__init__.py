"""One table of cases per family of primitives; `tests/core/primitives/test_laws.py` checks every law on every case."""

from dataclasses import dataclass, field
from typing import Any

from tilewright.core.ir.primitive import Primitive
from tilewright.core.ir.types import ArrayType


@dataclass(frozen=True)
class Case:
    """A primitive at some operand types and parameters; `low` and `high` bound the random operands."""

    primitive: Primitive
    types: tuple[ArrayType, ...]
    params: dict[str, Any] = field(default_factory=dict)
    low: float = -2.0
    high: float = 2.0
    grad: tuple[bool, ...] | None = None  # which operands to differentiate; None: every float operand
    operands: tuple[Any, ...] | None = None  # given operands where random ones will not do (indices)
    tolerance: float = 1e-5  # of compiled against NumPy, relative, for f32
    note: str = ""

    def __str__(self) -> str:
        return f"{self.primitive.name}-{'-'.join(t.show() for t in self.types)}{'-' + self.note if self.note else ''}"
