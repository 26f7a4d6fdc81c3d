"""Which arrays of a compiled program are in memory at once, by the order in which its text says that it runs."""

from __future__ import annotations

from typing import NamedTuple

from .hlo_report import Instruction, computations_of, nbytes

# Whose result is memory that an operand has already: all of it, or parts.
_SAME = frozenset(("bitcast", "get-tuple-element", "tuple", "while", "optimization-barrier", "opt-barrier"))
FREE = frozenset(("constant", "after-all", "partition-id", "replica-id"))


class Live(NamedTuple):
    """An array in memory: the instruction that makes it, and its bytes."""

    name: str
    bytes: int
    role: str  # argument, result or temporary


def at_peak(text: str) -> tuple[int, list[Live]]:
    """The most bytes that the arrays of a scheduled module take at once, and the arrays there, the largest first.

    Memory that XLA reuses within an instruction, or that a called routine takes for itself, is not in the text.
    """
    computations, entry = computations_of(text)
    steps = [i for i in computations.get(entry, ()) if i.opcode not in FREE]
    owner = _owners(steps)
    results = set(owner[steps[-1].name]) if steps else set()
    last = {o: len(steps) for o in results}
    for at, one in enumerate(steps):
        for operand in one.operands:
            for o in owner.get(operand, ()):
                last[o] = max(last.get(o, 0), at)
    return _peak(steps, last, results)


def _owners(steps: list[Instruction]) -> dict[str, tuple[str, ...]]:
    """For each instruction those whose memory its result is."""
    owner: dict[str, tuple[str, ...]] = {}
    for one in steps:
        taken = tuple(o for x in one.operands for o in owner.get(x, ()))
        owner[one.name] = taken if one.opcode in _SAME and taken else (one.name,)
    return owner


def _peak(steps: list[Instruction], last: dict[str, int], results: set[str]) -> tuple[int, list[Live]]:
    live = {s.name: Live(s.name, nbytes(s.type), "argument") for s in steps if s.opcode == "parameter"}
    best, found = 0, []
    for at, one in enumerate(steps):
        if one.name in last and one.name not in live:
            live[one.name] = Live(one.name, nbytes(one.type), "result" if one.name in results else "temporary")
        total = sum(x.bytes for x in live.values())
        if total > best:
            best, found = total, list(live.values())
        for name in [n for n, x in live.items() if last.get(n, 0) <= at and x.role != "argument"]:
            del live[name]
    return best, sorted(found, key=lambda x: -x.bytes)
