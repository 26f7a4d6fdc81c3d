"""`dimension`: the value of a symbolic size, an integer of the program being traced."""

from __future__ import annotations

from typing import Any

from .axis_relation import FREE
from .binding import is_evaluating
from .primitive import Primitive
from .types import scalar_type


def dimension(size: Any) -> Any:
    """A symbolic size as a number. Raises an error that names it where nothing is traced."""
    return int(size) if is_evaluating() else dimension_p.bind(size=size)


dimension_p: Primitive = Primitive("dimension", lambda *, size: scalar_type(1), work=FREE)
