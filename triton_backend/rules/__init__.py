"""`RULES`: how each primitive that may stand in a body is printed; `UNSUPPORTED`: what no GPU program can do.

What neither names is rewritten into others (`lang/legalize`) before the body comes here.
"""

from __future__ import annotations

from typing import Any

from ...core.ir.primitive import Primitive
from ...core.ir.types import RARE_FLOATS
from ...core.primitives.contraction.fft import fft_p
from ...core.primitives.control_flow.while_loop import while_lin_p
from ...core.primitives.custom.custom_derivative_primitives import custom_lin_p
from ...core.primitives.elementwise.arithmetic import mulhi_p
from ...core.primitives.elementwise.conversion import complex_p, conj_p, imag_p, real_p
from ...core.primitives.external.host_callback import io_callback_p, pure_callback_p
from ...core.primitives.spmd import collective
from ...lang.gpu.normalize import passes
from ...lang.legalize import Backend
from ...lang.legalize.opset import FACTORED, WARPGROUPS
from ...lang.ops import remote_dma
from ...lang.ops.inline_asm import inline_asm_p
from ...lang.ops.mesh_axes import device_index_p
from . import access, contract, control, elementwise, index, reduce, shape, sort

RULES: dict[Primitive, Any] = {
    **elementwise.RULES,
    **reduce.RULES,
    **shape.RULES,
    **index.RULES,
    **sort.RULES,
    **contract.RULES,
    **control.RULES,
    **access.RULES,
}

_COMPLEX = "Triton's tensors have integer and float elements only, no complex ones"
_FACTORED = "it factors a matrix column by column; the target's solver library does it, outside of the kernel"
_FOURIER = "it exchanges elements along full axes; the target's library does it, outside of the kernel"
_DEVICES = "a program reaches the memory of its own device alone; an exchange between devices is outside the kernel"
UNSUPPORTED: dict[Primitive, str] = {
    **dict.fromkeys((real_p, imag_p, complex_p, conj_p), _COMPLEX),
    **dict.fromkeys((pure_callback_p, io_callback_p), access.HOST),
    **dict.fromkeys((*collective.PRIMITIVES, device_index_p, *remote_dma.PRIMITIVES), _DEVICES),
    **dict.fromkeys(sorted(FACTORED, key=repr), _FACTORED),
    fft_p: _FOURIER,
    **dict.fromkeys(WARPGROUPS, "Triton itself divides a program among warpgroups; Mosaic GPU takes kernels that are "
                    "written for them"),
    while_lin_p: "a derivative that exists in reverse only is never computed forwards",
    custom_lin_p: "a derivative that exists in reverse only is never computed forwards",
}
UNSUPPORTED_DTYPES: dict[str, str] = {
    **dict.fromkeys(("complex64", "complex128"), _COMPLEX),
    **dict.fromkeys(
        ("int4", "uint4", "int2", "uint2"),
        "the least element that a GPU loads or stores is a byte; `lang.pack` puts several in one, `lang.unpack` takes "
        "them apart"),
    **dict.fromkeys(RARE_FLOATS, "kernels have no conversion of it"),
}  # fmt: skip
BACKEND = Backend("a GPU kernel", RULES, UNSUPPORTED, UNSUPPORTED_DTYPES, passes, {inline_asm_p: control.foreign},
                  rewrites={mulhi_p: elementwise.narrow_or_signed})  # fmt: skip
