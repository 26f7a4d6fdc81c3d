"""Standard operations as machine code of this CPU: the fused kernels that are estimated to be faster than XLA."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from ..core.ir.passes import rewritten
from ..core.ir.program import Eqn, Program
from ..core.primitives.contraction.dot_general import dot_general_p
from ..core.primitives.elementwise.conversion import convert_element_type_p
from ..core.primitives.movement.shape import transpose_p
from ..kernels.fuse import Fusion, plan
from ..kernels.fuse.flatten import flat
from ..kernels.fuse.fuse_reductions import STANDING
from ..lang.call.primitive import kernel_call_p
from ..lang.kernel.kernel import Kernel
from ..lang.targets.target import CPU
from ..xla_backend.kernels.cpu_lowering import lowered
from ..xla_backend.pipeline.expand_primitives import in_place
from .cpu_kernel_selection import Calls, machine
from .cpu_route_policy import route_of
from .large_reductions import REDUCTIONS

# What XLA does as well: in one kernel with it, others would be put back too. It transposes where it reads.
EXCLUDED = STANDING | {dot_general_p, kernel_call_p, transpose_p}
GAIN = 0.95  # of the estimate with kernels as they are is the most that one without some may be


def faster(program: Program, off: frozenset[str], checked: bool) -> Fusion | None:
    """The Program with the fused kernels that are faster as machine code; None where none is.

    Kernels of one program instance that reduce rows are the operations that they are made of, if these are estimated
    to be faster in kernels with others.
    """
    found, bare = _fused(program, off, checked), opened(program, off)
    if bare is None:
        return found
    other = _fused(bare, off, checked)
    if other is None:
        return found
    before, after = (_seconds(p, off, checked) for p in (program if found is None else found.program, other.program))
    return other if after <= GAIN * before else found


def opened(program: Program, off: frozenset[str]) -> Program | None:
    """The Program with the operations of the kernels that may be opened in their place; None where none may."""
    kernels = {e.params["kernel"] for e in flat(program).eqns if e.primitive is kernel_call_p}
    plain = {k: p for k in kernels if (p := _operations(k, off)) is not None}
    if not plain:
        return None
    change = functools.partial(_put_back, plain)
    return flat(rewritten(program, lambda primitive: primitive is kernel_call_p, change, {}))


def _operations(kernel: Kernel, off: frozenset[str]) -> Program | None:
    """What a kernel of one program instance that reduces rows computes, in operations that fusion takes."""
    if route_of(kernel, off) != "cost" or kernel.extents or kernel.prefetch or kernel.cells != 1:
        return None
    program = flat(lowered(kernel, off).program)
    if not any(eqn.primitive in REDUCTIONS for eqn in program.eqns):
        return None
    taken = (e.primitive.relation is not None and e.primitive not in EXCLUDED and not e.effects for e in program.eqns)
    return program if all(taken) else None


def _seconds(program: Program, off: frozenset[str], checked: bool) -> float:
    """The estimate of a Program's kernels, and of the operations outside of them one by one."""
    calls, rates, total = Calls(program, off, checked), machine(), 0.0
    for eqn in flat(program).eqns:
        if eqn.primitive is kernel_call_p:
            kernel = eqn.params["kernel"]
            faster = calls.cheaper(kernel)
            if (found := calls.estimates.get(kernel)) is not None:
                total += found.machine_code if faster else found.xla
        elif eqn.primitive.relation is not None and eqn.primitive is not dot_general_p:
            read, written = (sum(a.type.nbytes for a in atoms) for atoms in (eqn.inputs, eqn.outputs))
            total += rates.seconds(read, written, read + written)
    return total


def _fused(program: Program, off: frozenset[str], checked: bool) -> Fusion | None:
    """The Program with the fused kernels that are faster as machine code; None where none is.

    The other kernels are put back: they are the operations that they were made of. Those change what XLA would fuse
    with the kernels that are left, so these are estimated again until all stay.
    """
    fusion = plan(program, CPU, excluded=EXCLUDED)
    program, kernels = fusion.program, {one.kernel: one for one in fusion.every_kernel}
    while kernels:
        calls = Calls(program, off, checked)
        slower = {k: one.plain for k, one in kernels.items() if _rounds_to_16_bits(one.plain) or not calls.cheaper(k)}
        if not slower:
            return Fusion(program, tuple(kernels.values()), ())
        change = functools.partial(_put_back, slower)
        program = flat(rewritten(program, lambda primitive: primitive is kernel_call_p, change, {}))
        kernels = {kernel: one for kernel, one in kernels.items() if kernel not in slower}
    return None


def _put_back(slower: Mapping[Kernel, Program], eqn: Eqn) -> Eqn:
    plain = slower.get(eqn.params["kernel"])
    return eqn if plain is None else in_place(eqn, plain)


def _rounds_to_16_bits(program: Program) -> bool:
    """Whether there is arithmetic in 16-bit floats: XLA computes it in 32 bits, machine code rounds every result."""
    dtypes = (v.type.dtype for e in program.eqns if e.primitive is not convert_element_type_p for v in e.outputs)
    return any(dtype.name in ("bfloat16", "float16") for dtype in dtypes)
