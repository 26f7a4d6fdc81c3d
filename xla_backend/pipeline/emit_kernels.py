"""`emit`: a Program with each kernel in it as what runs it: a device's custom call, or array operations for XLA."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ...core.ir.passes import rewritten
from ...core.ir.program import Eqn, Program
from ...core.primitives.external.host_callback import pure_callback
from ...core.primitives.spmd.collective import all_gather_p, axis_index_p
from ...core.tracing.trace import of_line, trace_program
from ...lang.call.primitive import kernel_call_p
from ...lang.interpret.interpreter import interpret
from ...lang.interpret.multi_device import Meeting
from ...lang.kernel.kernel import Kernel
from ...lang.ops.mesh_axes import device_count, mesh_of
from ...lang.targets.target import CustomCall
from ...lang.warpgroups.checks import refuse
from ..kernels.cpu_lowering import lowered
from ..kernels.symbolic_grid import lowered_tiles
from ..stablehlo.calls.custom_call import custom_call_p
from .expand_primitives import expanded, in_place, require_rules

Emit = Callable[[Kernel], CustomCall | Kernel]  # a kernel: XLA computes it


class Emitted(NamedTuple):
    """A Program without kernels, and for each kernel that was in it the way that its cells take."""

    program: Program
    routes: tuple[tuple[Kernel, str], ...]


def emitted(
    program: Program, emit: Emit | None = None, off: frozenset[str] = frozenset(),
    plain: Mapping[Kernel, Program] = MappingProxyType({}),
) -> Emitted:  # fmt: skip
    """A Program without kernels; `emit` makes custom calls for a device, XLA computes them where there is none.

    `off` are the options of `cpu` that are not used; `plain` what kernels of standard operations compute without them.
    """
    known: dict[Kernel, tuple[Program | CustomCall, str]] = {}

    def change(eqn: Eqn) -> Eqn:
        kernel = eqn.params["kernel"]
        if kernel not in known:
            known[kernel] = of_line(eqn.source, _of, kernel, emit, off, plain.get(kernel))
        found, _ = known[kernel]
        if isinstance(found, Program):
            return in_place(eqn, found)
        return eqn.replace(primitive=custom_call_p, params={"call": found})

    program = rewritten(program, lambda primitive: primitive is kernel_call_p, change, {})
    return Emitted(program, tuple((kernel, route) for kernel, (_, route) in known.items()))


def _of(
    kernel: Kernel, emit: Emit | None, off: frozenset[str], plain: Program | None
) -> tuple[Program | CustomCall, str]:  # fmt: skip
    if kernel.interpret:
        traced = trace_program(_interpreted(kernel), kernel.in_types, kernel.name)
        return expanded(traced), "the interpreter, on the host"
    if kernel.symbolic:
        program, route = lowered_tiles(kernel, off)
        return expanded(program), f"XLA, {route}"
    call = kernel if emit is None else emit(kernel)
    if isinstance(call, Kernel) and plain is not None:
        return expanded(plain), "XLA, as the operations that it was made of"
    if isinstance(call, Kernel):
        refuse(call, "XLA")
        program, route = lowered(call, off)
        return expanded(program), f"XLA, {route}"
    around: dict[str, Any] = {"prepare": call.prepare, "finish": call.finish}
    around = {name: expanded(program) for name, program in around.items() if program is not None}
    for program in around.values():
        require_rules(program)
    return replace(call, **around), f"a custom call of {call.target}"


def _interpreted(kernel: Kernel) -> Callable[..., Any]:
    """The interpreter as a function of arrays; of devices that speak to each other each gathers what all have."""
    mesh = mesh_of(kernel.body)
    if not mesh:
        return lambda *arrays: pure_callback(functools.partial(interpret, kernel), kernel.out_types, *arrays)
    names, count, meeting = tuple(n for n, _ in mesh), device_count(mesh), Meeting(kernel)

    def run(*arrays: Any) -> Any:
        number: Any = None
        for name, size in mesh:
            here = axis_index_p.bind(axes=(name,))
            number = here if number is None else number * np.int32(size) + here
        everyone = [all_gather_p.bind(x, axes=names, dimension=0, size=count, tiled=False) for x in arrays]
        return pure_callback(meeting, kernel.out_types, number, *everyone)

    return run
