"""What operations on Refs of a kernel for warpgroups have in common: their parts, their checks, their meaning."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.ir.program import ORDERED, Effects
from ...core.ir.types import MemorySpace, RefType, Type, is_bool
from ...core.primitives.refs.state_primitives import Index, Point, Span, Take, access_shape
from ...core.support.errors import KernelBodyError, ShapeError
from ...core.tracing.trace import typeof
from ..ops.basic import Cell, current_cell
from ..ops.dma import effects_on, split_parts
from ..ops.interpret_params import running

NAMES = {
    MemorySpace.HBM: "GMEM", MemorySpace.ANY: "GMEM", MemorySpace.SMEM: "SMEM", MemorySpace.TMEM: "TMEM",
    MemorySpace.REGS: "an accumulator", MemorySpace.SEMAPHORE: "a barrier",
}  # fmt: skip
GLOBAL = (MemorySpace.HBM, MemorySpace.ANY)


def thread_cell(what: str) -> Cell:
    """The warpgroup that a body is traced for; an error in other kernels."""
    cell = current_cell(what)
    if "mesh" not in cell.made:
        raise KernelBodyError(f"kernel {cell.kernel}: {what} in a kernel that is not written for warpgroups",
                              "call it in the body of a `lang.mosaic_gpu.kernel`")  # fmt: skip
    return cell


def check_space(what: str, name: str, type: Type, *allowed: MemorySpace) -> None:
    """Raise a `KernelBodyError` for a Ref that is not in one of some memories; interpreted, a Ref is an array."""
    if isinstance(type, RefType) and type.space not in allowed:
        wanted = " or ".join(dict.fromkeys(NAMES[s] for s in allowed))
        held = NAMES.get(type.space, type.space)
        raise KernelBodyError(f"{what}: {name} is a Ref in {held}", f"give one in {wanted}")


def check_index(what: str, name: str, index: Index) -> None:
    if any(isinstance(entry, Take) for entry in index):
        raise KernelBodyError(f"{what}: {name} is indexed by an array", "give slices and single positions")


def check_one(what: str, type: Type, index: Index) -> None:
    """Raise where a part is not one barrier."""
    check_space(what, "the barrier", type, MemorySpace.SEMAPHORE)
    if math.prod(access_shape(index)) != 1:
        raise ShapeError(f"{what} is given {access_shape(index)} barriers", "give one: `barrier.at[i]`")


def at_barrier(what: str) -> Callable[..., list[Any]]:
    """The types of the results of what acts on one barrier alone: none."""

    def typing(*types: Any, bar: Any, **_: Any) -> list[Any]:
        check_one(what, types[0], bar)
        return []

    return typing


def condition(what: str, given: Any) -> list[Any]:
    """The operand that a predicate is; none for None."""
    if given is None:
        return []
    type_ = typeof(given)
    if type_.shape or not is_bool(type_.dtype):
        raise KernelBodyError(f"{what}: the predicate is {type_.show()}", "give a boolean scalar")
    return [given]


def ordered_on(**kinds: Sequence[str]) -> Callable[..., Effects]:
    """The effects of an operation on parts, by the name of each; all keep their order."""
    return effects_on(ORDERED, **kinds)


def split(operands: Sequence[Any], *indices: Index) -> tuple[list[tuple[Any, list[Any]]], list[Any]]:
    """The Refs among some operands, each with the operands of its index, and what follows them."""
    used = sum(1 + len(index.dynamic) for index in indices)
    return split_parts(operands, *indices), list(operands[used:])


def acting(method: str, *names: str, predicated: bool = False) -> Callable[..., Any]:
    """The meaning of an operation: a method of the warpgroup that is interpreted, given parts by the names of their
    indices, the other operands and the other parameters. `predicated`: a last operand may say to leave it out."""

    def numpy(*operands: Any, **params: Any) -> Any:
        indices = [params.pop(name) for name in names]
        found, rest = split(operands, *indices)
        if predicated and not all(rest):
            return []
        given = [(*part, index) for part, index in zip(found, indices, strict=True)]
        out = getattr(running(), method)(*given, *(() if predicated else rest), **params)
        return [] if out is None else out

    return numpy


def located(index: Index, dynamic: Sequence[Any], shape: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """The places of a part among the elements of a Ref in row-major order, and which of them exist."""
    given = iter(dynamic)
    rank, seen = len(access_shape(index)), 0
    places, inside = np.zeros((), np.int64), np.ones((), bool)
    for entry, n in zip(index, shape, strict=True):
        start = int(next(given)) if entry.start is None else entry.start
        at = np.asarray(start)
        if isinstance(entry, Span):
            seen += 1
            at = (start + entry.stride * np.arange(entry.size)).reshape(-1, *[1] * (rank - seen))
        else:
            assert isinstance(entry, Point)
        inside = inside & (at >= 0) & (at < n)
        places = places * n + np.clip(at, 0, max(n - 1, 0))
    wanted = access_shape(index)
    return np.broadcast_to(places, wanted), np.broadcast_to(inside, wanted)
