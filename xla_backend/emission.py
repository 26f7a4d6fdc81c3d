"""`emit`: a Program with each kernel in it as what runs it: a device's custom call, or array operations for XLA."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.ir import Eqn, Program
from ..core.primitives.callback import pure_callback
from ..core.rewrite import rewritten
from ..core.trace import trace_program
from ..lang.extent import static
from ..lang.interpret import interpret
from ..lang.kernel import Kernel
from ..lang.primitive import kernel_call_p
from ..lang.target import CustomCall
from .kernel import kernel_program
from .legalize import in_place, legal
from .lower.custom_call import custom_call_p

Emit = Callable[[Kernel], "CustomCall | None"]  # None: XLA computes the kernel


def emitted(program: Program, platform: str, emit: Emit | None = None, off: frozenset[str] = frozenset()) -> Program:
    """A Program without kernels; `emit` makes custom calls for a device, XLA computes them where there is none.

    `off` are the options of `cpu` that are not used.
    """
    known: dict[Kernel, Program | CustomCall] = {}

    def change(eqn: Eqn) -> Eqn:
        kernel = eqn.params["kernel"]
        found = known.get(kernel)
        if found is None:
            found = known[kernel] = _of(kernel, platform, emit, off)
        if isinstance(found, Program):
            return in_place(eqn, found)
        return eqn.replace(primitive=custom_call_p, params={"call": found})

    return rewritten(program, lambda primitive: primitive is kernel_call_p, change, {})


def _of(kernel: Kernel, platform: str, emit: Emit | None, off: frozenset[str]) -> Program | CustomCall:
    if kernel.interpret:
        run = functools.partial(interpret, kernel)
        traced = trace_program(
            lambda *arrays: pure_callback(run, kernel.out_types, *arrays), kernel.in_types, kernel.name
        )
        return legal(traced)
    call = None if emit is None else emit(static(kernel, f"{platform}, where a grid is launched whole, needs"))
    if call is None:
        return legal(kernel_program(kernel, off))
    around: dict[str, Any] = {"prepare": call.prepare, "finish": call.finish}
    return replace(call, **{name: legal(program) for name, program in around.items() if program is not None})
