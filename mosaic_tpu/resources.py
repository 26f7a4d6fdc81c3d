"""What the kernels of a compiled program take of a TPU, as its compiler wrote it into the program's text."""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..lang.targets.target import Resources, Target
from .serialization import module_name

VMEM = "1"  # the number of the memory space in the compiler's notes and layouts
_DEFINITION = re.compile(r"\s*(?:ROOT )?%(?P<name>[\w.\-]+) = (?P<type>.+?) [\w\-]+\(")
_TYPE = re.compile(r"(?P<element>[a-z]+\d\w*|pred)\[(?P<sizes>[\d,]*)\]\{(?P<order>[\d,]*):(?P<layout>[^}]*)\}")
_CALL = re.compile(r' custom-call\((?P<operands>[^)]*)\), custom_call_target="tpu_custom_call"')


class Call(NamedTuple):
    """A kernel's instruction in the compiled program: its name, notes, and bytes of what it finds or leaves in VMEM."""

    instruction: str
    notes: dict[str, Any]
    resident: int

    @property
    def body(self) -> str:
        return self.notes["custom_call_config"]["body"]

    @property
    def kernel(self) -> str:
        return module_name(base64.b64decode(self.body)) or self.instruction

    def vmem(self, entry: str) -> int:
        return sum(int(c["size"]) for c in self.notes.get(entry, ()) if c["memory_space"] == VMEM)


def calls(hlo: str) -> Iterator[Call]:
    """The kernels' instructions in the text of a compiled program."""
    types = {}
    for line in hlo.splitlines():
        defined, call = _DEFINITION.match(line), _CALL.search(line)
        if defined:
            types[defined["name"]] = defined["type"]
        if defined and call:
            notes, _ = json.JSONDecoder().raw_decode(line, line.index("backend_config=") + len("backend_config="))
            shared = re.search(r"output_to_operand_aliasing=\{(.*?)\}, ", line)
            aliased = {int(n) for n in re.findall(r"\((\d+),", shared[1])} if shared else set()
            operands = [o.strip().lstrip("%") for o in call["operands"].split(",")]
            held = [types.get(o, "") for i, o in enumerate(operands) if i not in aliased]
            yield Call(defined["name"], notes, sum(map(resident_bytes, [defined["type"], *held])))


def resident_bytes(text: str) -> int:
    """The bytes of those arrays of a type that are in VMEM, in the tiles of their layouts.

    >>> resident_bytes("(f32[5,100]{1,0:T(8,128)S(1)}, bf16[8,128]{1,0:T(8,128)(2,1)})")
    4096
    """
    total = 0
    for found in _TYPE.finditer(text):
        if f"S({VMEM})" in found["layout"]:
            sizes = [int(n) for n in found["sizes"].split(",") if n]
            sizes = [sizes[int(d)] for d in reversed(found["order"].split(","))] if sizes else [1]
            tile = re.match(r"T\(([\d,]+)\)", found["layout"])
            for back, unit in enumerate(reversed(tile[1].split(",")) if tile else (), 1):
                if back <= len(sizes):
                    sizes[-back] = -(-sizes[-back] // int(unit)) * int(unit)
            bits = re.search(r"\d+", found["element"])
            total += math.prod(sizes) * int(bits[0] if bits else 8) // 8
    return total


def resources(hlo: str, target: Target, estimates: Mapping[str, Any] | None = None) -> tuple[Resources, ...]:
    """For each kernel of a compiled program, VMEM used and the limit; with `estimates` (by instruction) also those.

    The compiler estimates equal instructions once, under the name of one of them.
    """
    found, by_body = [], {}
    every = list(calls(hlo))
    for call in every:
        estimate = (estimates or {}).get(call.instruction)
        if estimate is not None and estimate.cycles is not None:
            by_body[call.body] = estimate
    for call in every:
        estimate = (estimates or {}).get(call.instruction)
        if estimate is None or estimate.cycles is None:
            estimate = by_body.get(call.body)
        limit = call.vmem("scoped_memory_configs") or target.default_bytes
        found.append(Resources(
            call.kernel, call.vmem("used_scoped_memory_configs"), limit,
            spills=getattr(estimate, "spills", None), cycles=getattr(estimate, "cycles", None),
            bundles=getattr(estimate, "bundles", None), resident=call.resident,
        ))  # fmt: skip
    return tuple(found)
