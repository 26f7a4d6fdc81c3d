"""`kernel_call`: printed as the plain array Program that the kernel is here, or a call of the interpreter."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from ...core.ir import Program
from ...core.primitives.callback import pure_callback
from ...core.trace import trace_program
from ...lang.interpret import interpret
from ...lang.kernel import Kernel
from ..kernel import kernel_program


def _interpreted(kernel: Kernel) -> Program:
    run = functools.partial(interpret, kernel)
    return trace_program(lambda *arrays: pure_callback(run, kernel.out_types, *arrays), kernel.in_types, kernel.name)


def kernel_call(e: Any, operands: Sequence[Any], outs: Sequence[Any], *, kernel: Kernel) -> list[Any]:
    return e.inline(_interpreted(kernel) if kernel.interpret else kernel_program(kernel), operands)
