"""Privatisation of prefetched operands that a body writes: a scratch copy, initialised from the operand.

On a TPU they are in the core's scalar memory, where kernels keep values carried from cell to cell. An operand that an
index map reads as well is not such a one.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ...core.ir.program import Program
from ...core.primitives.elementwise.bitwise import and_p
from ...core.primitives.elementwise.comparison import eq_p
from ...core.primitives.refs.ref_views import view
from ...core.tracing.trace import eval_program, trace_program
from ..analysis.loop_carried import writes
from ..kernel.canonicalize import normalize
from ..kernel.kernel import Kernel
from ..ops.basic import when


def own_scalars(kernel: Kernel) -> Kernel:
    """The kernel, with scratch in the place of the prefetched operands that its body writes and no index map reads."""
    first, end, *_, last = kernel.splits
    body = kernel.body
    maps = [b.index_map for b in kernel.blocks if b.index_map is not None] + [p for _, p in kernel.extents]
    n = len(kernel.grid)
    read = {i for p in maps for i, v in enumerate(p.inputs[n:]) if any(v in e.inputs for e in p.eqns)}
    own = [i for i in range(len(kernel.prefetch)) if i not in read and _is_written(body, first + i)]
    if not own:
        return kernel

    def fun(*values: Any) -> list[Any]:
        refs, copies = list(values[:last]), values[last:]
        start = functools.reduce(and_p.bind, [eq_p.bind(i, np.int32(0)) for i in refs[:n]], np.True_)

        @when(start)
        def _() -> None:
            for i, copy in zip(own, copies, strict=True):
                view(copy)[...] = view(refs[first + i])[...]

        for i, copy in zip(own, copies, strict=True):
            refs[first + i] = copy
        eval_program(body, *refs)
        return []

    types = [body.inputs[first + i].type for i in own]
    made = normalize(trace_program(fun, [*(v.type for v in body.inputs), *types], kernel.name))
    names = [f"prefetched operand {i}" for i in own]
    known = [kernel.scratch_name(kernel.splits[3] + k) for k in range(len(kernel.scratch))]
    return kernel.replace(scratch=(*kernel.scratch, *types), body=made, scratch_names=(*known, *names))


def _is_written(body: Program, position: int) -> bool:
    return any(writes(eqn, body.inputs[position]) for eqn in body.eqns)
