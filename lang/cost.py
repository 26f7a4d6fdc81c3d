"""What a kernel costs: stated by its author, or counted."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..core import tree
from ..core.ir import Eqn, Program, subprograms
from ..core.trace import as_type, trace_program
from ..core.types import RefType
from .kernel import Kernel


@dataclass(frozen=True)
class CostEstimate:
    """Operations and bytes of one call, for schedulers and rooflines: no result depends on it."""

    flops: int
    transcendentals: int
    bytes_accessed: int
    remote_bytes_transferred: int = 0


_FREE = frozenset(
    "broadcast_in_dim reshape transpose squeeze expand_dims slice dynamic_slice dynamic_update_slice concatenate pad "
    "rev gather iota copy convert_element_type bitcast_convert_type select_n stop_gradient get swap addupdate undefine "
    "dma_start dma_wait semaphore_signal semaphore_wait semaphore_read debug_callback pure_callback io_callback".split()
)  # fmt: skip
_TRANSCENDENTAL = frozenset(
    "exp exp2 expm1 log log1p log2 sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh logistic erf erfc "
    "erf_inv lgamma digamma pow sqrt rsqrt cbrt".split())  # fmt: skip
_WHOLE = ("reduce_", "arg", "cum")  # primitives that cost one operation for each element they read


def _size(atoms: Any) -> int:
    return max((math.prod(a.type.shape) for a in atoms), default=1)


def eqn_cost(eqn: Eqn) -> tuple[int, int]:
    """Operations, and calls of transcendental functions, of one equation."""
    name, params = eqn.primitive.name, eqn.params
    if name == "kernel_call":
        flops, special = _program(params["kernel"].body)
        return flops * params["kernel"].cells, special * params["kernel"].cells
    inner = [_program(p) for _, p in subprograms(eqn)]
    if inner:
        times = params.get("length", 1)
        one = max(inner) if name == "cond" else (sum(f for f, _ in inner), sum(s for _, s in inner))
        return one[0] * times, one[1] * times
    if name in _FREE:
        return 0, 0
    if name == "dot_general":
        (contracted, _), _ = params["dimension_numbers"]
        depth = math.prod(eqn.inputs[0].type.shape[d] for d in contracted)
        return 2 * depth * math.prod(eqn.outputs[0].type.shape), 0
    if name in _TRANSCENDENTAL:
        return 0, _size(eqn.outputs)
    return _size(eqn.inputs if name.startswith(_WHOLE) else eqn.outputs), 0


def _program(program: Program) -> tuple[int, int]:
    counts = [eqn_cost(e) for e in program.eqns]
    return sum(f for f, _ in counts), sum(s for _, s in counts)


def program_cost(program: Program) -> CostEstimate:
    """The cost of a Program, loops of unknown length counted once."""
    flops, special = _program(program)
    types = (t.array if isinstance(t, RefType) else t for t in (*program.in_types, *program.out_types))
    nbytes = sum(t.nbytes for t in types)
    return CostEstimate(flops, special, nbytes)


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
    """Count what a function of arrays costs, without running it.

    >>> import numpy as np
    >>> from tilewright import numpy as tnp
    >>> estimate_cost(lambda x: x @ x, np.ones((4, 4), np.float32)).flops
    128
    """
    leaves, structure = tree.flatten((args, kwargs))

    def flat(*values: Any) -> list[Any]:
        positional, named = structure.unflatten(values)
        return tree.leaves(fun(*positional, **named))

    return program_cost(trace_program(flat, [as_type(x) for x in leaves]))
