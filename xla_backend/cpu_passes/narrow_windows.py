"""Windows of which a body uses static parts, a stencil's: windows of those parts alone.

A part no longer than the stride is the array, shifted.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.ir.passes import eliminate_dead
from ...core.ir.program import Eqn, Program
from ...core.primitives.movement.shape import slice_p
from .window_primitive import Spec, windows_p


def narrow(program: Program) -> Program:
    """Static slices of windows as windows of that part alone."""
    eqns = list(program.eqns)
    for eqn in program.eqns:
        if eqn.primitive is not windows_p:
            continue
        (made,) = eqn.outputs
        users = [k for k, e in enumerate(program.eqns) if made in e.inputs]
        narrowed = [_narrowed(eqn, program.eqns[k]) for k in users]
        if users and made not in program.outputs and all(narrowed):
            for k, one in zip(users, narrowed, strict=True):
                eqns[k] = one  # type: ignore[call-overload]
    return eliminate_dead(program.replace(eqns=eqns))[0]


def _narrowed(windows: Eqn, use: Eqn) -> Eqn | None:
    if use.primitive is not slice_p or any(s != 1 for s in use.params["strides"] or ()):
        return None
    specs: list[Spec] = []
    lows: Sequence[int] = use.params["start_indices"]
    highs: Sequence[int] = use.params["limit_indices"]
    for d, (first, count, stride, size) in enumerate(windows.params["specs"]):
        if (lows[2 * d], highs[2 * d]) != (0, count):
            return None
        low, high = lows[2 * d + 1], highs[2 * d + 1]
        specs.append((first + low, count, stride if count > 1 else size, high - low))
    return Eqn(windows_p, windows.inputs, use.outputs, {"specs": tuple(specs)}, source=use.source)
