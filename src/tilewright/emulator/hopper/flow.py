"""How a warpgroup goes through the steps of a program: one after the other, branches, loops, instructions of PTX.

    Step ::= COMPUTE (a function of values) | END (these are the results) | what runs it with a warpgroup;
             what that is given, slots of operands, slots of results
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from ...core.support.errors import EmulationError
from . import accesses, conversions, copies, products, tcgen05, waits
from .group import Group, Walk
from .values import LANES, plain

COMPUTE, END = "compute", "end"
Step = tuple[Callable[..., Walk] | str, Any, list[int], list[int]]


def run(g: Group, steps: Sequence[Step]) -> Walk:
    frame = g.frame
    for function, given, inputs, outputs in steps:
        if function is COMPUTE:
            found = given(*[plain(frame[i]) for i in inputs])
            if len(outputs) == 1:
                frame[outputs[0]] = found
            else:
                frame.update(zip(outputs, found or ()))
            continue
        if function is END:
            return [frame[i] for i in inputs]
        assert callable(function)
        found = yield from function(g, given, *[frame[i] for i in inputs])
        frame.update(zip(outputs, found or ()))
    return []


def branch(g: Group, regions: Any, condition: Any) -> Walk:
    condition = np.broadcast_to(plain(condition), LANES)
    outer, found = g.mask, []
    for region, live in zip(regions, (outer & condition, outer & ~condition)):
        g.mask = live
        found.append((yield from run(g, region)) if live.any() and region is not None else None)
    g.mask = outer
    yes, no = (found + [None])[:2]
    if not yes or not no:
        return yes or no or []
    return [np.where(condition, g.lanes(a), g.lanes(b)) for a, b in zip(yes, no)]


def loop(g: Group, region: Any, low: Any, high: Any, step: Any, *carried: Any) -> Walk:
    steps, arguments = region
    values = list(carried)
    for i in range(g.same(low), g.same(high), g.same(step)):
        g.frame.update(zip(arguments, [np.asarray(i, np.int32), *values]))
        values = yield from run(g, steps)
    return values


def repeat(g: Group, regions: Any, *carried: Any) -> Walk:
    """Turns as long as a condition holds; one in which nothing changes waits for others."""
    (before, first), (after, second) = regions
    values = list(carried)
    while True:
        g.frame.update(zip(first, values))
        goes_on, *held = yield from run(g, before)
        if not g.same(goes_on):
            return held
        g.frame.update(zip(second, held))
        last, values = values, (yield from run(g, after))
        if all(np.array_equal(plain(a), plain(b), equal_nan=True) for a, b in zip(last, values)):
            yield "a loop that others are to end"
        else:
            g.b.cluster.progress += 1


def put(g: Group, given: None, value: Any, at: Any) -> Walk:
    """A store to global memory."""
    yield from ()
    g.memory.store(g.lanes(at)[g.mask], np.ascontiguousarray(g.lanes(value))[g.mask])


def asm(g: Group, known: tuple[Callable[..., Any], str], *args: Any) -> Walk:
    """An instruction of PTX."""
    function, text = known
    found = function(g, text, *args)
    if isinstance(found, Generator):
        found = yield from found
    return found if function is same_values else [found]


def same_values(g: Group, text: str, *args: Any) -> list[Any]:
    """Values under other names, which the compiler is not to know to be the same."""
    values = [plain(a) for a in args]
    return [values] if len(values) > 1 else values


def nothing(g: Group, text: str, *args: Any) -> None:
    return None


def unknown(g: Group, text: str, *args: Any) -> None:
    raise EmulationError(f"the emulator does not know {text}")


PTX = (
    ("//", same_values),
    *waits.PTX,
    *copies.PTX,
    *products.PTX,
    *tcgen05.PTX,
    *accesses.PTX,
    *conversions.PTX,
    ("mov.u32", lambda g, text, *args: np.asarray(g.b.rank, np.int32)),
    *((name, nothing) for name in ("fence.acq_rel", "bar.warp.sync")),
)


def instruction(text: str) -> tuple[Callable[..., Any], str]:
    """What runs an instruction of PTX, by how it begins, and the text that it is given."""
    if text.startswith("{ .reg .b16"):
        text = re.sub(r"\.reg [^;]*; ", "", text)
    begun = text if text.startswith(waits.WAIT) else text.lstrip("{ ")
    return next((function for start, function in PTX if begun.startswith(start)), unknown), text
