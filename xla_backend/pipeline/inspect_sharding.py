"""`inspect_array_sharding` within a program: callbacks run at compile time and are then removed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from ...core.ir.passes import primitives_of, rewritten, within
from ...core.ir.program import Eqn, Program
from ...core.sharding.mesh import AnyMesh, NamedSharding, PartitionSpec
from ...core.sharding.visualize import inspect_sharding_p
from ..devices.client import Device, SingleDeviceSharding, default_device
from ..options.compile_options import Unit


def numbered(program: Program) -> tuple[Program, list[Callable[[Any], None]]]:
    """The Program with its inspected values numbered, and their callbacks."""
    told: list[Callable[[Any], None]] = []

    def change(eqn: Eqn) -> Eqn:
        told.append(eqn.params["callback"])
        return eqn.replace(params=eqn.params | {"number": len(told) - 1})

    return rewritten(program, lambda p: p is inspect_sharding_p, change, {}), told


def without_inspections(program: Program) -> Program:
    """The Program without inspections."""
    if inspect_sharding_p not in primitives_of(program):
        return program
    eqns = [within(eqn, without_inspections) for eqn in program.eqns if eqn.primitive is not inspect_sharding_p]
    return program.replace(eqns=eqns)


def inspected_on_one_device(unit: Unit, device: Device | None) -> Unit:
    """A single-device unit after its callbacks have run, without inspections."""
    program, told = numbered(unit.program)
    for callback in told:
        callback(SingleDeviceSharding(device or default_device()))
    return replace(unit, program=without_inspections(program)) if told else unit


def call_back(told: list[Callable[[Any], None]], mesh: AnyMesh, found: Mapping[int, Any]) -> None:
    """Call each callback with the sharding that Shardy inferred for its value."""
    names = {str(n): n for n in mesh.axis_names}
    for number, callback in enumerate(told):
        dims = found[number][0][0] or ()
        spec = [tuple(names[a] for a in axes) for axes in dims]
        while spec and not spec[-1]:
            spec.pop()
        callback(NamedSharding(mesh, PartitionSpec(*spec)))
