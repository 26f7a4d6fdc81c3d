"""The kernels that a function calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tilewright.core.support import pytree
from tilewright.core.tracing.trace import trace_program
from tilewright.lang.kernel.kernel import Kernel
from tilewright.lang.kernel.traverse import kernels_of
from tilewright.lang.transforms.dynamic_grid import static


def kernels_in(function: Callable[..., Any], types: Sequence[Any], name: str = "f") -> list[Kernel]:
    """The kernels that a function calls, their grids static."""
    program = trace_program(lambda *xs: pytree.leaves(function(*xs)), types, name)
    return [static(k, "a launch needs") for k in kernels_of(program)]
