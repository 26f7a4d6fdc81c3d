"""Which kernels may become machine code of this CPU: those that ask for it, and by default those that are not small.

Imports nothing of `cpu_backend`: programs with small kernels do not load it.
"""

from __future__ import annotations

from ..core.ir.program import Program
from ..core.support.config import current
from ..lang.cpu import CompilerParams
from ..lang.kernel.kernel import Kernel
from ..lang.kernel.traverse import kernels_of
from ..lang.targets.compiler_params import params_of
from ..xla_backend.cpu_passes.options import ZEROS
from .large_reductions import LEAST_BYTES


def asked(kernel: Kernel) -> str | None:
    """The route that a kernel's own parameters ask for."""
    return params_of(kernel, CompilerParams).route


def route_of(kernel: Kernel, off: frozenset[str]) -> str:
    """`xla`, `machine_code`, or `cost`: whichever is estimated to be faster. `off` are options that are not used."""
    route = asked(kernel)
    if route is not None:
        return route
    if kernel.interpret or ZEROS in off:  # what memory holds that nothing has written is part of the program
        return "xla"
    route = current().cpu_route
    if route is not None:
        return route
    moved = sum(t.nbytes for t in (*kernel.in_types, *kernel.out_types)) if not kernel.symbolic else 0
    return "cost" if moved >= LEAST_BYTES else "xla"


def candidates(program: Program, off: frozenset[str]) -> bool:
    """Whether a kernel of a Program may become machine code."""
    return any(route_of(kernel, off) != "xla" for kernel in kernels_of(program))
