"""`jax.experimental.hijax`: what flax derives classes from. Types of clients' own are refused in use."""

from __future__ import annotations

from typing import Any

from ....core.errors import UnsupportedError
from ....core.rules import instantiate as instantiate_zeros
from ...avals import AbstractValue
from ...missing import not_adapted


def _refuse(what: str) -> Any:
    raise UnsupportedError(f"{what} is a type of values that a client made (hijax), which has no adapter",
                           "use arrays, pytrees or Refs; in flax, leave `hijax` variables off")  # fmt: skip


class HiType:
    """A type of a client's own; refused when a value of it is made."""


class HiPrim:
    """A primitive on types of a client's own; refused when it is made."""

    def __init__(self) -> None:
        _refuse(type(self).__name__)


class aval_method:
    """A method of values that their type has."""

    def __init__(self, fun: Any):
        self.fun = fun


class aval_property:
    """A property of values that their type has."""

    def __init__(self, fget: Any):
        self.fget = fget


def register_hitype(value_type: type, type_of: Any) -> None:
    """Nothing: a value of such a type is refused when it is made."""


VJPHiPrimitive = HiPrim
__all__ = [
    "AbstractValue", "HiPrim", "HiType", "VJPHiPrimitive", "aval_method", "aval_property", "instantiate_zeros",
    "register_hitype",
]  # fmt: skip
__getattr__ = not_adapted("jax.experimental.hijax")
