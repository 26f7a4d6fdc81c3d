"""What each instruction of a compiled program computes, by the names and lines that its module was printed with.

Modules carry source lines where the setting `source_lines` is on; otherwise instructions keep XLA's names.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .hlo_report import CALLED, Instruction, computations_of

_METADATA = re.compile(r'metadata=\{(?:op_type="[^"]*" )?op_name="([^"]*)"(?: [^}]*?stack_frame_id=(\d+))?')
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
    """What each instruction of a module's compiled text computes; without those that carry no name."""
    lines = _lines(text)
    computations, _ = computations_of(text)
    found = {}
    for instructions in computations.values():
        for one in instructions:
            named = _METADATA.findall(one.rest) + _within(one, computations)
            if named:
                places = [lines[frame] for _, frame in named if frame in lines]
                found[one.name] = Origin(tuple(name for name, _ in named), places[-1] if places else "")
    return found


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
