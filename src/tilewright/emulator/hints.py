"""The promises that a module makes to Triton's compiler (divisibility, contiguity, constancy), checked.

A wrong one is no error to a compiler, and gives wrong numbers on a device.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir

from ..core.support.errors import EmulationError
from .core import Run, as_ints
from .values import convert_type

NAMES = ("tt.contiguity", "tt.divisibility", "tt.constancy")


def arguments(
    machine: Any, function: ir.Operation, args: Sequence[Any]
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """The values of a function's arguments, and the copies of those that are arrays."""
    values, copies, known = [], [], {}
    types = [convert_type(a.type) for a in function.regions[0].blocks[0].arguments]
    attributes = ir.ArrayAttr(function.attributes["arg_attrs"]) if "arg_attrs" in function.attributes else ()
    promised = [ir.DictAttr(a) for a in attributes] or [{}] * len(args)
    for number, (type, arg, given) in enumerate(zip(types, args, promised, strict=True)):
        if type.pointee is not None:
            array = np.asarray(arg)
            if type.pointee.itemsize != array.dtype.itemsize:
                raise EmulationError(f"argument {number} points to {type.pointee}, and is given {array.dtype}")
            if id(arg) not in known:
                copy = np.array(array, order="C")
                known[id(arg)] = copy, machine.memory.add(copy)
            copy, value = known[id(arg)]
            copies.append(copy)
        else:
            assert type.dtype is not None
            value = np.asarray(arg, type.dtype)
        if "tt.divisibility" in given and int(value) % (by := ir.IntegerAttr(given["tt.divisibility"]).value):
            raise EmulationError(f"argument {number} is {int(value)}, and was promised to be a multiple of {by}")
        values.append(value)
    return values, copies


def checked(operation: ir.Operation, run: Run) -> Run:
    """The same function, with its result checked against the promises that the operation carries."""
    promises = {n: as_ints(operation.attributes[n]) for n in NAMES if n in operation.attributes}
    if not promises:
        return run

    def verified(*values: Any) -> Any:
        out = run(*values)
        for name, numbers in promises.items():
            _verify(name, numbers, promises.get("tt.contiguity"), out, convert_type(operation.results[0].type))
        return out

    return verified


def _verify(name: str, numbers: list[int], contiguity: list[int] | None, value: Any, type: Any) -> None:
    """Along each axis, `numbers[axis]` elements from a multiple of it are consecutive, or equal; or the first of
    each such group is divisible."""
    size = 1 if type.pointee is None else type.pointee.itemsize
    value = value.reshape(value.shape or (1,))
    for axis, number in enumerate(numbers):
        if number <= 1:
            continue
        rows = np.moveaxis(value, axis, -1)
        group = (contiguity[axis] if contiguity else 1) if name == "tt.divisibility" else number
        group = min(group, rows.shape[-1])
        rows = rows.reshape(*rows.shape[:-1], -1, group)
        step = {"tt.contiguity": size, "tt.constancy": 0}.get(name)
        good = rows[..., 0] % number == 0 if step is None else np.diff(rows, axis=-1) == step
        if not np.all(good):
            raise EmulationError(f"{name} = {numbers} does not hold along axis {axis}")
