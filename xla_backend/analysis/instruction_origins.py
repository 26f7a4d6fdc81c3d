"""What each instruction of a compiled program computes, by the names and lines that its module was printed with.

Modules carry source lines where the setting `source_lines` is on; otherwise instructions keep XLA's names.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from .hlo_report import CALLED, Instruction, computations_of

_METADATA = re.compile(r'metadata=\{(?:op_type="[^"]*" )?op_name="([^"]*)"(?: [^}]*?stack_frame_id=(\d+))?')
_NAMED = re.compile(r"%([\w.\-]+)")
_TABLES = {
    "FileNames": re.compile(r'(\d+) "(.*)"'),
    "FileLocations": re.compile(r"(\d+) \{file_name_id=(\d+) .*?line=(\d+) "),
    "StackFrames": re.compile(r"(\d+) \{file_location_id=(\d+) "),
}
SHOWN = 4  # names of a fusion's operations


class Origin(NamedTuple):
    """The operations fused into an instruction, and the last of their source lines."""

    operations: tuple[str, ...]
    line: str

    @property
    def name(self) -> str:
        """The operations' names, joined; those in the middle of a long row are left out."""
        names = list(dict.fromkeys(self.operations))
        return " + ".join(names if len(names) <= SHOWN else [*names[: SHOWN - 1], "...", names[-1]])


def origins(text: str) -> dict[str, Origin]:
    """What each instruction of a module's compiled text computes; without those of which nothing is known.

    Instructions that XLA adds (copies, the counter of a loop) carry no name of ours: they keep XLA's, and have the
    line of the nearest instruction that has one: of an operand, else of a user, else of the loop or call around them.
    """
    lines = _lines(text)
    computations, _ = computations_of(text)
    found = {}
    for one in _instructions(computations):
        named = _METADATA.findall(one.rest) + _within(one, computations)
        if named:
            places = [lines[frame] for _, frame in named if frame in lines]
            found[one.name] = Origin(tuple(name for name, _ in named), places[-1] if places else "")
    return found | _inherited(found, computations) if lines else found


def _inherited(found: dict[str, Origin], computations: dict[str, list[Instruction]]) -> dict[str, Origin]:
    """The instructions without a line, with the line of the nearest that has one."""
    users: dict[str, list[str]] = {}
    around: dict[str, str] = {}
    for one in _instructions(computations):
        for operand in one.operands:
            users.setdefault(operand, []).append(one.name)
        for called in _NAMED.findall(one.rest):
            for inner in computations.get(called, ()):
                around[inner.name] = one.name
    operands = {one.name: one.operands for one in _instructions(computations)}

    def nearest(start: str, step: Callable[[str], Iterable[str]]) -> str:
        seen, edge = {start}, [start]
        while edge:
            edge = [near for name in edge for near in step(name) if near not in seen]
            seen.update(edge)
            if line := next((found[name].line for name in edge if name in found and found[name].line), ""):
                return line
        return ""

    steps: tuple[Callable[[str], Iterable[str]], ...] = (
        lambda name: operands.get(name, ()),
        lambda name: users.get(name, ()),
        lambda name: (around[name],) if name in around else (),
    )
    lines = {
        name: next(filter(None, (nearest(name, step) for step in steps)), "")
        for name in operands if name not in found or not found[name].line
    }  # fmt: skip
    return {name: Origin(found[name].operations if name in found else (name,), line)
            for name, line in lines.items() if line}  # fmt: skip


def _instructions(computations: dict[str, list[Instruction]]) -> Iterator[Instruction]:
    return itertools.chain.from_iterable(computations.values())


def _within(one: Instruction, computations: dict[str, list[Instruction]]) -> list[tuple[str, str]]:
    """The names and stack frames of a fusion's operations."""
    called: Sequence[str] = CALLED.findall(one.rest) if one.opcode == "fusion" else ()
    inner = [i for name in called for i in computations.get(name, ())]
    return [pair for i in inner if i.opcode != "parameter" for pair in _METADATA.findall(i.rest)]


def _lines(text: str) -> dict[str, str]:
    """The file and line of each stack frame of a module's text."""
    tables: dict[str, dict[str, tuple[str, ...]]] = {name: {} for name in _TABLES}
    rows: dict[str, tuple[str, ...]] | None = None
    for line in text.splitlines():
        if line.startswith(("%", "ENTRY")):
            break
        if line in tables:
            table, rows = _TABLES[line], tables[line]
        elif rows is not None and (row := table.match(line)):
            rows[row[1]] = row.groups()[1:]
        elif rows is not None and line:
            rows = None  # a table that is not read
    files, places = tables["FileNames"], tables["FileLocations"]
    found = {}
    for frame, (place,) in tables["StackFrames"].items():
        file, number = places[place]
        found[frame] = f"{files[file][0]}:{number}"
    return found
