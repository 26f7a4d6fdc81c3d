"""A kernel that speaks to other devices, as the checks of one device see it.

Every device runs the same body, so what one sends is what it gets: a copy to another device counts as one within the
device, ended by its receive semaphore, and a signal as one to itself.
"""

from __future__ import annotations

from ...core.ir.passes import primitives_of, within
from ...core.ir.program import Eqn, Program, subprograms
from ...core.support.errors import KernelBodyError
from ..kernel.kernel import Kernel
from ..kernel.traverse import equation
from ..ops.dma import dma_start_p, dma_wait_p, semaphore_signal_p, split_parts
from ..ops.mesh_axes import mesh_of
from ..ops.remote_dma import barrier_p, remote_signal_p, remote_start_p, remote_wait_p

COMMUNICATION = frozenset({remote_start_p, remote_wait_p, remote_signal_p, barrier_p})


def communicates(kernel: Kernel) -> bool:
    """Whether a kernel exchanges anything with other devices."""
    return not primitives_of(kernel.body).isdisjoint(COMMUNICATION)


def alone(kernel: Kernel) -> Kernel:
    """The kernel with its communication kept within the device; itself where it has none."""
    return kernel.replace(body=_within(kernel.body)) if communicates(kernel) else kernel


def _within(program: Program) -> Program:
    eqns: list[Eqn] = []
    for eqn in program.eqns:
        if eqn.primitive in COMMUNICATION:
            eqns += _local(eqn)
        else:
            eqns.append(within(eqn, _within))
    return program.replace(eqns=eqns)


def _local(eqn: Eqn) -> list[Eqn]:
    p = eqn.params
    if eqn.primitive is remote_signal_p:
        return [equation(semaphore_signal_p, eqn.inputs[:-1], {"index": p["index"]}, eqn)]
    if eqn.primitive is barrier_p or (eqn.primitive is remote_wait_p and p["sent"]):
        return []
    names = ("src", "dst", "sem") if eqn.primitive is remote_wait_p else ("src", "dst", "send", "recv")
    parts = split_parts(eqn.inputs, *(p[n] for n in names))
    inputs = [x for ref, at in (*parts[:2], parts[-1]) for x in (ref, *at)]
    params = {"src": p["src"], "dst": p["dst"], "sem": p[names[-1]], "add": False, "own": False}
    return [equation(dma_wait_p if eqn.primitive is remote_wait_p else dma_start_p, inputs, params, eqn)]


# ---------------------------------------------------------------------------- checks


def check_remote(kernel: Kernel) -> None:
    """Raise a `KernelBodyError` where a copy goes to memory that is not the same on the other device."""
    _check(kernel, kernel.body, dict(zip(kernel.body.inputs, range(len(kernel.body.inputs)), strict=True)))


def _check(kernel: Kernel, program: Program, position: dict) -> None:
    first, end = kernel.splits[2:4]
    for eqn in program.eqns:
        if eqn.primitive is remote_start_p:
            parts = split_parts(eqn.inputs, *(eqn.params[n] for n in ("src", "dst")))
            at = position.get(parts[1][0])
            block = kernel.outputs[at - first] if at is not None and first <= at < end else None
            if block is not None and block.index_map is not None and kernel.cells > 1:
                raise kernel.error(KernelBodyError, f"a copy to another device goes to output {block.name}, whose "
                                   "block moves from cell to cell: the other device may be at another cell",
                                   "copy to scratch, or to an output in `ANY` memory", eqn.source)  # fmt: skip
        for _, inner in subprograms(eqn):
            if mesh_of(inner) and len(inner.inputs) <= len(eqn.inputs):
                given = eqn.inputs[len(eqn.inputs) - len(inner.inputs) :]
                _check(kernel, inner, {v: position[a] for v, a in zip(inner.inputs, given) if a in position})
