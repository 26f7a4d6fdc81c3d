"""Per-warp regions of a warpgroup: each warp runs part of a body alone, then all reconverge.

    warp_map(*refs and values; program)          the last input of the Program is the number of the warp
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...core.ir.program import Effects, Program
from ...core.ir.types import INT32, ArrayType
from ...core.primitives.control_flow.subprograms import hoisted, shifted, trace_body
from ...core.support import pytree
from ...core.support.errors import ArgumentTypeError
from ..ops.dma import operation
from .common import acting, thread_cell

if TYPE_CHECKING:
    from ...core.ir.primitive import Primitive


WARPS = 4  # of a warpgroup


def _effects(*types: Any, program: Program) -> Effects:
    return shifted(program.effects, 0)


warp_map_p: Primitive = operation("warp_map", lambda *types, program: [], _effects, acting("run_warps"))
PRIMITIVES = (warp_map_p,)


def warp_map(f: Callable[[Any], None]) -> None:
    """Decorator: run a function on each of the four warps of this warpgroup, given its number; then all reconverge.

    In it a warp starts copies and products, waits and arrives for itself. Raises an `ArgumentTypeError` for a function
    that gives something, and a `KernelBodyError` outside of kernels for warpgroups.

    >>> import numpy as np
    >>> import tilewright as tw
    >>> from tilewright.lang import mosaic_gpu as plgpu
    >>> def numbers(o):
    ...     @plgpu.warp_map
    ...     def _(warp):
    ...         o[warp] = warp * 2
    >>> print(np.asarray(plgpu.kernel(numbers, out_type=tw.ShapeDtypeStruct((4,), "int32"), interpret=True)()))
    [0 2 4 6]
    """
    thread_cell("warp_map")
    structure = pytree.structure((0,))
    program, result = trace_body(f, structure, [ArrayType((), INT32)], "warp_map")
    if program.outputs:
        raise ArgumentTypeError(f"warp_map: {getattr(f, '__name__', f)} gives {result}", "let it give nothing")
    (closed,), constants = hoisted([program])
    warp_map_p.bind(*constants, program=closed)


__all__ = ["warp_map"]
