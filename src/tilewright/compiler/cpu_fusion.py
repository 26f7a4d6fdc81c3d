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
from ..xla_backend.pipeline.expand_primitives import in_place
from .cpu_machine_code import Calls

# What XLA does as well: in one kernel with it, others would be put back too. It transposes where it reads.
EXCLUDED = STANDING | {dot_general_p, kernel_call_p, transpose_p}


def faster(program: Program, off: frozenset[str], checked: bool) -> Fusion | None:
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
