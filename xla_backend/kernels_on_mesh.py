"""Kernels on whole arrays of a mesh: each is split along the axes of its grid as Shardy's propagation comes out.

First the kernels are calls that XLA does not know, with Shardy's rule of each; Shardy propagates through them. Then
each becomes a program of each device, with the kernel at its part's size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.ir import Eqn, Program
from ..core.mesh import PartitionSpec
from ..core.primitives.varying import pvary
from ..core.rewrite import within
from ..core.shard_map import part_type, shard_map_p
from ..core.trace import on_each_device, trace_program
from ..lang.kernel import Kernel
from ..lang.partial import Sums, sums
from ..lang.partition import Splits, local, rule, splits
from ..lang.primitive import kernel_call_p
from .lower.spmd import kernel_sum_p, unknown_call_p

Run = Callable[..., list[Any]]
Found = Mapping[int, tuple[Sequence[Any], Sequence[Any]]]  # by number: the axes of each dimension, operands and results


class Calls:
    """The kernels of a program that may be split, by numbers."""

    def __init__(self, program: Program):
        self.kernels: list[tuple[Any, Splits]] = []
        self.opaque = self._walked(program, self._opaque, {})

    def _walked(self, program: Program, change: Callable[[Eqn], Eqn], known: dict[Program, Program]) -> Program:
        """A Program with each kernel that is called on whole arrays changed."""
        if program not in known:
            eqns = []
            for eqn in program.eqns:
                if eqn.primitive is kernel_call_p:
                    eqn = change(eqn)
                elif eqn.primitive is not shard_map_p:
                    eqn = within(eqn, lambda inner: self._walked(inner, change, known))
                eqns.append(eqn)
            same = all(a is b for a, b in zip(eqns, program.eqns, strict=True))
            known[program] = program if same else program.replace(eqns=eqns)
        return known[program]

    def _opaque(self, eqn: Eqn) -> Eqn:
        kernel = eqn.params["kernel"]
        found = splits(kernel)
        if isinstance(found, str):
            return eqn
        self.kernels.append((kernel, found))
        params = {"number": len(self.kernels) - 1, "rule": rule(kernel, found), "types": tuple(kernel.out_types)}
        return eqn.replace(primitive=unknown_call_p, params=params)

    def split(self, program: Program, mesh: Any, shardings: Found) -> Program:
        """The Program with its kernels split by how their operands and results came to lie."""
        numbers = iter(range(len(self.kernels)))

        def change(eqn: Eqn) -> Eqn:
            if isinstance(splits(eqn.params["kernel"]), str):
                return eqn
            number = next(numbers)
            kernel, found = self.kernels[number]
            chosen = _chosen(found, mesh, *shardings.get(number, ((), ())))
            return _on_devices(eqn, kernel, found, mesh, chosen) if chosen else eqn

        return self._walked(program, change, {})


def _chosen(found: Splits, mesh: Any, ins: Sequence[Any], outs: Sequence[Any]) -> dict[int, tuple[Any, ...]]:
    """The axes of the mesh that split each axis of the grid: those of the results, then those of the operands."""
    names, chosen = {str(n): n for n in mesh.axis_names}, dict[int, tuple[Any, ...]]()
    taken: set[Any] = set()
    pairs: list[tuple[Any, Any]] = [*zip(found.outs, outs), *zip(found.ins, ins)]
    for dims, lying in pairs:
        shown: Sequence[Any] = lying or ()
        for a, axes in zip(dims, shown):
            if a is None or a in chosen:
                continue
            kept: list[Any] = []
            for name in (names[x] for x in axes):
                if name in taken or found.sizes[a] % mesh.parts((*kept, name)):
                    break
                kept.append(name)
            if kept:
                chosen[a] = tuple(kept)
                taken |= {*kept}
    return chosen


def _on_devices(eqn: Eqn, kernel: Any, found: Splits, mesh: Any, chosen: dict[int, tuple[Any, ...]]) -> Eqn:
    """The equation of a kernel as a program of each device."""
    def spec(dims: Sequence[int | None]) -> PartitionSpec:
        return PartitionSpec(*[None if a is None else chosen.get(a) for a in dims])

    parts = {a: mesh.parts(names) for a, names in chosen.items()}
    over = tuple(name for a in sorted(found.summed) for name in chosen.get(a, ()))
    ins, outs = tuple(map(spec, found.ins)), tuple(map(spec, found.outs))
    manual = tuple(mesh.axis_names)
    with on_each_device([(n, mesh.shape[n]) for n in manual]):
        types = [part_type(a.type, s, mesh) for a, s in zip(eqn.inputs, ins, strict=True)]
        run = _added(kernel, parts, over) if over else _parted(kernel, parts)
        program = trace_program(run, types, kernel.name)
    params = {"program": program, "mesh": mesh, "in_specs": ins, "out_specs": outs, "manual": manual}
    return eqn.replace(primitive=shard_map_p, params=params)


def _parted(kernel: Kernel, parts: Mapping[int, int]) -> Run:
    part = local(kernel, parts)
    return lambda *xs: kernel_call_p.bind(*xs, kernel=part)


def _added(kernel: Kernel, parts: Mapping[int, int], over: tuple[Any, ...]) -> Run:
    """A kernel of sums on each device: the sums of its cells are added over devices, and finished."""
    found = sums(kernel)
    assert isinstance(found, Sums)
    begin = _parted(found.partial, parts)
    after = {a: n for a, n in parts.items() if found.final is not None and found.final.grid[a] > 1}
    end = None if found.final is None else _parted(found.final, after)

    def run(*xs: Any) -> list[Any]:
        whole = [kernel_sum_p.bind(pvary(x, over), axes=over) for x in begin(*xs)]
        return whole if end is None else end(*(xs[i] for i in found.inputs), *whole)

    return run
