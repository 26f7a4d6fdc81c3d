"""The kernels that a function calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.core import tree
from tilewright.core.trace import trace_program
from tilewright.lang.extent import static
from tilewright.lang.kernel import Kernel
from tilewright.lang.visit import kernels_of


def kernels_in(function: Callable[..., Any], types: Sequence[Any], name: str = "f") -> list[Kernel]:
    """The kernels that a function calls, their grids static."""
    program = trace_program(lambda *xs: tree.leaves(function(*xs)), types, name)
    return [static(k, "a launch needs") for k in kernels_of(program)]
