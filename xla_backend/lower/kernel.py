"""`kernel_call`: printed as the plain array Program that the kernel is on this platform."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...lang.kernel import Kernel
from ..kernel import kernel_program


def _kernel_call(e: Any, operands: Sequence[Any], outs: Sequence[Any], *, kernel: Kernel) -> list[Any]:
    return e.inline(kernel_program(kernel), operands)


RULES = {"kernel_call": _kernel_call}
