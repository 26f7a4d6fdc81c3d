"""What a kernel costs: stated by its author, or counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ...core.ir.axis_relation import runs, work_of
from ...core.ir.program import Eqn, Program, subprograms
from ...core.ir.types import FAR, RefType
from ...core.primitives.refs.state_primitives import Index, access_shape
from ...core.support import pytree
from ...core.support.call_errors import public
from ...core.tracing.trace import as_type, trace_program
from ..call.primitive import kernel_call_p
from ..kernel.kernel import Kernel
from ..ops.dma import dma_start_p, split_parts
from ..warpgroups.products import PRODUCTS, product_flops
from ..warpgroups.transfers import copy_gmem_to_smem_p, copy_smem_to_gmem_p

_COPIES = (dma_start_p, copy_gmem_to_smem_p, copy_smem_to_gmem_p)


@public
@dataclass(frozen=True)
class CostEstimate:
    """Operations and bytes of one call, for schedulers and rooflines: no result depends on it."""

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


def eqn_cost(eqn: Eqn) -> tuple[int, int]:
    """Operations, and calls of transcendental functions, of one equation."""
    called = eqn.primitive is kernel_call_p
    bodies = [eqn.params["kernel"].body] if called else [p for _, p in subprograms(eqn)]
    if not bodies:
        return (product_flops(eqn), 0) if eqn.primitive in PRODUCTS else work_of(eqn)
    inner = [_program(p) for p in bodies]
    one = max(inner) if eqn.primitive.choice else (sum(f for f, _ in inner), sum(s for _, s in inner))
    times = runs(eqn)
    return one[0] * times, one[1] * times


def _program(program: Program) -> tuple[int, int]:
    counts = [eqn_cost(e) for e in program.eqns]
    return sum(f for f, _ in counts), sum(s for _, s in counts)


def program_cost(program: Program) -> CostEstimate:
    """The cost of a Program, loops of unknown length counted once."""
    flops, special = _program(program)
    types = (t.array if isinstance(t, RefType) else t for t in (*program.in_types, *program.out_types))
    nbytes = sum(t.nbytes for t in types)
    return CostEstimate(flops, special, nbytes)


def reached_bytes(program: Program) -> int:
    """The bytes that a body reads and writes of operands in HBM (`ANY`, `HBM`), loops of unknown length once."""
    total = 0
    for eqn in program.eqns:
        inner = [reached_bytes(p) for _, p in subprograms(eqn)]
        if inner:
            total += (max(inner) if eqn.primitive.choice else sum(inner)) * runs(eqn)
        elif eqn.primitive in _COPIES:
            parts = split_parts(eqn.inputs, eqn.params["src"], eqn.params["dst"])
            for (ref, _), index in zip(parts, (eqn.params["src"], eqn.params["dst"]), strict=True):
                total += _accessed(ref.type, index)
        elif eqn.effects and "index" in eqn.params and isinstance(eqn.inputs[0].type, RefType):
            total += _accessed(eqn.inputs[0].type, eqn.params["index"])
    return total


def _accessed(type: RefType, index: Index) -> int:
    return math.prod(access_shape(index)) * type.dtype.itemsize if type.space in FAR else 0


def kernel_cost(kernel: Kernel) -> CostEstimate:
    """The cost of one call of a kernel: as its author stated it, or counted, every operand moved once."""
    stated = dict(kernel.settings).get("cost_estimate")
    if stated is not None:
        return stated
    flops, special = _program(kernel.body)
    return CostEstimate(
        flops * kernel.cells, special * kernel.cells, sum(t.nbytes for t in (*kernel.in_types, *kernel.out_types))
    )


def estimate_cost(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> CostEstimate:
    """Count what a function of arrays costs, without running it; keyword arguments are given to it as they are.

    >>> import numpy as np
    >>> from tilewright import numpy as tnp
    >>> estimate_cost(lambda x: x @ x, np.ones((4, 4), np.float32)).flops
    128
    """
    leaves, structure = pytree.flatten(args)

    def flat(*values: Any) -> list[Any]:
        return pytree.leaves(fun(*structure.unflatten(values), **kwargs))

    return program_cost(trace_program(flat, [as_type(x) for x in leaves]))
