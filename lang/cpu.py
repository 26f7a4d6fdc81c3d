"""Options of the CPU lowering of a kernel."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.support.call_errors import public
from .targets.compiler_params import Params


@public
@dataclass(frozen=True)
class CompilerParams(Params):
    """`intermediate_bytes`: the most that an intermediate result of cells run side by side may take.

    Beyond it the cells run in a loop, as many side by side as fit. Without it the bound is some hundred MiB.
    `backward`: those of the kernels of its gradient; None: the same.
    """

    intermediate_bytes: int | None = None
    backward: CompilerParams | None = None


__all__ = ["CompilerParams"]
